// SPDX-License-Identifier: Apache-2.0
// Keeping memory from being given back while a process lives: mlock, with an answer
// that says what became of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include <weig/error.h>

namespace weig {

// How much memory this process may lock (RLIMIT_MEMLOCK), and has locked.
struct LockLimit {
  std::optional<std::uint64_t> soft;  // bytes; nothing: unlimited
  std::optional<std::uint64_t> hard;  // up to which the process may raise it
  bool ignored = false;               // the process has the right to lock any amount
  std::uint64_t locked = 0;           // bytes
};
LockLimit memory_lock_limit();

// Pages that stay in memory as long as this object lives. Move-only. Not from two
// threads at once.
class MemoryLock {
 public:
  MemoryLock() = default;
  MemoryLock(MemoryLock&&) noexcept = default;
  MemoryLock& operator=(MemoryLock&&) noexcept;
  ~MemoryLock() { release(); }

  // Locks the pages that hold `bytes`, reading what is not in memory yet: all of them,
  // or none. They must stay mapped until they are released. Fails with limit where the
  // system allows no more, with io where the file cannot be read, and no_memory.
  Status add(std::span<const std::byte> bytes);
  // Bytes of pages that are locked.
  std::uint64_t bytes() const noexcept { return bytes_; }
  void release() noexcept;

 private:
  std::vector<std::span<const std::byte>> locked_;
  std::uint64_t bytes_ = 0;
};

}  // namespace weig
