// SPDX-License-Identifier: Apache-2.0
// mlock and its limit.
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>
#include <weig/memory_lock.h>

#include <cerrno>
#include <string>
#include <utility>

#include "core/bytes.h"
#include "os/host.h"
#include "os/os.h"

namespace weig {
namespace {

std::optional<std::uint64_t> limit_of(rlim_t value) {
  if (value == RLIM_INFINITY) return {};
  return value;
}

// The whole pages that hold `bytes`.
std::span<const std::byte> pages_of(std::span<const std::byte> bytes) {
  const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  const auto address = reinterpret_cast<std::uintptr_t>(bytes.data());
  const std::uint64_t before = address - align_down(address, page);
  return {bytes.data() - before, align_up(bytes.size() + before, page)};
}

constexpr unsigned kLockMemory = 14;  // CAP_IPC_LOCK

Error refusal(int error_number) {
  switch (error_number) {
    case ENOMEM:  // the limit: what is not mapped is a bug of the caller's
    case EPERM:
      return os::system_error(Code::limit, "lock memory", error_number);
    case EAGAIN:
      return os::system_error(Code::io, "read what is to be locked", error_number);
    default:
      return os::system_error(Code::no_memory, "lock memory", error_number);
  }
}

}  // namespace

LockLimit memory_lock_limit() {
  LockLimit limit{
      .soft = {},
      .hard = {},
      .ignored = os::has_capability(kLockMemory),
      .locked =
          os::number_after(os::read_text("/proc/self/status"), "VmLck").value_or(0) *
          1024};
  rlimit found{};
  if (::getrlimit(RLIMIT_MEMLOCK, &found) != 0) return limit;
  limit.soft = limit_of(found.rlim_cur);
  limit.hard = limit_of(found.rlim_max);
  return limit;
}

MemoryLock& MemoryLock::operator=(MemoryLock&& other) noexcept {
  MemoryLock taken(std::move(other));
  std::swap(locked_, taken.locked_);
  std::swap(bytes_, taken.bytes_);
  return *this;
}

Status MemoryLock::add(std::span<const std::byte> bytes) {
  if (bytes.empty()) return {};
  const std::span<const std::byte> pages = pages_of(bytes);
  if (::mlock(pages.data(), pages.size()) != 0) {
    const int error_number = errno;
    // Where pages could not be read, some are locked by now.
    ::munlock(pages.data(), pages.size());
    return refusal(error_number);
  }
  locked_.push_back(pages);
  bytes_ += pages.size();
  return {};
}

void MemoryLock::release() noexcept {
  for (const std::span<const std::byte> pages : locked_)
    ::munlock(pages.data(), pages.size());
  locked_.clear();
  bytes_ = 0;
}

}  // namespace weig
