// SPDX-License-Identifier: Apache-2.0
// MemoryClaim: memory that is about to be filled, promised once. The system counts what
// has been filled; what this process has promised to itself beyond that, only it knows,
// and what other processes have promised to themselves nobody does.
#pragma once

#include <weig/host.h>

#include <atomic>
#include <cstdint>
#include <optional>

namespace weig {

// A sum over the process. A forked child begins at nothing: what its parent does with
// its memory is no business of the child's.
class ByteTotal {
 public:
  std::uint64_t bytes() noexcept;

 private:
  friend class ByteShare;
  std::atomic<std::uint64_t> generation_ = 0;
  std::atomic<std::uint64_t> bytes_ = 0;
};

// A part of such a sum, until it goes. Move-only.
class ByteShare {
 public:
  ByteShare() = default;
  ByteShare(ByteTotal& total, std::uint64_t bytes) noexcept;
  ByteShare(ByteShare&& other) noexcept;
  ByteShare& operator=(ByteShare&& other) noexcept;
  ~ByteShare();

  // Nothing where the sum is not `before` any more.
  static std::optional<ByteShare> take(ByteTotal& total, std::uint64_t before,
                                       std::uint64_t bytes) noexcept;

  std::uint64_t bytes() const noexcept { return bytes_; }
  // Takes so many out of it, at most all. Thread-safe.
  void give_back(std::uint64_t bytes) noexcept;

 private:
  void set(ByteTotal& total, std::uint64_t bytes) noexcept;

  ByteTotal* total_ = nullptr;
  std::uint64_t generation_ = 0;
  std::atomic<std::uint64_t> bytes_ = 0;
};

class MemoryClaim {
 public:
  MemoryClaim() = default;
  // Claims so many bytes if there are so many; fits() tells.
  explicit MemoryClaim(std::uint64_t bytes);

  bool fits() const noexcept { return fits_; }
  // As the system had it, less what others of this process had claimed and not filled.
  const MemoryLimit& memory() const noexcept { return memory_; }

  // So many more are filled from now on. Thread-safe.
  void fill(std::uint64_t bytes) noexcept { left_.give_back(bytes); }
  std::uint64_t left() const noexcept { return left_.bytes(); }

 private:
  bool fits_ = false;
  MemoryLimit memory_;
  ByteShare left_;
};

}  // namespace weig
