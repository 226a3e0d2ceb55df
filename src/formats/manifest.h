// SPDX-License-Identifier: Apache-2.0
// Manifest: all that a file's header says of its tensors, and the one thing that
// readers of formats hand over. Readers are pure: bytes in, Manifest or Error out.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <weig/dtype.h>
#include <weig/view.h>
#include <weig/writer.h>

#include "formats/number_field.h"

namespace weig {

// How the elements of a tensor lie in the file, where they are not there as they are to
// be: one after the other in row-major order, in the byte order of the whole.
struct ElementStorage {
  // What `size` bytes of the file have to become first: nothing; inflated (a raw
  // deflate stream, as in zip archives); taken out of fields of a protobuf message.
  enum class Packing : std::uint8_t { none, deflate, protobuf };
  Packing packing = Packing::none;
  NumberField numbers = {};  // of Packing::protobuf
  // Which file: 0 is this one, else Manifest::files[file - 1].
  std::uint32_t file = 0;
  bool ends_file = false;  // all of that file from `begin` on, `size` bytes
  bool big_endian = false;
  std::uint64_t begin = 0;  // of the file
  std::uint64_t size = 0;   // bytes in the file
  std::uint64_t bytes = 0;  // unpacked; `size` where nothing is packed
  std::uint64_t first = 0;  // of the unpacked bytes: where element 0 lies
  // Of each dimension, in elements; empty where they are those of row-major order. The
  // reader has proven that every element lies inside the unpacked bytes.
  std::vector<std::uint64_t> strides = {};
  // CRC-32 of the unpacked bytes, checked where all of them are read.
  std::optional<std::uint32_t> crc = {};
};

// About 60 bytes a tensor, plus its name and 8 bytes a dimension; twice as much for one
// that has a storage of its own.
class Manifest {
 public:
  // Entry::storage of a tensor whose bytes are the file's.
  static constexpr std::uint32_t kAsItIs = 0xFFFFFFFF;

  struct Entry {
    std::uint64_t name_at = 0;
    std::uint64_t shape_at = 0;
    std::uint64_t begin = 0;  // of the file: where the data lies, or its storage begins
    std::uint64_t size = 0;   // bytes, as type and shape imply
    std::uint32_t name_bytes = 0;
    std::uint32_t rank = 0;
    Dtype dtype{};
    std::uint32_t shares = TensorSpec::kOwn;
    std::uint32_t storage = kAsItIs;  // index into storages
  };

  void add(std::string_view name, Dtype dtype, std::span<const std::uint64_t> shape,
           std::uint64_t begin, std::uint64_t size) {
    entries_.push_back({.name_at = names_.size(),
                        .shape_at = dimensions_.size(),
                        .begin = begin,
                        .size = size,
                        .name_bytes = static_cast<std::uint32_t>(name.size()),
                        .rank = static_cast<std::uint32_t>(shape.size()),
                        .dtype = dtype,
                        .shares = TensorSpec::kOwn,
                        .storage = kAsItIs});
    names_.append(name);
    dimensions_.insert(dimensions_.end(), shape.begin(), shape.end());
  }
  // `size`: of the tensor, not of its storage.
  void add(std::string_view name, Dtype dtype, std::span<const std::uint64_t> shape,
           std::uint64_t size, ElementStorage storage) {
    add(name, dtype, shape, storage.begin, size);
    entries_.back().storage = static_cast<std::uint32_t>(storages.size());
    storages.push_back(std::move(storage));
  }

  std::span<Entry> entries() noexcept { return entries_; }
  std::span<const Entry> entries() const noexcept { return entries_; }
  // Valid until the next add().
  std::string_view name(const Entry& entry) const noexcept {
    return std::string_view(names_).substr(entry.name_at, entry.name_bytes);
  }
  std::span<const std::uint64_t> shape(const Entry& entry) const noexcept {
    return std::span(dimensions_).subspan(entry.shape_at, entry.rank);
  }

  std::uint64_t file_size = 0;
  std::uint64_t data_begin = 0;
  // Elements are stored in the other byte order than little-endian.
  bool big_endian = false;
  // Bits behind the last element, where elements have less than a byte, may be anything
  // and are to be cleared.
  bool clears_spare_bits = false;
  // As the text of WEIG metadata.
  std::optional<std::string> metadata;
  std::vector<ElementStorage> storages;
  // Other files that hold data of tensors, by the paths that this one gives them:
  // relative to its folder, without "..".
  std::vector<std::string> files;
  // What the file holds beside tensors and is left behind, each in words.
  std::vector<std::string> skipped;
  std::vector<std::string> warnings;
  // Every byte from data_begin to the end belongs to exactly one tensor, so that header
  // and tensors together are the file.
  bool covers_file = true;

 private:
  std::string names_;
  std::vector<std::uint64_t> dimensions_;
  std::vector<Entry> entries_;
};

// That all names together are no longer than NameBytes allows, before each is copied:
// of a view that was opened lazily nobody knows. Fails with limit.
Status check_name_bytes(const View& view);

// No name twice. Fails with corrupt.
Status check_distinct_names(const Manifest& manifest);

// Sorts entries by place in the file, and proves that ranges are equal or disjoint;
// equal ones get a common `shares` number. Fails with corrupt.
Status order_and_check_ranges(Manifest& manifest);

// Proves of tensors in other files that they lie inside them, `sizes` being those of
// Manifest::files, and that their ranges are equal or disjoint; equal ones get a common
// `shares` number. Fails with corrupt.
Status check_other_files(Manifest& manifest, std::span<const std::uint64_t> sizes);

// A WEIG file's own table as a Manifest.
Result<Manifest> manifest_of(const View& view);

// The table, names and shapes of a manifest as a View's Claim over `data`, byte 0 of
// the file in memory; `core` receives the table and must outlive the Claim.
detail::Claim claim_manifest(const Manifest& manifest, const std::byte* data,
                             std::vector<std::byte>& core);

}  // namespace weig
