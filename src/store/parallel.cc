// SPDX-License-Identifier: Apache-2.0
#include "store/parallel.h"

#include <weig/host.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <optional>

#include "os/os.h"

namespace weig {

namespace {

// What the threads share.
struct Work {
  const std::function<Status(std::uint64_t)>& part;
  const std::uint64_t count;
  std::atomic<std::uint64_t> next = 0;
  std::atomic<bool> stop = false;
  std::mutex mutex;  // guards what follows
  std::uint64_t failed;
  std::optional<Error> failure;

  void run() {
    for (std::uint64_t i; !stop && (i = next++) < count;) {
      Status status = part(i);
      if (status) continue;
      const std::lock_guard lock(mutex);
      stop = true;
      if (i >= failed) continue;
      failed = i;
      failure = std::move(status).error();
    }
  }
};

}  // namespace

Status run_in_parallel(std::uint64_t count,
                       const std::function<Status(std::uint64_t)>& part) {
  Work work{.part = part, .count = count, .mutex = {}, .failed = count, .failure = {}};
  const auto threads =
      count < 2 ? 1U
                : static_cast<unsigned>(std::min<std::uint64_t>(usable_cpus(), count));
  os::run_on_threads(
      threads, [](void* given) { static_cast<Work*>(given)->run(); }, &work);
  if (work.failure) return *std::move(work.failure);
  return {};
}

}  // namespace weig
