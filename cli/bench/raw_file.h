// SPDX-License-Identifier: Apache-2.0
// RawFile and RawMemory: a file and memory by plain system calls, as programs use them
// that know nothing of weig. Their calls to the operating system are in raw_file.cc.
#pragma once

#include <weig/error.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace weig::cli::bench {

enum class Through { page_cache, direct_io };

// Open for reading; reading is thread-safe. Move-only.
class RawFile {
 public:
  // Fails with cannot_open, and with unsupported where there is no direct I/O.
  static Result<RawFile> open(const std::string& path, Through through);
  RawFile(RawFile&& other) noexcept;
  RawFile& operator=(RawFile&&) = delete;
  ~RawFile();

  std::uint64_t size() const noexcept { return size_; }
  int number() const noexcept { return number_; }

  // Reads once, at most `out.size()` bytes; how many. 0 at the end of the file.
  Result<std::size_t> read(std::uint64_t offset, std::span<std::byte> out) const;
  // Fills `out`. Fails with corrupt where the file ends before.
  Status fill(std::uint64_t offset, std::span<std::byte> out) const;

 private:
  RawFile() = default;

  std::string path_;
  int number_ = -1;
  std::uint64_t size_ = 0;
};

enum class Pages { as_they_come, huge };

// Memory from the system. Move-only.
class RawMemory {
 public:
  RawMemory() = default;
  // A file mapped as mmap gives it: no alignment, no advice.
  static Result<RawMemory> of_file(const RawFile& file);
  // Zeroed. Huge pages are on 2 MiB, and a hint.
  static Result<RawMemory> anonymous(std::uint64_t bytes, Pages pages);
  RawMemory(RawMemory&& other) noexcept;
  RawMemory& operator=(RawMemory&&) = delete;
  ~RawMemory();

  const std::byte* data() const noexcept { return data_; }
  std::span<std::byte> span() noexcept { return {data_, size_}; }

 private:
  void* mapped_ = nullptr;
  std::size_t mapped_size_ = 0;
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace weig::cli::bench
