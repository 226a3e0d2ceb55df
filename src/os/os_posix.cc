// SPDX-License-Identifier: Apache-2.0
// The part of os.h that any POSIX system has.
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <random>
#include <system_error>
#include <utility>

#include "core/try.h"
#include "os/os.h"

namespace weig::os {
namespace {

// One read or write call moves at most this (the kernel's own limit is just below
// 2 GiB).
constexpr std::size_t kMaxTransfer = std::size_t{1} << 30;

std::string folder_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  if (slash == path.npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

std::string base_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  return slash == path.npos ? path : path.substr(slash + 1);
}

const char* kind_of(mode_t mode) {
  if (S_ISDIR(mode)) return "a folder";
  if (S_ISFIFO(mode)) return "a pipe";
  if (S_ISCHR(mode) || S_ISBLK(mode)) return "a device";
  if (S_ISSOCK(mode)) return "a socket";
  return "a special file";
}

std::string random_suffix() {
  constexpr char kLetters[] = "abcdefghijklmnopqrstuvwxyz0123456789";
  std::random_device device;
  std::string out;
  for (int i = 0; i < 8; ++i) out += kLetters[device() % (sizeof kLetters - 1)];
  return out;
}

}  // namespace

Error system_error(Code code, std::string action, int error_number) {
  Error error(code, "cannot " + std::move(action) + ": " +
                        std::generic_category().message(error_number));
  if (error_number != EMFILE) return error;
  return std::move(error).hint("'ulimit -n' tells the limit, and raises it");
}

Descriptor::Descriptor(Descriptor&& other) noexcept
    : number_(std::exchange(other.number_, -1)) {}
Descriptor& Descriptor::operator=(Descriptor&& other) noexcept {
  Descriptor taken(std::move(other));
  std::swap(number_, taken.number_);
  return *this;
}
Descriptor::~Descriptor() {
  if (number_ >= 0) ::close(number_);
}

Result<InputFile> InputFile::open(const std::string& path) {
  if (path.find('\0') != path.npos)
    return Error(Code::cannot_open, "the path holds a NUL character").file(path);
  Descriptor descriptor(
      ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!descriptor)
    return system_error(Code::cannot_open, "open the file", errno).file(path);
  return adopt(std::move(descriptor), path);
}

Result<InputFile> InputFile::adopt(Descriptor descriptor, std::string path) {
  const auto failed = [&](Error error) { return std::move(error).file(path); };
  InputFile file;
  file.descriptor_ = std::move(descriptor);
  struct stat status;
  if (::fstat(file.descriptor_.number(), &status) != 0)
    return failed(system_error(Code::cannot_open, "ask for the file's size", errno));
  if (!S_ISREG(status.st_mode))
    return failed(
        Error(Code::cannot_open, "not a regular file").found(kind_of(status.st_mode)));
  file.size_ = static_cast<std::uint64_t>(status.st_size);
  file.permissions_ = status.st_mode & 0777;
  file.id_ = {static_cast<std::uint64_t>(status.st_dev),
              static_cast<std::uint64_t>(status.st_ino)};
  file.path_ = std::move(path);
  return file;
}

std::optional<std::uint64_t> InputFile::current_size() const noexcept {
  struct stat status;
  if (::fstat(descriptor_.number(), &status) != 0) return {};
  return static_cast<std::uint64_t>(status.st_size);
}

Status InputFile::read(std::uint64_t offset, MutableBytes out) const {
  bool direct = static_cast<bool>(direct_);
  while (!out.empty()) {
    const Descriptor& from = direct ? direct_ : descriptor_;
    const ssize_t got =
        ::pread(from.number(), out.data(), std::min(out.size(), kMaxTransfer),
                static_cast<off_t>(offset));
    if (got < 0) {
      if (errno == EINTR) continue;
      if (direct && errno == EINVAL) {  // not aligned as the device wants it
        direct = false;
        continue;
      }
      return system_error(Code::io, "read", errno).file(path_).at(offset);
    }
    if (got == 0)
      return Error(Code::corrupt, "the file ends before its data")
          .file(path_)
          .at(offset)
          .hint("it was cut while it was read");
    out = out.subspan(static_cast<std::size_t>(got));
    offset += static_cast<std::uint64_t>(got);
  }
  return {};
}

Mapping::Mapping(Mapping&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)),
      of_file_(other.of_file_),
      shared_(std::move(other.shared_)),
      holes_(std::exchange(other.holes_, {})),
      writable_(std::exchange(other.writable_, {})) {}
