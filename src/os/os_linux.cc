// SPDX-License-Identifier: Apache-2.0
// The part of os.h that is Linux's own: advice, direct I/O, reserving space, rename,
// and when a file came into being.
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "core/try.h"
#include "os/os.h"

namespace weig::os {
namespace {

// Direct writes pay off where the file is too long to be wanted in the page cache at
// once; shorter ones stay there, warm for their first reader (docs/loading.md).
constexpr std::uint64_t kDirectFrom = std::uint64_t{512} << 20;
// What direct I/O demands of offsets, lengths and memory on every common device.
constexpr std::uint64_t kDirectAlignment = 4096;

}  // namespace

void InputFile::expect_random() const noexcept {
  ::posix_fadvise(descriptor_.number(), 0, 0, POSIX_FADV_RANDOM);
}
void InputFile::expect_sequential() const noexcept {
  ::posix_fadvise(descriptor_.number(), 0, 0, POSIX_FADV_SEQUENTIAL);
}
void InputFile::will_need(std::uint64_t offset, std::uint64_t length) const noexcept {
  // A call reads no more than the read-ahead, and says nothing of the rest.
  constexpr std::uint64_t kLeastReadAhead = std::uint64_t{128} << 10;
  for (std::uint64_t at = 0; at < length; at += kLeastReadAhead)
    ::posix_fadvise(descriptor_.number(), static_cast<off_t>(offset + at),
                    static_cast<off_t>(std::min(kLeastReadAhead, length - at)),
                    POSIX_FADV_WILLNEED);
}

namespace {

std::string self_path(const Descriptor& descriptor) {
  return "/proc/self/fd/" + std::to_string(descriptor.number());
}

}  // namespace

namespace {

// Unsigned: some file systems keep years that do not fit.
template <typename Time>
std::uint64_t nanoseconds(const Time& time) {
  return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000 +
         static_cast<std::uint64_t>(time.tv_nsec);
}

// By statx, which alone tells when a file came into being; where a sandbox refuses
// that, by fstatat. Nothing, and errno, where neither is had.
std::optional<FileStamp> stamp_at(int folder, const char* path, int flags) noexcept {
  constexpr unsigned kWanted = STATX_BASIC_STATS | STATX_BTIME;
  struct statx told;
  if (::statx(folder, path, flags, kWanted, &told) == 0)
    return FileStamp{
        .id = {makedev(told.stx_dev_major, told.stx_dev_minor), told.stx_ino},
        .size = told.stx_size,
        .modified = nanoseconds(told.stx_mtime),
        .born = (told.stx_mask & STATX_BTIME) != 0 ? nanoseconds(told.stx_btime) : 0,
        .touched = nanoseconds(told.stx_ctime),
        .attributes = {told.stx_mode, told.stx_uid, told.stx_gid, told.stx_nlink}};
  if (errno != EPERM && errno != ENOSYS) return {};
  struct stat status;
  if (::fstatat(folder, path, &status, flags & AT_EMPTY_PATH) != 0) return {};
  return FileStamp{
      .id = {static_cast<std::uint64_t>(status.st_dev),
             static_cast<std::uint64_t>(status.st_ino)},
      .size = static_cast<std::uint64_t>(status.st_size),
      .modified = nanoseconds(status.st_mtim),
      .born = 0,
      .touched = nanoseconds(status.st_ctim),
      .attributes = {status.st_mode, status.st_uid, status.st_gid, status.st_nlink}};
}

}  // namespace

FileStamp InputFile::stamp() const noexcept {
  return stamp_of(descriptor_).value_or(FileStamp());
}

std::optional<FileStamp> stamp_of(const Descriptor& file) noexcept {
  return stamp_at(file.number(), "", AT_EMPTY_PATH | AT_STATX_FORCE_SYNC);
}

Result<std::optional<FileStamp>> stamp_of(const std::string& path) {
  auto stamp = stamp_at(AT_FDCWD, path.c_str(), 0);
  if (stamp || errno == ENOENT || errno == ENOTDIR) return stamp;
  return system_error(Code::cannot_open, "look at the file", errno);
}

bool InputFile::use_direct_io() noexcept {
  direct_ = Descriptor(
      ::open(self_path(descriptor_).c_str(), O_RDONLY | O_CLOEXEC | O_DIRECT));
  return static_cast<bool>(direct_);
}

Result<Descriptor> InputFile::anchor() const {
  Descriptor anchor(::open(self_path(descriptor_).c_str(), O_PATH | O_CLOEXEC));
  if (!anchor)
    return system_error(Code::unsupported, "hold on to the file through /proc", errno);
  return anchor;
}

Result<InputFile> InputFile::open_again(const Descriptor& anchor, std::string path) {
  Descriptor descriptor(
      ::open(self_path(anchor).c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!descriptor)
    return system_error(Code::cannot_open, "open the file again", errno).file(path);
  return adopt(std::move(descriptor), std::move(path));
}

Status InputFile::drop_cache(std::uint64_t offset, std::uint64_t length) const {
  if (length == 0) return {};  // which would mean: to the end
  // Pages that are not yet written cannot be dropped.
  if (::fdatasync(descriptor_.number()) != 0 && errno != EINVAL && errno != EROFS)
    return system_error(Code::io, "write back the file", errno).file(path_);
  const int failed = ::posix_fadvise(descriptor_.number(), static_cast<off_t>(offset),
                                     static_cast<off_t>(length), POSIX_FADV_DONTNEED);
  if (failed)
    return system_error(Code::io, "drop the file's pages", failed).file(path_);
  return {};
}

Result<Mapping> Mapping::shared_memory(std::uint64_t length, const std::string& name) {
  Descriptor memory(::memfd_create(name.c_str(), MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!memory || ::ftruncate(memory.number(), static_cast<off_t>(length)) != 0)
    return system_error(Code::no_memory, "make shared memory", errno);
  WEIG_TRY_ASSIGN(mapping, anonymous(length));  // the addresses
  if (::mmap(mapping.data_, length, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
             memory.number(), 0) == MAP_FAILED)
    return system_error(Code::no_memory, "map shared memory", errno);
  mapping.advise_huge(0);
  mapping.shared_ = std::move(memory);
  return std::move(mapping);
}

// A shared mapping that could be written would forbid the seal, and a private one that
// nobody writes shares its pages all the same.
Status Mapping::seal() {
  if (::mmap(data_, size_, PROT_READ, MAP_PRIVATE | MAP_FIXED, shared_.number(), 0) ==
      MAP_FAILED)
    return system_error(Code::no_memory, "map shared memory for reading", errno);
  advise_huge(0);
  if (::fcntl(shared_.number(), F_ADD_SEALS,
              F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL) != 0)
    return system_error(Code::io, "seal shared memory", errno);
  Status mapped = populate(0, size_);
  if (!mapped && mapped.error().code() != Code::unsupported) return mapped;
  return {};
}

bool Mapping::advise_huge(std::uint64_t offset) noexcept {
  if (size_ < kHugePage || offset >= size_) return true;
  return ::madvise(data_ + offset, size_ - offset, MADV_HUGEPAGE) == 0;
}

void Mapping::expect_random(std::uint64_t offset, std::uint64_t length) const noexcept {
  ::madvise(data_ + offset, length, MADV_RANDOM);
}

Status Mapping::populate(std::uint64_t offset, std::uint64_t length) const {
  constexpr int kPopulateRead = 22;  // MADV_POPULATE_READ, of linux/mman.h since 5.14
  const std::uint64_t first =
      align_down(offset, static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE)));
  while (::madvise(data_ + first, length + (offset - first), kPopulateRead) != 0) {
    switch (errno) {
      case EINTR:
        continue;
      case EINVAL:
        return Error(Code::unsupported,
                     "this kernel cannot populate mappings (before Linux 5.14)");
      case EFAULT:  // what a page fault would have raised SIGBUS for
        return Error(Code::corrupt, "the file cannot be read here")
            .at(offset)
            .hint("it was cut while in use, or its disk failed");
      case ENOMEM:
        return system_error(Code::no_memory, "populate the mapping", errno).at(offset);
      default:
        return system_error(Code::io, "populate the mapping", errno).at(offset);
    }
  }
  return {};
}

void Mapping::touch(std::uint64_t offset, std::uint64_t length) const noexcept {
  constexpr std::uint64_t kSmallestPage = 4096;
  volatile const std::byte* data = data_;
  for (std::uint64_t at = offset; at < offset + length; at += kSmallestPage)
    static_cast<void>(data[at]);
}

Status Mapping::replace_with(Mapping other) {
  const std::vector<FileRange> parts = mapped({0, size_});
  other.holes_.reserve(other.holes_.size() + parts.size());  // what has moved is noted
  for (const FileRange& part : parts) {
    if (::mremap(other.data_ + part.begin, part.size(), part.size(),
                 MREMAP_MAYMOVE | MREMAP_FIXED, data_ + part.begin) == MAP_FAILED)
      return system_error(Code::no_memory, "move memory into the mapping's place",
                          errno);
    of_file_ = false;
    other.note_hole(part);
  }
  return {};
}

Status OutputFile::reserve(std::uint64_t bytes) {
  const int number = file_.number();
  // Both calls: allocation where the file system can, the right length everywhere.
  if (::fallocate(number, 0, 0, static_cast<off_t>(bytes)) != 0) {
    if (errno != EOPNOTSUPP && errno != ENOSYS && errno != EINTR)
      return system_error(Code::io,
                          "reserve " + std::to_string(bytes) + " bytes for the output",
                          errno)
          .file(target_);
    if (::ftruncate(number, static_cast<off_t>(bytes)) != 0)
      return system_error(Code::io, "set the output's size", errno).file(target_);
  }
  if (bytes < kDirectFrom) return {};
  const std::string self = "/proc/self/fd/" + std::to_string(number);
  direct_ = Descriptor(::open(self.c_str(), O_WRONLY | O_CLOEXEC | O_DIRECT));
  return {};  // without direct I/O, buffered writes do
}

Status OutputFile::write(std::uint64_t offset, Bytes bytes) {
  while (!bytes.empty()) {
    const bool aligned = is_aligned(
        offset | reinterpret_cast<std::uintptr_t>(bytes.data()), kDirectAlignment);
    const std::uint64_t whole = align_down(bytes.size(), kDirectAlignment);
    const bool direct = direct_ && aligned && whole > 0;
    const ssize_t written =
        ::pwrite(direct ? direct_.number() : file_.number(), bytes.data(),
                 direct ? whole : bytes.size(), static_cast<off_t>(offset));
    if (written <= 0) {
      if (written < 0 && errno == EINTR) continue;
      if (direct && errno == EINVAL) {
        direct_ = {};
        continue;
      }
      return system_error(Code::io, "write", written < 0 ? errno : EIO)
          .file(target_)
          .at(offset);
    }
    bytes = bytes.subspan(static_cast<std::size_t>(written));
    offset += static_cast<std::uint64_t>(written);
  }
  return {};
}

Status OutputFile::publish() {
  // Never over a file that came into being meanwhile, unless replacing was asked for.
  const unsigned flags = existing_ == IfExists::refuse ? RENAME_NOREPLACE : 0;
  int result =
      ::renameat2(AT_FDCWD, temporary_.c_str(), AT_FDCWD, target_.c_str(), flags);
  if (result != 0 && flags != 0 && errno == EINVAL) {
    // The file system cannot: link() refuses an existing name as well.
    result = ::link(temporary_.c_str(), target_.c_str());
    if (result == 0) ::unlink(temporary_.c_str());
  }
  if (result != 0) {
    if (errno == EEXIST)
      return Error(Code::exists, "the output exists already").file(target_);
    return system_error(Code::io, "give the output its name", errno).file(target_);
  }
  temporary_.clear();
  published_ = target_;
  const std::size_t slash = target_.rfind('/');
  const std::string folder = slash == target_.npos ? "."
                             : slash == 0          ? "/"
                                                   : target_.substr(0, slash);
  const Descriptor handle(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  // A folder that may be written to but not read is synced with its file system.
  result = handle ? ::fsync(handle.number()) : ::syncfs(file_.number());
  // Some file systems cannot sync a folder; the rename itself has happened.
  if (result != 0 && errno != EINVAL && errno != EROFS)
    return system_error(Code::io, "sync the output's folder", errno)
        .file(target_)
        .hint("the output is complete, but a power failure may undo its name");
  return {};
}

}  // namespace weig::os
