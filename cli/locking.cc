// SPDX-License-Identifier: Apache-2.0
#include "locking.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "host.h"
#include "quantity.h"

namespace weig::cli {
namespace {

// One call locks so much: between calls a signal is noticed. Whole huge pages, so that
// no lock splits one.
constexpr std::uint64_t kStep = std::uint64_t{64} << 20;
// Towards the limit, steps are halved down to this.
constexpr std::uint64_t kLeastStep = 4096;

Error refusal(std::uint64_t bytes, const LockLimit& limit) {
  return Error(Code::limit,
               fmt::format("cannot lock {} in memory, so nothing is locked",
                           full_bytes(bytes)))
      .found("a limit (RLIMIT_MEMLOCK) of " + full_bytes(limit.soft.value_or(0)))
      .hint("to raise it: " + how_to_raise_lock_limit() +
            "; --lock-what-fits locks less");
}

bool stopped(Status& status) {
  if (stop_signal() == 0) return false;
  status = Error(Code::cancelled, "interrupted");
  return true;
}

// Locks one range in steps. For what_fits, ends quietly at the limit and says so.
Status lock_range(std::span<const std::byte> bytes, LockAmount amount, MemoryLock& lock,
                  bool& full) {
  std::uint64_t step = kStep;
  Status status;
  for (std::uint64_t at = 0; at < bytes.size() && !full && !stopped(status);) {
    const std::uint64_t length = std::min(step, bytes.size() - at);
    Status added = lock.add(bytes.subspan(at, length));
    if (added) {
      at += length;
    } else if (added.error().code() != Code::limit ||
               amount == LockAmount::everything) {
      return added;
    } else if (step > kLeastStep) {
      step /= 2;
    } else {
      full = true;
    }
  }
  return status;
}

}  // namespace

std::string lock_limit_text(const LockLimit& limit) {
  if (limit.ignored || !limit.soft) return "may lock any amount";
  return "may lock " + short_bytes(*limit.soft);
}

std::string how_to_raise_lock_limit() {
  return "'ulimit -l unlimited' in a shell that may, LimitMEMLOCK=infinity in a "
         "systemd unit, '--ulimit memlock=-1' for a container, or the capability "
         "CAP_IPC_LOCK";
}

Status check_lock_limit(std::uint64_t bytes) {
  const LockLimit limit = memory_lock_limit();
  if (limit.ignored || !limit.soft || bytes <= *limit.soft) return {};
  return refusal(bytes, limit);
}

Result<MemoryLock> lock_ranges(const Model& model, std::span<const FileRange> ranges,
                               LockAmount amount) {
  MemoryLock lock;
  bool full = false;
  for (const FileRange& range : ranges) {
    const auto bytes = model.mapped().subspan(range.begin, range.size());
    Status status = lock_range(bytes, amount, lock, full);
    if (status) continue;
    lock.release();
    if (status.error().code() != Code::limit) return std::move(status).error();
    std::uint64_t wanted = 0;
    for (const FileRange& each : ranges) wanted += each.size();
    return refusal(wanted, memory_lock_limit());
  }
  return lock;
}

}  // namespace weig::cli
