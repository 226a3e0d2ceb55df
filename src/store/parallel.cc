// SPDX-License-Identifier: Apache-2.0
#include "store/parallel.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "os/os.h"

namespace weig {

Status run_in_parallel(std::uint64_t count,
                       const std::function<Status(std::uint64_t)>& part) {
  std::atomic<std::uint64_t> next = 0;
  std::mutex mutex;
  std::optional<Error> failure;
  std::uint64_t failed = count;
  std::atomic<bool> stop = false;
  const auto work = [&] {
    for (std::uint64_t i; !stop && (i = next++) < count;) {
      Status status = part(i);
      if (status) continue;
      const std::lock_guard lock(mutex);
      stop = true;
      if (i >= failed) continue;
      failed = i;
      failure = std::move(status).error();
    }
  };
  std::vector<std::thread> threads;
  const std::uint64_t helpers = std::min<std::uint64_t>(os::usable_cpus(), count) - 1;
  for (std::uint64_t i = 0; i < helpers; ++i) threads.emplace_back(work);
  work();
  for (std::thread& thread : threads) thread.join();
  if (failure) return *std::move(failure);
  return {};
}

}  // namespace weig
