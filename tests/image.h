// SPDX-License-Identifier: Apache-2.0
// Image: a WEIG file in memory, for tests: built by the library's own planner, then
// bent. After bending, reseal() makes every digest right again, so that only the rule
// under test can refuse.
#pragma once

#include <string>
#include <vector>

#include <weig/weig.h>

#include "core/bytes.h"

namespace weig::test {

struct ImageTensor {
  std::string name;
  Dtype dtype = Dtype::f32;
  std::vector<std::uint64_t> shape = {};
  std::uint32_t shares = TensorSpec::kOwn;
};

class Image {
 public:
  // A sealed file. Data bytes count up from each tensor's place among `tensors`.
  static Image sealed(const std::vector<ImageTensor>& tensors,
                      std::vector<SectionBytes> sections = {});
  // A minimal file as a simple writer makes it: data packed on `alignment`, in the
  // order given.
  static Image minimal(const std::vector<ImageTensor>& tensors,
                       ByteOrder order = ByteOrder::little,
                       std::uint64_t alignment = 64);
  // A minimal file of empty tensors, each of whose names is the end of one of 65,535
  // bytes.
  static Image overlapping_names(std::uint64_t count,
                                 ByteOrder order = ByteOrder::little);
  // The same as a sealed file with a true index; the first 60,000 at most.
  static Image sealed_overlapping_names(std::uint32_t count);
  // The file of the golden tests: groups, aliases, scalars, empties, metadata, a
  // source.
  static Image basic();
  // All seven kinds of section.
  static Image all_sections();
  // The same, with 24 tensors of 9 types, in four layers and outside them.
  static Image small_model();
  // 24 MiB in three tensors, and a little more, so that the end lies inside a piece and
  // a page.
  static Image for_loading();

  std::vector<std::byte> bytes;

  std::span<const std::byte> span() const { return bytes; }
  std::uint64_t size() const { return bytes.size(); }
  template <typename T>
  T get(std::uint64_t at) const {
    return load<T>(bytes.data() + at);
  }
  template <typename T>
  void set(std::uint64_t at, T value) {
    store(bytes.data() + at, value);
  }

  std::uint64_t header(std::size_t field) const { return get<std::uint64_t>(field); }
  // Offsets of a record, a section's entry, a section's bytes.
  std::uint64_t record(std::uint64_t ordinal) const;
  std::uint64_t section_entry(disk::SectionKind kind) const;
  std::uint64_t section_offset(disk::SectionKind kind) const;
  std::uint64_t section_size(disk::SectionKind kind) const;
  std::uint64_t trailer() const { return size() - sizeof(disk::Trailer); }

  // Section digests (where the section lies inside the file), file_id, check.
  void reseal();

  Result<View> open(const ViewOptions& options = {}) const {
    return View::open(bytes, options);
  }
};

// The bytes of a string.
std::vector<std::byte> to_bytes(std::string_view text);

// What a file holds, for comparison: names, types, shapes, data, groups, metadata.
// `elements` is their byte order in memory: the machine's own in a Model. Fails as the
// reads do.
Result<std::string> describe(const View& view, ByteOrder elements = ByteOrder::little);

// A folder for one test, removed at its end.
class Folder {
 public:
  Folder();
  ~Folder();
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  std::string path(std::string_view name) const;
  // Names of all files, sorted.
  std::vector<std::string> names() const;

 private:
  std::string root_;
};

void write_file(const std::string& path, std::span<const std::byte> bytes);
std::vector<std::byte> read_file(const std::string& path);

// A safetensors file: header text and data, length put before.
std::vector<std::byte> safetensors(std::string_view header,
                                   std::span<const std::byte> data);

}  // namespace weig::test