Mapping& Mapping::operator=(Mapping&& other) noexcept {
  Mapping taken(std::move(other));  // in this order, self-move is harmless
  std::swap(data_, taken.data_);
  std::swap(size_, taken.size_);
  std::swap(of_file_, taken.of_file_);
  std::swap(shared_, taken.shared_);
  std::swap(holes_, taken.holes_);
  std::swap(writable_, taken.writable_);
  return *this;
}
Mapping::~Mapping() {
  if (data_) unmap_all();
}

// Allocates nothing: what lies in a hole may be somebody else's by now.
void Mapping::unmap_all() noexcept {
  std::uint64_t at = 0;
  for (const FileRange& hole : holes_) {
    if (hole.begin > at) ::munmap(data_ + at, hole.begin - at);
    at = hole.end;
  }
  if (size_ > at) ::munmap(data_ + at, size_ - at);
}

std::vector<FileRange> Mapping::mapped(FileRange range) const {
  const FileRange wanted{range.begin, std::min(range.end, size_)};
  std::vector<FileRange> parts;
  std::uint64_t at = wanted.begin;
  for (const FileRange& hole : holes_) {
    if (hole.begin >= wanted.end) break;
    if (hole.begin > at) parts.push_back({at, hole.begin});
    at = std::max(at, hole.end);
  }
  if (wanted.end > at) parts.push_back({at, wanted.end});
  return parts;
}

bool Mapping::is_mapped(FileRange range) const noexcept {
  if (range.end > size_) return false;
  const auto apart = [&](const FileRange& hole) {
    return hole.end <= range.begin || hole.begin >= range.end;
  };
  return range.size() == 0 || std::ranges::all_of(holes_, apart);
}

std::uint64_t Mapping::mapped_bytes() const noexcept {
  std::uint64_t bytes = size_;
  for (const FileRange& hole : holes_) bytes -= hole.size();
  return bytes;
}

namespace {

// The pages of a mapping of `size` bytes that lie wholly in a range; its last page may
// be used in part.
FileRange whole_pages(FileRange range, std::uint64_t size) {
  const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  const std::uint64_t begin = align_up(std::min(range.begin, size), page);
  const std::uint64_t end = range.end >= size ? size : align_down(range.end, page);
  return {begin, std::max(begin, end)};
}

}  // namespace

void Mapping::note_hole(FileRange hole) {
  const auto after =
      std::ranges::upper_bound(holes_, hole.begin, {}, &FileRange::begin);
  auto at = holes_.insert(after, hole);
  if (at != holes_.begin() && std::prev(at)->end == hole.begin) {
    std::prev(at)->end = hole.end;
    at = std::prev(holes_.erase(at));
  }
  if (const auto next = std::next(at); next != holes_.end() && next->begin == at->end) {
    at->end = next->end;
    holes_.erase(next);
  }
}

Status Mapping::drop(FileRange range) const {
  if (!of_file_)
    return Error(Code::unsupported, "memory of the process's own cannot be released");
  const auto overlaps = [&](const FileRange& part) {
    return std::ranges::any_of(writable_, [&](const FileRange& written) {
      return written.begin < part.end && written.end > part.begin;
    });
  };
  for (const FileRange& part : mapped(whole_pages(range, size_))) {
    if (overlaps(part))
      return Error(Code::unsupported, "pages that may have been written would be lost")
          .at(part.begin);
    if (::madvise(data_ + part.begin, part.size(), MADV_DONTNEED) == 0) continue;
    if (errno == EINVAL)
      return Error(Code::limit, "pages that are locked cannot be released")
          .at(part.begin);
    return system_error(Code::io, "release pages of the mapping", errno).at(part.begin);
  }
  return {};
}

