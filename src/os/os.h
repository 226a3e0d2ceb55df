// SPDX-License-Identifier: Apache-2.0
// Every call to the operating system that the library makes. Knows nothing of formats.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <weig/error.h>
#include <weig/file_range.h>

#include "core/bytes.h"

namespace weig::os {

// Large pages and the pieces in which files are read and written.
inline constexpr std::uint64_t kHugePage = std::uint64_t{2} << 20;

// A failed call as an Error: "cannot ACTION: No space left on device".
Error system_error(Code code, std::string action, int error_number);

// Which file this is, whatever its name.
struct FileId {
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
  friend bool operator==(const FileId&, const FileId&) = default;
};

// What tells that a file is still the same, and was not written to. Times are in
// nanoseconds since 1970, modulo 2^64.
struct FileStamp {
  FileId id;
  std::uint64_t size = 0;
  std::uint64_t modified = 0;  // its content
  // When it came into being, so that another file is told from it which was given its
  // number after it was gone. 0 where the file system does not say.
  std::uint64_t born = 0;
  // The time that nobody can set (ctime); it also moves with the attributes.
  std::uint64_t touched = 0;
  std::array<std::uint64_t, 4> attributes{};  // mode, owner, group, number of links

  // Whether the file is another one, or may have been written to since. Who puts back
  // the time of its content is found out, unless he changes attributes as well.
  bool differs_from(const FileStamp& before) const noexcept {
    return id != before.id || size != before.size || modified != before.modified ||
           born != before.born ||
           (touched != before.touched && attributes == before.attributes);
  }
};
// Nothing where the path leads to nothing. Fails with cannot_open.
Result<std::optional<FileStamp>> stamp_of(const std::string& path);

// A descriptor, owned. Move-only.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int number) : number_(number) {}
  Descriptor(Descriptor&& other) noexcept;
  Descriptor& operator=(Descriptor&& other) noexcept;
  ~Descriptor();
  int number() const noexcept { return number_; }
  explicit operator bool() const noexcept { return number_ >= 0; }

 private:
  int number_ = -1;
};

// Of an open file, or what InputFile::anchor() holds on to; its server, where it has
// one, is asked anew. Nothing where it cannot be told.
std::optional<FileStamp> stamp_of(const Descriptor& file) noexcept;

// A regular file, open for reading. Reading is thread-safe.
class InputFile {
 public:
  // Never blocks on a FIFO or device: those are refused with cannot_open.
  static Result<InputFile> open(const std::string& path);
  // The same file once more, by what anchor() gave, whatever its path names by now.
  static Result<InputFile> open_again(const Descriptor& anchor, std::string path);

  const std::string& path() const noexcept { return path_; }
  std::uint64_t size() const noexcept { return size_; }
  std::optional<std::uint64_t> current_size() const noexcept;
  FileId id() const noexcept { return id_; }
  // What its mode lets its owner, its group and all others do, 0 to 0777.
  std::uint32_t permissions() const noexcept { return permissions_; }
  FileStamp stamp() const noexcept;
  int descriptor() const noexcept { return descriptor_.number(); }
  // Ends reading, and frees the descriptors; what is known of the file stays.
  void close() noexcept {
    descriptor_ = {};
    direct_ = {};
  }

  // Fills `out` from `offset`. Fails with io, and with corrupt where the file ends
  // before (it shrank since it was opened).
  Status read(std::uint64_t offset, MutableBytes out) const;

  // From here on, read() goes past the page cache where offset and memory allow. False
  // where the file system does not have that.
  bool use_direct_io() noexcept;

  // Holds on to the file without having it open. Fails with unsupported where there is
  // no /proc, or no descriptor left.
  Result<Descriptor> anchor() const;

  // Writes back what is dirty, and asks the kernel to drop the file's pages in a range.
  Status drop_cache(std::uint64_t offset, std::uint64_t length) const;

