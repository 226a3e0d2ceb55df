// SPDX-License-Identifier: Apache-2.0
// Model: a weight file, open. It owns the mapping that every tensor points into.
//
// Opening maps the file and proves its structure; unless asked to load, it reads no
// data. Nothing is parsed, and the number of allocations does not depend on the number
// of tensors. The file is closed before open() returns (a handle without access,
// O_PATH, stays for later loads; with a guard, the file too; neither once all is in own
// memory): renaming or deleting it is harmless, while truncating or overwriting it in
// place is not, unless a guard holds it (weig/guard.h).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include <weig/error.h>
#include <weig/guard.h>
#include <weig/load.h>
#include <weig/memory_use.h>
#include <weig/metadata.h>
#include <weig/overlay.h>
#include <weig/parts.h>
#include <weig/view.h>

namespace weig {

// How much of a file to map.
enum class Part {
  everything,
  metadata,  // names, shapes, sections; tensors have no data
};

enum class HugePages { advise, leave };

// Whose memory the data goes into that is read and not mapped (LoadWay::read, or where
// a file cannot be mapped).
enum class ReadInto {
  own_memory,
  shared_memory,  // which other processes can open: Model::shared_path()
};

enum class Verify {
  structure,  // what opening proves in any case
  digests,    // every byte as well, against the digests that the file carries
};

struct OpenOptions {
  Validation validation = Validation::full;
  Unsealed unsealed = Unsealed::refuse;
  UnknownDtypes unknown_dtypes = UnknownDtypes::refuse;
  Part part = Part::everything;
  // Where it names any, no more than these parts (and all metadata) are mapped, and
  // loaded: other tensors have no data. LoadWay::read reads all first. Opening fails
  // with not_found for a name that the file does not have.
  Parts only = {};
  ReadInto read_into = ReadInto::own_memory;
  // How to bring the weights into memory. By default they are only claimed.
  LoadOptions load = {};
  // Verify::digests: opening returns when every byte has been compared with its digest,
  // on as many threads as load, while the bytes come in; a load's callback then runs on
  // a thread of ours. Fails with checksum or corrupt, which names the first damaged
  // place, without loading the rest, and with unsupported for files without digests.
  // verify() does it later, or for some tensors, and can list all that is damaged.
  Verify verify = Verify::structure;
  // How many bytes of tensors may be written in place, by Model::writable().
  std::uint64_t max_writable_bytes = 0;
  // Whether to hold off who would cut or overwrite the file while it is mapped.
  Guard guard = Guard::off;
  // Whether to ask for 2 MiB pages, which make warm loads many times faster where the
  // file system has large folios. Never an error where it does not.
  HugePages huge_pages = HugePages::advise;
  std::uint64_t max_metadata_bytes = std::uint64_t{256} << 20;
  // Longer headers of foreign files are refused with Code::limit.
  std::uint64_t max_header_bytes = std::uint64_t{1} << 30;
};

enum class FileChange {
  none,
  removed,   // the path leads to nothing
  replaced,  // the path leads to another file
  modified,  // the same file, written to or cut, or its times were set
};

// What kind of file a Model was opened from.
enum class FileFormat { weig, weig_minimal, weig_big_endian, safetensors, gguf };
std::string_view file_format_name(FileFormat format) noexcept;

// Move-only. All views that it hands out (tensors, their names and data, groups,
// section text) are valid as long as the Model is, and survive a move of it. const
// methods may be called from several threads at once.
class Model : private View {
 public:
  // Opens a WEIG file, or a safetensors file as it is; content decides, not the name.
  // Elements in the other byte order than this machine's (a big-endian file; on a
  // big-endian machine, any other) are read and swapped while opening, whatever the way
  // to load. Fails with cannot_open, corrupt, unsupported, limit or no_memory; the
  // error names the file.
  static Result<Model> open(const std::string& path, const OpenOptions& options = {});

  Model(Model&&) noexcept;
  Model& operator=(Model&&) noexcept;
  ~Model();

  // Brings the weights of an open model into memory; addresses handed out stay valid.
  // LoadWay::stream returns at once. Stops a load that is still running. Not from two
  // threads at once, while const methods may be called. Fails with invalid_argument
  // for a model opened for metadata only, with cancelled, corrupt (the file was cut),
  // io, no_memory, and limit (LoadWay::read: the memory that may be used is less).
  Result<LoadReport> load(const LoadOptions& options);
  // Waits until a streaming load has ended. Fails as load() does.
  Result<LoadReport> wait();
  // What the last load did, or has done so far.
  LoadReport load_report() const;

  // Parts of the file, in ranges of its bytes: weig/parts.h tells those of groups and
  // tensors. Their order does not matter, and what lies past the file does not count.
  //
  // Starts bringing parts into memory, and returns: load() with LoadWay::stream.
  Result<LoadReport> prefetch(std::vector<FileRange> ranges);
  // Gives parts back: takes their pages from this process, and asks the kernel to drop
  // them from the page cache, which it does where no other process has them mapped.
  // Addresses stay valid, and what is touched again is read again. Whole pages only: at
  // both ends of a range, up to one of 4 KiB or, where the file lies in 2 MiB folios,
  // one of those may stay; what lies beside a range always does. Thread-safe. Fails
  // with unsupported where the weights are in memory of the process's own, with limit
  // for pages that are locked, and with io.
  Status release(std::span<const FileRange> ranges);
  // Gives up the addresses of the data in parts, for good: its tensors have no data
  // from then on, and what was handed out before must not be used any more. Whole pages
  // only. Not while a load is running. Other threads may use the rest meanwhile.
  // Fails with no_memory where the system allows no more mappings.
  Status unmap(std::span<const FileRange> ranges);
  // Whether all bytes of a range are there to be read.
  bool is_mapped(FileRange range) const;
  // What the model takes of memory, in all and by parts. Looks at each page: 10 ms for
  // a few gigabytes. Fails as file_parts() does.
  Result<MemoryReport> memory() const;

