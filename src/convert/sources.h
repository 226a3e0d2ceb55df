// SPDX-License-Identifier: Apache-2.0
// Sources: what convert() was given, opened and understood: which tensor comes from
// which file, and from where in it.
#pragma once

#include <string>
#include <vector>

#include <weig/convert.h>

#include "convert/data_files.h"
#include "formats/gguf.h"
#include "formats/manifest.h"
#include "os/os.h"

namespace weig {

// The one file of another format that tensors came from, where it can be given back.
struct Origin {
  SourceHeader::Format format = SourceHeader::Format::safetensors;
  std::string header;           // all before the data
  std::uint64_t file_size = 0;  // of that file
  // The tensors that the header names, in the order of their data: entries of the
  // manifest, or, of Sources, their tensors.
  std::vector<std::uint32_t> order;
};

struct SourceFile {
  os::InputFile file;
  os::FileStamp opened;  // before anything of it was looked at
  Manifest manifest;
  std::vector<DataFile> data_files;  // manifest.files, found
  std::optional<Origin> origin;
  std::optional<GgufSplit> gguf_split;  // one of several files of a model
  // Of a sealed WEIG file: digests of the manifest's entries, to check on the way.
  std::vector<Digest> digests;
  // Sections of a WEIG file that go along.
  std::vector<Quantization> quantization;
};

struct SourceTensor {
  static constexpr std::uint32_t kOwnName = 0xFFFFFFFF;
  std::uint32_t file = 0;         // index into files
  std::uint32_t entry = 0;        // index into its manifest's entries
  std::uint32_t name = kOwnName;  // or index into new_names
};

struct Sources {
  std::vector<SourceFile> files;
  std::vector<SourceTensor> tensors;
  std::vector<std::string> new_names;
  std::uint64_t left_out = 0;    // tensors that the caller does not want
  std::optional<Origin> origin;  // where the sources are one file, or one set
  std::optional<std::string> metadata;
  std::vector<std::string> warnings;
  std::vector<std::string> index_files;  // read to find the others
  std::string folder;                    // if the source was one
  std::vector<std::string> other_files;  // names in the folder that are no weights
  // Other weights and, with a slash after them, folders.
  std::vector<std::string> unread;

  std::string_view name(const SourceTensor& tensor) const noexcept {
    if (tensor.name != SourceTensor::kOwnName) return new_names[tensor.name];
    const Manifest& manifest = files[tensor.file].manifest;
    return manifest.name(manifest.entries()[tensor.entry]);
  }
};

// Opens one file, of any kind that convert() takes but a member of a set.
Result<SourceFile> open_source(const std::string& path, const ConvertOptions& options);

// Opens all that convert() was given. A member of a set stands for all of it.
Result<Sources> open_sources(std::span<const std::string> paths,
                             const ConvertOptions& options);

// As open_sources(), of files alone and with all of their tensors.
Result<Sources> open_files(std::span<const std::string> paths,
                           const ConvertOptions& options);

// The files of a folder: by its index, or its one model.
Result<Sources> open_folder(const std::string& path, const ConvertOptions& options);

// Gathers tensors and metadata of `files`, all of them.
Status gather(Sources& sources);

// The metadata of several files as one: the first file's value of a key stands, others
// that differ are warned of.
Status merge_metadata(Sources& sources);

}  // namespace weig