  // Hints; failure is not an error. No read-ahead: for reading a few places. Soon:
  // start reading a range into the page cache, no more than that.
  void expect_random() const noexcept;
  void expect_sequential() const noexcept;
  void will_need(std::uint64_t offset, std::uint64_t length) const noexcept;

 private:
  static Result<InputFile> adopt(Descriptor descriptor, std::string path);

  std::string path_;
  Descriptor descriptor_;
  Descriptor direct_;  // the same file, without page cache
  std::uint64_t size_ = 0;
  std::uint32_t permissions_ = 0;
  FileId id_;
};

// Address space, owned. Move-only; nothing to unmap if empty. Parts of it can be given
// up: whoever uses those addresses from then on uses somebody else's memory, or dies.
class Mapping {
 public:
  Mapping() = default;
  Mapping(Mapping&& other) noexcept;
  Mapping& operator=(Mapping&& other) noexcept;
  ~Mapping();

  // The first `length` bytes of a file, read-only and private, at an address that is a
  // multiple of 2 MiB (if it is that long), so that 2 MiB pages can map it.
  static Result<Mapping> of_file(const InputFile& file, std::uint64_t length);
  // Zeroed memory of our own, on 2 MiB, with huge pages if it is that long.
  static Result<Mapping> anonymous(std::uint64_t length);
  // The same, which other processes can open as a file (memfd) while this lives: as
  // shared_path() says. Made read-only, it is sealed: nobody can change it any more.
  static Result<Mapping> shared_memory(std::uint64_t length, const std::string& name);

  const std::byte* data() const noexcept { return data_; }
  std::byte* data() noexcept { return data_; }
  std::uint64_t size() const noexcept { return size_; }
  // "/proc/PID/fd/N", or nothing where the memory is not shared.
  std::optional<std::string> shared_path() const;
  Bytes bytes() const noexcept { return {data_, static_cast<std::size_t>(size_)}; }
  MutableBytes writable() noexcept { return {data_, static_cast<std::size_t>(size_)}; }

  // Asks for huge pages from `offset` (rounded up to a page) on. A hint; false where
  // the system refuses it.
  bool advise_huge(std::uint64_t offset) noexcept;
  // No read-ahead and no reading around a fault in a range. A hint.
  void expect_random(std::uint64_t offset, std::uint64_t length) const noexcept;

  // Makes the pages that hold a range present and mapped, for reading.
  // Fails with corrupt where the file ends before, with io and with no_memory;
  // unsupported where the kernel cannot (before Linux 5.14).
  Status populate(std::uint64_t offset, std::uint64_t length) const;
  // The same by reading a byte of each page. The process dies of SIGBUS where the file
  // ends before.
  void touch(std::uint64_t offset, std::uint64_t length) const noexcept;

  // From here on, it cannot be written. Fails with io and no_memory.
  Status make_read_only();
  // Lets the pages that hold any of a range be written: of a file's, this process gets
  // private copies. They are not dropped any more.
  Status make_writable(FileRange range);
  // Puts the other's memory in the place of this one's, at the same addresses and, for
  // threads that read them, in one step for each part that is mapped. Requires equal
  // sizes, and that the other has what this one has.
  Status replace_with(Mapping other);

  // Takes the pages that lie wholly in a range out of the page table; they stay in the
  // page cache. Fails with unsupported for memory of our own, whose contents would be
  // lost, and for pages that may have been written; with limit where they are locked.
  Status drop(FileRange range) const;
  // Gives up the addresses of the pages that lie wholly in a range.
  Status unmap(FileRange range);
  // What of a range is mapped, in order.
  std::vector<FileRange> mapped(FileRange range) const;
  bool is_mapped(FileRange range) const noexcept;  // all of it
  std::uint64_t mapped_bytes() const noexcept;

 private:
  void unmap_all() noexcept;
  Status seal();
  void note_hole(FileRange hole);  // apart from those known