Status Mapping::make_writable(FileRange range) {
  const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  const FileRange pages{align_down(range.begin, page), align_up(range.end, page)};
  writable_.push_back(pages);
  if (::mprotect(data_ + pages.begin, pages.size(), PROT_READ | PROT_WRITE) == 0)
    return {};
  writable_.pop_back();
  return system_error(Code::no_memory, "make pages writable", errno).at(pages.begin);
}

Status Mapping::unmap(FileRange range) {
  const std::vector<FileRange> parts = mapped(whole_pages(range, size_));
  holes_.reserve(holes_.size() + parts.size());  // what is gone has to be noted
  for (const FileRange& part : parts) {
    if (::munmap(data_ + part.begin, part.size()) != 0)
      return system_error(Code::no_memory, "unmap a part of the file", errno)
          .at(part.begin);
    note_hole(part);
  }
  return {};
}

namespace {

// Address space of `length` bytes on a 2 MiB boundary, not yet usable.
Result<std::byte*> reserve_aligned(std::uint64_t length) {
  const std::uint64_t room = length + kHugePage;
  void* at = ::mmap(nullptr, room, PROT_NONE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED)
    return system_error(Code::no_memory,
                        "reserve " + std::to_string(room) + " bytes of address space",
                        errno);
  auto* begin = static_cast<std::byte*>(at);
  const auto address = reinterpret_cast<std::uintptr_t>(at);
  const std::uint64_t before = align_up(address, kHugePage) - address;
  const std::uint64_t used =
      align_up(length, static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE)));
  if (before > 0) ::munmap(begin, before);
  if (room - before > used) ::munmap(begin + before + used, room - before - used);
  return begin + before;
}

}  // namespace

Result<Mapping> Mapping::of_file(const InputFile& file, std::uint64_t length) {
  std::byte* at = nullptr;
  int flags = MAP_PRIVATE;
  if (length >= kHugePage) {
    WEIG_TRY_ASSIGN(reserved, reserve_aligned(length));
    at = reserved;
    flags |= MAP_FIXED;
  }
  // Weights are read-only: nothing is ever written through this mapping.
  void* mapped = ::mmap(at, length, PROT_READ, flags, file.descriptor(), 0);
  if (mapped == MAP_FAILED) {
    const int error_number = errno;
    if (at) ::munmap(at, length);
    return system_error(Code::io, "map the file", error_number).file(file.path());
  }
  Mapping mapping;
  mapping.data_ = static_cast<std::byte*>(mapped);
  mapping.size_ = length;
  mapping.of_file_ = true;
  return mapping;
}

Result<Mapping> Mapping::anonymous(std::uint64_t length) {
  WEIG_TRY_ASSIGN(at, reserve_aligned(length));
  Mapping mapping;
  mapping.data_ = at;
  mapping.size_ = length;
  if (::mprotect(at, length, PROT_READ | PROT_WRITE) != 0)
    return system_error(Code::no_memory,
                        "get " + std::to_string(length) + " bytes of memory", errno);
  mapping.advise_huge(0);
  return mapping;
}

Status Mapping::make_read_only() {
  if (shared_) return seal();
  if (::mprotect(data_, size_, PROT_READ) != 0)
    return system_error(Code::io, "make memory read-only", errno);
  return {};
}

std::optional<std::string> Mapping::shared_path() const {
  if (!shared_) return {};
  return "/proc/" + std::to_string(::getpid()) + "/fd/" +
         std::to_string(shared_.number());
}

