// SPDX-License-Identifier: Apache-2.0
// Model::Backing: what a Model owns. claiming.cc maps and proves it, loading.cc brings
// it into memory, model.cc is the Model's own face.
#pragma once

#include <weig/model.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "formats/manifest.h"
#include "os/lease.h"
#include "os/os.h"
#include "store/guard.h"
#include "store/loader.h"
#include "store/memory_claim.h"

namespace weig {

// The View's Claim points into it, and never moves with it.
struct Model::Backing {
  std::string path;
  FileFormat format = FileFormat::weig;
  os::Mapping mapping;                   // of the file, or memory of our own
  std::atomic<bool> own_memory = false;  // the latter, read up to `front`
  MemoryClaim claim;                     // on what is yet to be read into it
  std::uint64_t front = 0;               // where data begins
  os::Mapping swapped;          // data in our byte order, where the file's is not
  std::vector<std::byte> core;  // a foreign file's table
  std::optional<std::string> metadata;  // a foreign file's
  Decision decision{.choice = {.way = LoadWay::map, .reason = {}}};
  std::vector<std::string> warnings;  // of claiming
  Guard wish = Guard::off;
  const std::uint64_t generation = os::process_generation();
  mutable std::mutex
      mutex;              // guards what follows against reports and the guard's thread
  os::Descriptor anchor;  // the file, for later loads, until all is in memory
  LoadReport report;      // where there is no loader
  std::string why_no_guard;
  FileGuard::Pointer guard;        // goes before what it copies
  std::shared_ptr<Loader> loader;  // the last load; goes before what it works on
  os::FileStamp stamp;             // of the file, when it was opened

  // Tensors that are not as in the file: overlaid, or not mapped any more.
  std::atomic<bool> altered = false;
  mutable std::shared_mutex altering;  // guards what follows, and the mapping's holes
  std::unordered_map<std::uint32_t, Overlay> overlays;  // by ordinal
  std::uint64_t max_writable = 0;                       // bytes
  std::vector<FileRange> writable;                      // of tensors

  // One function a kind of file: maps, and proves.
  Result<View> claim_weig(const os::InputFile& file, Bytes first,
                          const OpenOptions& options);
  Result<View> claim_big_endian(const os::InputFile& file, const OpenOptions& options);
  Result<View> claim_safetensors(const os::InputFile& file, Bytes first,
                                 const OpenOptions& options);
  Result<View> claim_gguf(const os::InputFile& file, const OpenOptions& options);
  Result<View> claim_foreign(const Manifest& manifest, const OpenOptions& options);
  Result<View> map_and_claim(const os::InputFile& file, const Manifest& manifest,
                             const OpenOptions& options);
  Status map(const os::InputFile& file, std::uint64_t front_bytes,
             const OpenOptions& options);
  Status swap(const os::InputFile& file, const Progress& progress, View& view);
  Status map_or_read(const os::InputFile& file, std::uint64_t length,
                     const OpenOptions& options);
  // In a forked child it may be held for ever by a thread that is not there.
  std::unique_lock<std::mutex> lock() const;
  // Whether the table or the data is read in `mapping`; else both were copied.
  bool uses_mapping() const { return swapped.size() == 0 || core.empty(); }

  // Makes a tensor of the file what the Model hands out.
  void alter(Tensor& tensor) const;
  std::shared_lock<std::shared_mutex> lock_shared() const;
  std::unique_lock<std::shared_mutex> lock_alone() const;
  Status release(std::span<const FileRange> ranges);
  Status unmap(std::span<const FileRange> ranges);
  // Whether the weights are memory of this process's own, which the guard may make them
  // at any moment unless it is held.
  bool owns_data() const { return own_memory || swapped.size() > 0; }
  // Where the data is.
  os::Mapping& data_mapping() { return swapped.size() > 0 ? swapped : mapping; }
  const os::Mapping& data_mapping() const {
    return swapped.size() > 0 ? swapped : mapping;
  }

  // Brings what was claimed into memory.
  enum class Fill { mapping, own_memory };
  enum class Return { when_loaded, at_once };  // filling own memory: when loaded
  Status load(os::InputFile file, const LoadOptions& options, Fill fill, Return when);
  Status load_in_place_of_mapping(os::InputFile file, const LoadOptions& options);
  Decision choose(const os::InputFile& file, const OpenOptions& options) const;
  // Of the file, after all was read. Fails with corrupt where a guard was wished for
  // and the file may have been written to meanwhile.
  Status let_go();
  bool is_as_opened();  // as far as size and times tell
  void drop_anchor();
  // To load from; nothing where all is in memory.
  Result<std::optional<os::InputFile>> open_again();
  void set_report(LoadReport done);
  void report_nothing_done(const LoadOptions& options, LoadWay way, std::string reason);
};

// What is said of a file that does not begin as weights do, with what its end tells.
Error with_end(Error error, const os::InputFile& file);

// Whether a file whose elements have this order opens by a copy of them.
bool needs_swap(ByteOrder order, const OpenOptions& options);

// Memory to read into, if there is so much. `hint`: what takes less.
Result<os::Mapping> memory_for(std::uint64_t bytes, MemoryClaim& claim, ReadInto where,
                               const char* hint = "mapped, it needs none of it");

}  // namespace weig
