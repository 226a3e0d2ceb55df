// SPDX-License-Identifier: Apache-2.0
// convert: files and folders of other formats into one WEIG file, or a set of several;
// export_file: back.
// Both stream: memory is bounded by buffers and the headers, not by tensors or files.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include <weig/error.h>
#include <weig/model.h>
#include <weig/model_set.h>
#include <weig/progress.h>
#include <weig/quantize.h>
#include <weig/view.h>
#include <weig/writer.h>

namespace weig {

class LoraAdapter;  // weig/lora.h

// What to make of a source that readers disagree on: holes between tensors, bytes after
// the last one, several names for one range, metadata that is not a string. Strict
// refuses, with the reason; lenient accepts with a warning. Partial overlap, duplicate
// names and wrong sizes are refused by both.
enum class Strictness { strict, lenient };

// What to do with a folder's other files (config.json, tokenizer, ...).
enum class OtherFiles { leave, copy };

// Whether to record the SHA-256 of each source file in the metadata.
enum class SourceHash { none, sha256 };

// What becomes of a tensor on its way: it is kept as it is, cast to a type (cast()),
// quantized (Quantizer) or, where a source says that it is quantized, dequantized. A
// tensor NAME that is quantized keeps its name; NAME.scale and, where they are stored,
// NAME.zero_point come with it, and the quantization section.
struct Keep {
  friend bool operator==(const Keep&, const Keep&) = default;
};
struct Dequantize {
  Dtype to = Dtype::f32;  // as cast()
  friend bool operator==(const Dequantize&, const Dequantize&) = default;
};
using TensorChange = std::variant<Keep, Dtype, QuantizeOptions, Dequantize>;

// What a source file is taken for.
enum class SourceFormat { weig, safetensors, gguf, torch, npy, npz, onnx };

// How it is called; the format of that name, or nothing; all names.
std::string_view source_format_name(SourceFormat format) noexcept;
std::optional<SourceFormat> source_format_named(std::string_view name) noexcept;
std::vector<std::string_view> source_format_names();

struct ConvertOptions {
  Existing existing = Existing::refuse;
  Strictness strictness = Strictness::strict;
  // None: what each file's content looks like. Given, all of them are read as this.
  std::optional<SourceFormat> from = {};
  OtherFiles other_files = OtherFiles::leave;
  SourceHash source_hash = SourceHash::none;
  std::uint64_t max_header_bytes = std::uint64_t{1} << 30;
  // Of a PyTorch checkpoint: only what is in its dict or list of this path, such as
  // "state_dict" or "models.0", by names that begin there. Empty: everything. Fails
  // with not_found where there is none, and is ignored for other formats.
  std::string select = {};
  // Of a PyTorch checkpoint: how many times larger than its storage a tensor may become
  // by strides of 0, and all of them than all storages.
  std::uint64_t max_expansion = 64;
  // Write a sharded set instead, NAME-00001-of-00005.weig and so on for the target
  // NAME.weig, none of whose files is larger, but where a single tensor is. Layers stay
  // in one file where that holds them. At least 1.
  std::optional<std::uint64_t> shard_bytes = {};
  // What each tensor of the sources is called in the new file; nothing: it is left out.
  // Empty: all come, by their names. Fails with invalid_argument where two get one name
  // or a quantized one loses what it needs, with not_found where none is left. After
  // this, names are the new ones, for `change` and in messages.
  std::function<std::optional<std::string>(std::string_view name)> rename = {};
  // Asked for each tensor of the sources; empty: all are kept. Of those that a
  // quantization section of a source names, the quantized ones can be dequantized, and
  // then come without their scales and zero points; any other answer keeps them. So
  // does Dequantize all other tensors, and any answer those without elements.
  std::function<TensorChange(std::string_view name, Dtype dtype,
                             std::span<const std::uint64_t> shape)>
      change = {};
  // Added to the tensors that it names, for which `change` is not asked; the rules, and
  // what is refused, are those of apply_lora(). Must outlive the call.
  const LoraAdapter* adapter = nullptr;
  Progress progress = nullptr;
};

// One file of a set that was written.
struct ConvertedMember {
  std::string path;
  std::uint64_t tensors = 0;
  std::uint64_t file_size = 0;
  Digest file_id;
};

struct ConvertReport {
  std::string output;  // of a set, its first member
  std::uint64_t tensors = 0;
  std::uint64_t aliases = 0;   // tensors stored as another name of others' bytes
  std::uint64_t left_out = 0;  // tensors of the sources, as the caller wanted
  std::uint64_t renamed = 0;
  std::uint64_t cast = 0;       // tensors that came with another type
  std::uint64_t quantized = 0;  // tensors; their scales and zero points not counted
  std::uint64_t dequantized = 0;
  std::uint64_t adapted = 0;             // tensors to which the adapter was added
  std::uint64_t data_bytes = 0;          // of tensors, aliases not counted
  std::uint64_t padding_bytes = 0;       // zeros between and after them
  std::uint64_t file_size = 0;           // of a set, of all its files
  Digest file_id;                        // of a set, its id
  std::vector<ConvertedMember> members;  // of a set
  double seconds = 0;
  bool exact_source = false;             // export gives the source back byte for byte
  std::vector<std::string> sources;      // files read
  std::vector<std::string> other_files;  // that are no weights; copied, or left behind
  // All in the folder that was neither read nor copied; "NAME/" are folders in it.
  std::vector<std::string> left_behind;
  std::vector<std::string> warnings;
};

// Where convert() writes if no target is given: "model.weig" for "model.safetensors",
// "FOLDER/model.weig" for a folder. Fails with invalid_argument for several sources and
// for a name that ends in ".weig" already.
Result<std::string> default_target(std::span<const std::string> sources);

// Converts a safetensors file, a PyTorch checkpoint, NumPy's array or archive, a WEIG
// file (minimal, big-endian or sealed; a member of a set stands for all of it), a
// folder with a model (one file, shards with their index, the parts of a GGUF file, or
// NumPy's arrays), or several files whose tensors have distinct names, into the WEIG
// file `target` (default_target() if empty; a name inside it if it is a folder).
// Content decides what a source is. What is made of a set is, byte for byte, what would
// have been made of its source at once.
//
// A file with changed tensors keeps no source header: export gives other bytes.
//
// Fails with cannot_open, corrupt, unsupported, exists (also where the target is one of
// the sources or the adapter), io, limit, invalid_argument, not_found (for an adapter)
// or cancelled; then the target is untouched, or complete where only its folder could
// not be synced or other files not be copied. Of a set, all files appear or none; a
// kill while they get their names leaves some, which open as little as any broken set.
Result<ConvertReport> convert(std::span<const std::string> sources,
                              const std::string& target,
                              const ConvertOptions& options = {});

// Whether the header of the source file, if the file keeps one, can be given back and
// names its tensors, as export_file() wants it: what verify() does not look at. Fails
// with corrupt or limit.
// A member's is its set's: of a Model that is one, nothing is looked at.
Status check_source_header(const Model& model);
Status check_source_header(const ModelSet& set);

// What export_file() writes. npy: a folder with a file for each tensor, which must not
// be there or be empty, or, if the target's name ends in ".npy", one file of one
// tensor.
enum class ExportFormat { safetensors, gguf, torch, npz, npy };

// How it is called; the format of that name, or nothing; all names.
std::string_view export_format_name(ExportFormat format) noexcept;
std::optional<ExportFormat> export_format_named(std::string_view name) noexcept;
std::vector<std::string_view> export_format_names();

struct ExportOptions {
  Existing existing = Existing::refuse;
  // None: by the target's ending, and safetensors where that says nothing.
  std::optional<ExportFormat> format = {};
  // Safetensors in several files with their index, as Hugging Face's libraries have it:
  // for the target NAME.safetensors, NAME-00001-of-00005.safetensors and so on, none
  // larger but where one tensor is, and NAME.safetensors.index.json. One file as usual
  // where it is no larger. At least 1.
  std::optional<std::uint64_t> shard_bytes = {};
  // GGUF's general.architecture, where the metadata does not have it or another one is
  // wanted. A file that is given back byte for byte keeps its own.
  std::optional<std::string> architecture = {};
  Progress progress;
};

struct ExportReport {
  std::string output;  // of several files, their index
  std::uint64_t tensors = 0;
  std::uint64_t file_size = 0;       // of all files
  std::vector<std::string> members;  // of several files: these, without the index
  bool exact = false;                // the very bytes of the file that was converted
  double seconds = 0;
  std::vector<std::string> warnings;
};

// Writes the tensors of a WEIG file, or of the set that it is a member of, to a file of
// another format: byte for byte the one that it was converted from where it was of that
// format, a canonical one otherwise. Digests are checked on the way (checksum). What
// the format cannot hold is refused before anything is written (unsupported, naming
// tensor or key). Several files appear together or not at all, as those of a set that
// convert() writes; those of older ones of that name go. Fails otherwise as convert()
// does.
Result<ExportReport> export_file(const std::string& source, const std::string& target,
                                 const ExportOptions& options = {});

}  // namespace weig