Result<OutputFile> OutputFile::create(const std::string& path, IfExists existing,
                                      std::uint32_t permissions) {
  const auto failed = [&](Error error) { return std::move(error).file(path); };
  OutputFile out;
  out.existing_ = existing;
  out.target_ = path;
  mode_t mode = permissions;
  bool keep_mode = false;
  struct stat status;
  if (::stat(path.c_str(), &status) == 0) {
    if (!S_ISREG(status.st_mode))
      return failed(Error(Code::cannot_open, "the output is not a regular file")
                        .found(kind_of(status.st_mode)));
    if (existing == IfExists::refuse)
      return failed(Error(Code::exists, "the output exists already"));
    mode = status.st_mode & 07777;
    keep_mode = true;
    // Through a symbolic link, the file that it names is replaced, not the link.
    if (char* real = ::realpath(path.c_str(), nullptr)) {
      out.target_ = real;
      std::free(real);
    }
  } else if (errno != ENOENT) {
    return failed(system_error(Code::cannot_open, "look at the output", errno));
  } else if (::lstat(path.c_str(), &status) == 0) {
    return failed(Error(Code::cannot_open, "the output is a link to nothing"));
  }

  const std::string folder = folder_of(out.target_);
  std::string base = base_of(out.target_);
  if (base.empty() || base == "." || base == "..")
    return failed(Error(Code::cannot_open, "the output is not a file's name"));
  // Long names stay below the limit with prefix and suffix.
  base.resize(std::min<std::size_t>(base.size(), NAME_MAX - 20));
  for (int tries = 0; !out.file_; ++tries) {
    out.temporary_ = folder + "/." + base + "." + random_suffix() + ".part";
    // Nobody may open it before it has the mode that it will keep.
    const mode_t first = keep_mode ? mode_t{0600} : mode;
    out.file_ = Descriptor(
        ::open(out.temporary_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, first));
    if (!out.file_ && (errno != EEXIST || tries == 100)) {
      const int error_number = errno;
      out.temporary_.clear();
      return failed(
          system_error(Code::cannot_open, "create a file in " + folder, error_number));
    }
  }
  if (keep_mode && ::fchmod(out.file_.number(), mode) != 0)
    return failed(system_error(Code::io, "set the output's mode", errno));
  return out;
}

OutputFile::OutputFile(OutputFile&& other) noexcept
    : target_(std::exchange(other.target_, {})),
      temporary_(std::exchange(other.temporary_, {})),
      published_(std::exchange(other.published_, {})),
      file_(std::move(other.file_)),
      direct_(std::move(other.direct_)),
      existing_(other.existing_) {}
OutputFile& OutputFile::operator=(OutputFile&& other) noexcept {
  OutputFile taken(std::move(other));
  std::swap(target_, taken.target_);
  std::swap(temporary_, taken.temporary_);
  std::swap(published_, taken.published_);
  std::swap(file_, taken.file_);
  std::swap(direct_, taken.direct_);
  std::swap(existing_, taken.existing_);
  return *this;
}
OutputFile::~OutputFile() { abandon(); }

void OutputFile::abandon() noexcept {
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
  temporary_.clear();
}

void OutputFile::retract() noexcept {
  if (!published_.empty()) ::unlink(published_.c_str());
  published_.clear();
}

Status OutputFile::sync() {
  if (::fsync(file_.number()) != 0)
    return system_error(Code::io, "sync the output", errno).file(target_);
  return {};
}

Result<OutputFolder> OutputFolder::create(const std::string& path) {
  OutputFolder out;
  out.target_ = path;
  while (out.target_.size() > 1 && out.target_.ends_with('/')) out.target_.pop_back();
  if (exists(out.target_)) {
    std::error_code error;
    if (!is_folder(out.target_) || !std::filesystem::is_empty(out.target_, error) ||
        error)
      return Error(Code::exists, "the output exists already, and is no empty folder")
          .file(path);
  }
  std::string base = base_of(out.target_);
  if (base.empty() || base == "." || base == "..")
    return Error(Code::cannot_open, "the output is not a folder's name").file(path);
  base.resize(std::min<std::size_t>(base.size(), NAME_MAX - 20));
  const std::string around = folder_of(out.target_);
  for (int tries = 0;; ++tries) {
    std::string temporary = around + "/." + base + "." + random_suffix() + ".part";
    if (::mkdir(temporary.c_str(), 0777) == 0) {
      out.temporary_ = std::move(temporary);
      return out;
    }
    if (errno != EEXIST || tries == 100)
      return system_error(Code::cannot_open, "create a folder in " + around, errno)
          .file(path);
  }
}

