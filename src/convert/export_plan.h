// SPDX-License-Identifier: Apache-2.0
// ExportPlan: what a file of another format is made of. Each format has a function that
// makes one; export_file() writes it.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include <weig/convert.h>
#include <weig/format.h>
#include <weig/model_set.h>

namespace weig {

struct ExportPiece {
  std::string bytes;                    // the format's own,
  std::uint64_t zeros = 0;              // then so many zeros,
  std::uint32_t ordinal = disk::kNone;  // then those of a tensor of the set
};

struct ExportPlan {
  std::vector<ExportPiece> pieces;
  // Of formats that are a folder: of each piece, which is then a file of its own.
  std::vector<std::string> file_names;
  bool exact = false;  // these are the bytes of the file that was converted
  std::vector<std::string> warnings;
  // Where a format wants to know CRC-32 of tensors: called before the bytes of a piece
  // are written, with those of all pieces before (0 where one has no tensor). Changes
  // bytes, not their number.
  std::function<void(std::size_t piece, std::span<const std::uint32_t> crcs,
                     std::string& bytes)>
      complete;
};

// Fail with unsupported, naming tensor or key, where the format cannot hold the model.
Result<ExportPlan> plan_safetensors(const ModelSet& set, const ExportOptions& options);
// Of a model in several files, in the set's order: each of `shard_bytes` or less, but
// where one tensor is larger. One at least.
Result<std::vector<ExportPlan>> plan_safetensors_shards(const ModelSet& set,
                                                        std::uint64_t shard_bytes);
// Their index, as Hugging Face's libraries read it: JSON that says which file holds
// which tensor.
Result<std::string> safetensors_index(const ModelSet& set,
                                      std::span<const ExportPlan> plans,
                                      std::span<const std::string> file_names);
Result<ExportPlan> plan_gguf(const ModelSet& set, const ExportOptions& options);
Result<ExportPlan> plan_torch(const ModelSet& set, const ExportOptions& options);
Result<ExportPlan> plan_npz(const ModelSet& set, const ExportOptions& options);
// A folder of files.
Result<ExportPlan> plan_npy(const ModelSet& set, const ExportOptions& options);

// Sections of the set that the format has no place for, in words: quantization, and
// those of unknown kinds.
std::vector<std::string> sections_left_out(const ModelSet& set,
                                           std::string_view format);

}  // namespace weig