  // Gives a tensor new contents, whose type and shape may be others: the name leads to
  // them from now on, in operator[], find, tensor and tensors(); readers see the old or
  // the new. The file, what was handed out before, and names that share the tensor's
  // bytes stay as they are. Thread-safe. Fails with not_found.
  Status overlay(std::string_view name, Overlay contents);
  // The same with zeros, to be written while nobody reads them. Fails as Overlay::make
  // does as well.
  Result<Overlay> overlay(std::string_view name, Dtype dtype,
                          std::span<const std::uint64_t> shape);
  // What a tensor is overlaid with. Readers that others' drops must not hurt hold on to
  // it while they use it. Thread-safe. Fails with not_found, where there is no such
  // tensor.
  Result<std::optional<Overlay>> overlaid(std::string_view name) const;
  // The name leads to the file's bytes again. The memory goes with the last handle to
  // it. Thread-safe. Fails with not_found, where there is no overlay.
  Status drop_overlay(std::string_view name);
  void drop_overlays() noexcept;

  // The one exception to read-only weights, for frameworks that know no other: a
  // tensor's bytes to be written in place, which OpenOptions::max_writable_bytes must
  // allow. Writes stay in this process and never reach the file (MAP_PRIVATE): each
  // page that is written becomes a private copy, which memory() counts as own. A page
  // at either end may hold bytes of other tensors as well. Once for all: a tensor
  // counts once, and stays writable. Such parts cannot be released. Not while other
  // threads use the model. Fails with not_found, with limit (the allowance is spent),
  // and with unsupported where a guard holds the file, whose copy would not have what
  // was written, or the data is not in memory.
  Result<std::span<std::byte>> writable(std::string_view name);

  // Whether the file is held, and what became of it. Thread-safe.
  GuardReport guard_report() const;
  // What has become of the file since it was opened: whether its path still leads to
  // it, and whether it was written to, by size and time of modification. Another file
  // with the number of a deleted one is told from it by when it came into being, where
  // the file system says that. A relative path is looked up from where the process is
  // now. Fails with cannot_open where that cannot be told.
  Result<FileChange> changed() const;

  const std::string& path() const& noexcept WEIG_LIFETIMEBOUND;
  const std::string& path() const&& = delete;
  FileFormat format() const noexcept;

  // As in View; the error names the file.
  Result<Tensor> operator[](std::uint64_t ordinal) const& WEIG_LIFETIMEBOUND;
  Result<Tensor> operator[](std::uint64_t ordinal) const&& = delete;
  Result<std::optional<Tensor>> find(std::string_view name) const& WEIG_LIFETIMEBOUND;
  Result<std::optional<Tensor>> find(std::string_view name) const&& = delete;
  Result<Tensor> tensor(std::string_view name) const& WEIG_LIFETIMEBOUND;
  Result<Tensor> tensor(std::string_view name) const&& = delete;
  using Range = TensorRange<Model>;
  Range tensors() const& WEIG_LIFETIMEBOUND { return Range(this); }
  Range tensors() const&& = delete;

  // As in View.
  using View::check_sections;
  using View::check_structure;
  using View::data_begin;
  using View::data_end;
  using View::digest;
  using View::file_id;
  using View::file_size;
  using View::groups;
  using View::owner;
  using View::quantization;
  using View::quantization_count;
  using View::sealed;
  using View::section;
  using View::section_kinds;
  using View::shard;
  using View::size;
  using View::source;

  // The metadata's text (one JSON object), or nothing where the file has none. In a
  // foreign file, what its own metadata is as WEIG metadata.
  Result<std::optional<std::string_view>> metadata_text() const& WEIG_LIFETIMEBOUND;
  Result<std::optional<std::string_view>> metadata_text() const&& = delete;
  // The same, read. Empty where the file has none.
  Result<Metadata> metadata() const;

  // Whether a tensor's data is the file's own pages, mapped. False where it is a copy
  // in memory of this Model's own (LoadWay::read, a file that cannot be mapped or is in
  // the other byte order), and where it is not in memory (a metadata-only open).
  // A load may change it. O(1).
  bool is_view(const Tensor& tensor) const noexcept;

  // Where other processes of this host find the copy that was read into shared memory
  // (ReadInto::shared_memory): a path to be opened as any model is, by the same user or
  // who may trace this process, as long as this Model lives; what they have mapped
  // outlives it. The copy is sealed: nobody can change or cut it. Its pages exist once.
  // Nothing where there is no such copy.
  std::optional<std::string> shared_path() const;

  // The same file as a View, for functions that take one: it knows of no overlays, nor
  // of what is not mapped any more. Valid as long as the Model.
  const View& view() const& noexcept WEIG_LIFETIMEBOUND { return *this; }
  const View& view() const&& = delete;

  // The file's bytes as mapped: all of it, or [0, data_begin()) for Part::metadata.
  // Parts that are not mapped any more must not be touched: is_mapped().
  std::span<const std::byte> mapped() const& noexcept WEIG_LIFETIMEBOUND;
  std::span<const std::byte> mapped() const&& = delete;

 private:
  friend class Window;
  friend class ModelSet;  // which keeps no descriptor of each
  struct Backing;
  Model(View view, std::unique_ptr<Backing> backing);
  Result<std::vector<FileRange>> parts_without(const Parts& wanted) const;
  std::unique_ptr<Backing> backing_;
};

}  // namespace weig
