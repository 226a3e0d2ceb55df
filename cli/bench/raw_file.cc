// SPDX-License-Identifier: Apache-2.0
#include "bench/raw_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

namespace weig::cli::bench {
namespace {

constexpr std::size_t kHugePage = std::size_t{2} << 20;

Error failed(Code code, std::string_view action, int error_number) {
  return Error(code, fmt::format("cannot {}: {}", action,
                                 std::generic_category().message(error_number)));
}

}  // namespace

Result<RawFile> RawFile::open(const std::string& path, Through through) {
  RawFile file;
  file.path_ = path;
  const bool direct = through == Through::direct_io;
  file.number_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | (direct ? O_DIRECT : 0));
  if (file.number_ < 0)
    return failed(direct && errno == EINVAL ? Code::unsupported : Code::cannot_open,
                  direct ? "open the file for direct I/O" : "open the file", errno)
        .file(path);
  struct stat status;
  if (::fstat(file.number_, &status) != 0)
    return failed(Code::cannot_open, "look at the file", errno).file(path);
  file.size_ = static_cast<std::uint64_t>(status.st_size);
  return file;
}

RawFile::RawFile(RawFile&& other) noexcept
    : path_(std::move(other.path_)),
      number_(std::exchange(other.number_, -1)),
      size_(other.size_) {}

RawFile::~RawFile() {
  if (number_ >= 0) ::close(number_);
}

Result<std::size_t> RawFile::read(std::uint64_t offset,
                                  std::span<std::byte> out) const {
  for (;;) {
    const ssize_t count =
        ::pread(number_, out.data(), out.size(), static_cast<off_t>(offset));
    if (count >= 0) return static_cast<std::size_t>(count);
    if (errno != EINTR)
      return failed(Code::io, "read the file", errno).file(path_).at(offset);
  }
}

Status RawFile::fill(std::uint64_t offset, std::span<std::byte> out) const {
  while (!out.empty()) {
    const auto count = read(offset, out);
    if (!count) return count.error();
    if (*count == 0)
      return Error(Code::corrupt, "the file was cut while in use").file(path_);
    offset += *count;
    out = out.subspan(*count);
  }
  return {};
}

Result<RawMemory> RawMemory::of_file(const RawFile& file) {
  RawMemory memory;
  if (file.size() == 0) return memory;
  void* at = ::mmap(nullptr, file.size(), PROT_READ, MAP_PRIVATE, file.number(), 0);
  if (at == MAP_FAILED) return failed(Code::io, "map the file", errno);
  memory.mapped_ = at;
  memory.data_ = static_cast<std::byte*>(at);
  memory.mapped_size_ = memory.size_ = file.size();
  return memory;
}

Result<RawMemory> RawMemory::anonymous(std::uint64_t bytes, Pages pages) {
  RawMemory memory;
  if (bytes == 0) return memory;
  const std::size_t spare = pages == Pages::huge ? kHugePage : 0;
  void* at = ::mmap(nullptr, bytes + spare, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) return failed(Code::no_memory, "get memory", errno);
  memory.mapped_ = at;
  memory.mapped_size_ = bytes + spare;
  memory.data_ = static_cast<std::byte*>(at);
  memory.size_ = bytes;
  if (pages == Pages::huge) {
    const auto address = reinterpret_cast<std::uintptr_t>(at);
    memory.data_ += (kHugePage - address % kHugePage) % kHugePage;
    ::madvise(memory.data_, bytes, MADV_HUGEPAGE);
  }
  return memory;
}

RawMemory::RawMemory(RawMemory&& other) noexcept
    : mapped_(std::exchange(other.mapped_, nullptr)),
      mapped_size_(other.mapped_size_),
      data_(other.data_),
      size_(other.size_) {}

RawMemory::~RawMemory() {
  if (mapped_ != nullptr) ::munmap(mapped_, mapped_size_);
}

}  // namespace weig::cli::bench