OutputFolder::~OutputFolder() {
  std::error_code ignored;
  if (!temporary_.empty()) std::filesystem::remove_all(temporary_, ignored);
}

Status OutputFolder::publish() {
  // Onto nothing, or onto a folder that is still empty.
  if (::rename(temporary_.c_str(), target_.c_str()) != 0) {
    if (errno == ENOTEMPTY || errno == EEXIST || errno == ENOTDIR)
      return Error(Code::exists, "the output exists already, and is no empty folder")
          .file(target_);
    return system_error(Code::io, "give the output its name", errno).file(target_);
  }
  temporary_.clear();
  const Descriptor around(
      ::open(folder_of(target_).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  // Some file systems cannot sync a folder; the rename itself has happened.
  if (around && ::fsync(around.number()) != 0 && errno != EINVAL && errno != EROFS)
    return system_error(Code::io, "sync the output's folder", errno)
        .file(target_)
        .hint("the output is complete, but a power failure may undo its name");
  return {};
}

Result<SetAside> SetAside::take(std::span<const std::string> paths) {
  SetAside taken;
  for (const std::string& path : paths) {
    std::string base = base_of(path);
    base.resize(std::min<std::size_t>(base.size(), NAME_MAX - 20));
    const std::string hidden =
        folder_of(path) + "/." + base + "." + random_suffix() + ".old";
    if (::rename(path.c_str(), hidden.c_str()) != 0)
      return system_error(Code::io, "set the old file aside", errno).file(path);
    taken.files_.push_back({path, hidden});
  }
  return taken;
}

SetAside::~SetAside() {
  for (const File& file : files_)
    if (!exists(file.path)) ::rename(file.hidden.c_str(), file.path.c_str());
}

void SetAside::remove() noexcept {
  for (const File& file : files_) ::unlink(file.hidden.c_str());
  files_.clear();
}

Result<FileId> file_id(const std::string& path) {
  struct stat status;
  if (::stat(path.c_str(), &status) != 0)
    return system_error(Code::cannot_open, "look at the file", errno).file(path);
  return FileId{static_cast<std::uint64_t>(status.st_dev),
                static_cast<std::uint64_t>(status.st_ino)};
}

bool is_folder(const std::string& path) {
  struct stat status;
  return ::stat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode);
}

void run_on_threads(unsigned count, void (*work)(void*), void* context) noexcept {
  struct Task {
    void (*work)(void*);
    void* context;
  } task{work, context};
  const auto enter = [](void* given) -> void* {
    const auto* one = static_cast<const Task*>(given);
    one->work(one->context);
    return nullptr;
  };
  constexpr unsigned kMost = 64;
  pthread_t threads[kMost];
  unsigned started = 0;
  while (started + 1 < std::min(count, kMost) &&
         ::pthread_create(&threads[started], nullptr, enter, &task) == 0)
    ++started;
  work(context);
  for (unsigned i = 0; i < started; ++i) ::pthread_join(threads[i], nullptr);
}

Result<std::vector<std::string>> names_in(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(folder, error), end;
       !error && entry != end; entry.increment(error))
    names.push_back(entry->path().filename().string() +
                    (entry->is_directory(error) ? "/" : ""));
  if (error)
    return system_error(Code::cannot_open, "read the folder", error.value())
        .file(folder);
  std::ranges::sort(names);
  return names;
}

bool is_file(const std::string& path) {
  struct stat status;
  return ::stat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode);
}

bool exists(const std::string& path) {
  struct stat status;
  return ::lstat(path.c_str(), &status) == 0;
}

}  // namespace weig::os