  std::byte* data_ = nullptr;
  std::uint64_t size_ = 0;
  bool of_file_ = false;             // else memory of our own
  Descriptor shared_;                // by which others find it
  std::vector<FileRange> holes_;     // given up; in order, apart from each other
  std::vector<FileRange> writable_;  // whole pages
};

enum class IfExists { refuse, replace };

// A file that appears under its name only when it is whole. Written at any offsets;
// writes of distinct ranges may run on several threads at once.
class OutputFile {
 public:
  // Creates a temporary file beside `path` (".NAME.XXXXXXXX.part"). Symbolic links are
  // followed to what they name. Refuses what is not a regular file. `permissions`: of a
  // new file, before the umask; one that is replaced hands on its own.
  static Result<OutputFile> create(const std::string& path, IfExists existing,
                                   std::uint32_t permissions);

  OutputFile() = default;
  OutputFile(OutputFile&& other) noexcept;
  OutputFile& operator=(OutputFile&& other) noexcept;
  ~OutputFile();  // removes the temporary file, if not published

  // Claims the space now, so that a full disk shows here. Above some size, chooses
  // direct I/O for aligned writes where the file system has it.
  Status reserve(std::uint64_t bytes);
  Status write(std::uint64_t offset, Bytes bytes);
  Status sync();
  // Gives the file its name, and syncs the folder.
  Status publish();
  // Removes what publish() has given a name, also where it failed after that.
  void retract() noexcept;

 private:
  void abandon() noexcept;

  std::string target_;
  std::string temporary_;
  std::string published_;
  Descriptor file_;
  Descriptor direct_;  // the same file, without page cache
  IfExists existing_ = IfExists::refuse;
};

// A folder that appears under its name only when all that is to be in it is. Move-only.
class OutputFolder {
 public:
  // Creates a temporary folder beside `path` (".NAME.XXXXXXXX.part"). Fails with exists
  // where there is anything of that name but an empty folder.
  static Result<OutputFolder> create(const std::string& path);

  OutputFolder() = default;
  OutputFolder(OutputFolder&& other) noexcept
      : target_(std::exchange(other.target_, {})),
        temporary_(std::exchange(other.temporary_, {})) {}
  OutputFolder& operator=(OutputFolder&& other) noexcept {
    std::swap(target_, other.target_);
    std::swap(temporary_, other.temporary_);
    return *this;
  }
  ~OutputFolder();  // removes the temporary folder with all in it, if not published

  // Where to write what is to be in it, until it is published.
  const std::string& path() const noexcept { return temporary_; }
  // Gives the folder its name, and syncs the one around it.
  Status publish();

 private:
  std::string target_;
  std::string temporary_;
};

// Files that make room for others: hidden beside their places (".NAME.XXXXXXXX.old")
// until it is known whether they go or come back. Move-only.
class SetAside {
 public:
  // All of them or none. Fails with io.
  static Result<SetAside> take(std::span<const std::string> paths);

  SetAside() = default;
  SetAside(SetAside&& other) noexcept : files_(std::exchange(other.files_, {})) {}
  SetAside& operator=(SetAside&& other) noexcept {
    std::swap(files_, other.files_);
    return *this;
  }
  ~SetAside();  // they come back, where no other file has their name

  void remove() noexcept;  // they go for good

 private:
  struct File {
    std::string path;
    std::string hidden;
  };
  std::vector<File> files_;
};

// The file behind a path, following links; nothing if there is none.
Result<FileId> file_id(const std::string& path);
bool is_folder(const std::string& path);
// What is in a folder, sorted; names of folders end in a slash. Fails with cannot_open.
Result<std::vector<std::string>> names_in(const std::string& folder);
bool is_file(const std::string& path);  // a regular one
bool exists(const std::string& path);   // anything, a link to nothing too

// Runs work(context) on `count` threads at once, the calling one among them, and
// returns when all have returned. On fewer where the system gives none; at most 64.
// Takes nothing from the heap: opening a model allocates as often for any number of
// tensors.
void run_on_threads(unsigned count, void (*work)(void*), void* context) noexcept;

}  // namespace weig::os
