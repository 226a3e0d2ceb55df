// SPDX-License-Identifier: Apache-2.0
#include "convert/sources.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <numeric>
#include <unordered_map>

#include <weig/metadata.h>
#include <weig/model.h>
#include <weig/model_set.h>

#include "convert/gguf_split.h"
#include "convert/source_header.h"
#include "convert/tensor_reader.h"
#include "core/digest.h"
#include "core/text.h"
#include "core/try.h"
#include "formats/big_endian.h"
#include "formats/gguf.h"
#include "formats/npy.h"
#include "formats/onnx.h"
#include "formats/safetensors.h"
#include "formats/sniff.h"
#include "formats/torch_archive.h"
#include "formats/torch_stream.h"
#include "formats/zip_content.h"
#include "store/backing.h"
#include "store/set_members.h"

namespace weig {
namespace {

// Of one kind: the first of many, the rest is counted.
constexpr std::size_t kMaxWarnings = 20;
// A header that is kept is kept up to the data, with all padding before that.
constexpr std::uint64_t kMostAlignment = std::uint64_t{16} << 20;

// What we write about sources, nobody else is believed.
Status drop_own_keys(Manifest& manifest) {
  if (!manifest.metadata || manifest.metadata->find(kSourceKeys) == std::string::npos)
    return {};
  WEIG_TRY_ASSIGN(metadata, Metadata::parse(*manifest.metadata));
  Metadata others;
  std::size_t dropped = 0;
  for (const Metadata::Entry& entry : metadata.entries()) {
    if (!entry.key.starts_with(kSourceKeys)) {
      others.add(entry);
    } else if (++dropped <= kMaxWarnings) {
      manifest.warnings.push_back("metadata " + in_quotes(entry.key) +
                                  " is left out: such names are weig's own");
    }
  }
  if (dropped > kMaxWarnings)
    manifest.warnings.push_back("and " + std::to_string(dropped - kMaxWarnings) +
                                " more like these");
  manifest.metadata = others.text();
  return {};
}

Status read_safetensors_source(SourceFile& source, Bytes first,
                               const ConvertOptions& options) {
  const SafetensorsOptions limits{.strictness = options.strictness,
                                  .max_header_bytes = options.max_header_bytes};
  const std::uint64_t file_size = source.file.size();
  WEIG_TRY_ASSIGN(length, safetensors_json_bytes(first, file_size, limits));
  Origin origin;
  origin.file_size = file_size;
  origin.header.resize(8 + length + kJsonPadding);
  const auto bytes = std::as_writable_bytes(std::span(origin.header));
  WEIG_TRY(source.file.read(0, bytes.first(8 + length)));
  WEIG_TRY_ASSIGN(manifest,
                  read_safetensors(bytes.subspan(8), length, file_size, limits));
  WEIG_TRY(drop_own_keys(manifest));
  source.manifest = std::move(manifest);
  if (!source.manifest.covers_file) return {};
  origin.header.resize(8 + length);
  origin.order.resize(source.manifest.entries().size());
  std::iota(origin.order.begin(), origin.order.end(), 0);
  source.origin = std::move(origin);
  return {};
}

// The header that a WEIG file or a set keeps goes along into what is made of it.
template <typename Tensors>
Result<std::optional<Origin>> kept_origin(const Tensors& tensors) {
  WEIG_TRY_ASSIGN(header, restore_source_header(tensors));
  if (!header) return std::optional<Origin>();
  // Sealed files' ordinals are entries of the manifest.
  WEIG_TRY_ASSIGN(order, source_order(tensors, *header));
  WEIG_TRY_ASSIGN(source, tensors.source());
  return std::optional(Origin{.format = source->format,
                              .header = *std::move(header),
                              .file_size = source->file_size,
                              .order = std::move(order.ordinals)});
}

// What a WEIG file holds, to be written anew: sealed, swapped, in canonical order.
Status read_weig_tensors(SourceFile& source, const Model& model) {
  WEIG_TRY_ASSIGN(manifest, manifest_of(model.view()));
  // It goes into the new file as it is, which nobody could read if it is broken.
  if (manifest.metadata)
    if (auto metadata = Metadata::parse(*manifest.metadata); !metadata)
      return std::move(metadata).error();
  source.manifest = std::move(manifest);
  // What they say of tensors may not hold for the new table.
  for (const disk::SectionKind kind : model.section_kinds())
    if (kind < disk::SectionKind::name_index || kind > disk::SectionKind::shard)
      source.manifest.warnings.push_back(
          "a section of an unknown kind is left out: " +
          std::to_string(static_cast<std::uint32_t>(kind)));
  // Sealed files' tables are in data order already: entries are ordinals.
  for (std::uint32_t i = 0; model.sealed() && i < model.size(); ++i) {
    WEIG_TRY_ASSIGN(digest, model.digest(i));
    if (!digest) break;
    source.digests.push_back(*digest);
  }
  WEIG_TRY_ASSIGN(count, model.quantization_count());
  for (std::uint32_t i = 0; i < count; ++i) {
    WEIG_TRY_ASSIGN(entry, model.quantization(i));
    source.quantization.push_back(entry);
  }
  return {};
}

Status read_weig_source(SourceFile& source) {
  WEIG_TRY_ASSIGN(model, Model::open(source.file.path(), {.unsealed = Unsealed::accept,
                                                          .part = Part::metadata}));
  WEIG_TRY_ASSIGN(id, os::file_id(source.file.path()));
  if (id != source.file.id())
    return Error(Code::io, "the file was replaced while it was opened");
  WEIG_TRY_ASSIGN(shard, model.shard());
  if (shard && shard->count > 1)
    return Error(Code::unsupported, "the file is one member of a sharded set")
        .found(std::to_string(shard->index + 1) + " of " +
               std::to_string(shard->count));
  WEIG_TRY(read_weig_tensors(source, model));
  WEIG_TRY_ASSIGN(origin, kept_origin(model.view()));
  source.origin = std::move(origin);
  return {};
}

// All members of the set that a file is in.
Status open_set(const std::string& path, Sources& sources) {
  WEIG_TRY_ASSIGN(set, ModelSet::open(path, {.part = Part::metadata}));
  for (std::uint32_t m = 0; m < set.member_count(); ++m) {
    SourceFile source;
    WEIG_TRY_ASSIGN(file, os::InputFile::open(set.path(m)));
    source.file = std::move(file);
    source.opened = source.file.stamp();
    WEIG_TRY_ASSIGN(change, set.member(m)->changed());
    if (change != FileChange::none)
      return Error(Code::corrupt, "the file was changed while it was opened")
          .file(set.path(m));
    if (auto status = read_weig_tensors(source, *set.member(m)); !status)
      return std::move(status).error().file(set.path(m));
    source.file.expect_sequential();
    sources.files.push_back(std::move(source));
  }
  auto origin = kept_origin(set);
  if (!origin) return std::move(origin).error().file(set.path(0));
  sources.origin = *std::move(origin);
  return {};
}

bool is_among(const std::vector<SourceFile>& files, const std::string& path) {
  const auto id = os::file_id(path);
  return id && std::ranges::any_of(files, [&](const SourceFile& source) {
           return source.file.id() == *id;
         });
}

Status read_big_endian_source(SourceFile& source, Bytes first,
                              const ConvertOptions& options) {
  // The front's length is in the header; it is checked again with the rest.
  const auto length = std::min(byteswapped(load<std::uint64_t>(
                                   first.data() + offsetof(disk::Header, data_offset))),
                               source.file.size());
  if (length > options.max_header_bytes)
    return Error(Code::limit, "what lies before the data is longer than allowed")
        .at(offsetof(disk::Header, data_offset))
        .found(std::to_string(length) + " bytes")
        .expected("at most " + std::to_string(options.max_header_bytes))
        .hint("max_header_bytes, --max-header-bytes, raises it");
  std::vector<std::byte> front(length);
  WEIG_TRY(source.file.read(0, front));
  WEIG_TRY_ASSIGN(manifest, read_big_endian(front, source.file.size(),
                                            {.unsealed = Unsealed::accept}));
  source.manifest = std::move(manifest);
  return {};
}

// A part of a split model stands for all of it; one alone is read for gguf_split.cc.
Status read_gguf_source(SourceFile& source, const ConvertOptions& options) {
  const Input input = input_of(source.file);
  WEIG_TRY_ASSIGN(header,
                  read_gguf(input, {.strictness = options.strictness,
                                    .max_header_bytes = options.max_header_bytes}));
  source.gguf_split = header.split;
  source.manifest = std::move(header.manifest);
  WEIG_TRY(drop_own_keys(source.manifest));
  if (!source.manifest.covers_file || source.manifest.big_endian || header.split)
    return {};
  if (header.alignment > kMostAlignment) {
    source.manifest.warnings.push_back("data is aligned to " +
                                       std::to_string(header.alignment) +
                                       " bytes: export makes another file of it");
    return {};
  }
  WEIG_TRY_ASSIGN(zero, has_zero_padding(input, source.manifest));
  if (!zero) {
    source.manifest.covers_file = false;
    source.manifest.warnings.emplace_back(
        "what lies between tensors is not zeros: export cannot give it back");
    return {};
  }
  Origin origin{.format = SourceHeader::Format::gguf,
                .header = std::string(source.manifest.data_begin, '\0'),
                .file_size = source.file.size(),
                .order = {}};
  WEIG_TRY(source.file.read(0, std::as_writable_bytes(std::span(origin.header))));
  for (std::uint32_t i = 0; i < source.manifest.entries().size(); ++i)
    origin.order.push_back(i);
  source.origin = std::move(origin);
  return {};
}

Status read_onnx_source(SourceFile& source) {
  WEIG_TRY_ASSIGN(manifest, read_onnx(input_of(source.file)));
  source.manifest = std::move(manifest);
  WEIG_TRY_ASSIGN(files, find_data_files(source.file, source.manifest));
  source.data_files = std::move(files);
  return {};
}

TorchOptions torch_options(const ConvertOptions& options) {
  return {.strictness = options.strictness,
          .max_header_bytes = options.max_header_bytes,
          .max_expansion = options.max_expansion,
          .select = options.select};
}

// Of formats whose readers give a manifest and no more.
Status take_manifest(SourceFile& source, Result<Manifest> manifest) {
  if (!manifest) return std::move(manifest).error();
  source.manifest = *std::move(manifest);
  return {};
}

Status read_zip_source(SourceFile& source, const ConvertOptions& options) {
  const Input input = input_of(source.file);
  WEIG_TRY_ASSIGN(members, read_zip(input));
  if (options.from == SourceFormat::npz)
    return take_manifest(source, read_npz(input, members, options.strictness));
  if (options.from == SourceFormat::torch)
    return take_manifest(source,
                         read_torch_archive(input, members, torch_options(options)));
  WEIG_TRY_ASSIGN(content, sniff_zip(members));
  switch (content) {
    case ZipContent::npz:
      return take_manifest(source, read_npz(input, members, options.strictness));
    case ZipContent::torch:
      break;
  }
  return take_manifest(source,
                       read_torch_archive(input, members, torch_options(options)));
}

struct SourceFormatName {
  SourceFormat format;
  std::string_view name;
};
constexpr auto kSourceFormats = std::to_array<SourceFormatName>({
    {SourceFormat::weig, "weig"},
    {SourceFormat::safetensors, "safetensors"},
    {SourceFormat::gguf, "gguf"},
    {SourceFormat::torch, "torch"},
    {SourceFormat::npy, "npy"},
    {SourceFormat::npz, "npz"},
    {SourceFormat::onnx, "onnx"},
});

// By its first bytes, or what the caller says it is. Readers refuse what is none.
Result<Content> content_of(Bytes first, const os::InputFile& file,
                           const ConvertOptions& options) {
  if (!options.from) {
    auto content = sniff(first, file.size());
    if (!content) return with_end(content.error(), file);
    return content;
  }
  switch (*options.from) {
    case SourceFormat::weig: {
      const auto magic = first.size() < 4 ? 0 : load<std::uint32_t>(first.data());
      if (magic == disk::kMagic) return Content::weig;
      if (magic == disk::kSwappedMagic) return Content::weig_big_endian;
      return Error(Code::corrupt, "the file does not begin as WEIG files do").at(0);
    }
    case SourceFormat::safetensors:
      return Content::safetensors;
    case SourceFormat::gguf:
      return Content::gguf;
    case SourceFormat::torch:
      return text_of(first).starts_with("PK") ? Content::zip : Content::torch_stream;
    case SourceFormat::npy:
      return Content::npy;
    case SourceFormat::npz:
      return Content::zip;
    case SourceFormat::onnx:
      return Content::onnx;
  }
  return Content::weig;
}

}  // namespace

std::string_view source_format_name(SourceFormat format) noexcept {
  return std::ranges::find(kSourceFormats, format, &SourceFormatName::format)->name;
}

std::optional<SourceFormat> source_format_named(std::string_view name) noexcept {
  const auto* found = std::ranges::find(kSourceFormats, name, &SourceFormatName::name);
  if (found == kSourceFormats.end()) return std::nullopt;
  return found->format;
}

std::vector<std::string_view> source_format_names() {
  std::vector<std::string_view> names;
  names.reserve(kSourceFormats.size());
  for (const SourceFormatName& one : kSourceFormats) names.push_back(one.name);
  return names;
}

Result<SourceFile> open_source(const std::string& path, const ConvertOptions& options) {
  SourceFile source;
  WEIG_TRY_ASSIGN(file, os::InputFile::open(path));
  source.file = std::move(file);
  source.opened = source.file.stamp();
  const auto read = [&]() -> Status {
    std::array<std::byte, kSniffBytes> bytes{};
    const auto first = MutableBytes(bytes).first(
        std::min<std::uint64_t>(bytes.size(), source.file.size()));
    WEIG_TRY(source.file.read(0, first));
    const auto content = content_of(first, source.file, options);
    if (!content) return content.error();
    switch (*content) {
      case Content::weig:
        return read_weig_source(source);
      case Content::weig_big_endian:
        if (first.size() < sizeof(disk::Header)) break;
        return read_big_endian_source(source, first, options);
      case Content::safetensors:
        return read_safetensors_source(source, first, options);
      case Content::gguf:
        return read_gguf_source(source, options);
      case Content::onnx:
        return read_onnx_source(source);
      case Content::torch_stream:
        return take_manifest(
            source, read_torch_stream(input_of(source.file), torch_options(options)));
      case Content::zip:
        return read_zip_source(source, options);
      case Content::npy:
        return take_manifest(
            source,
            read_npy(input_of(source.file), std::filesystem::path(path).stem().string(),
                     options.strictness));
    }
    return Error(Code::corrupt, "the file is shorter than a header")
        .at(0)
        .found(std::to_string(source.file.size()) + " bytes")
        .expected("at least 64 bytes");
  };
  if (auto status = read(); !status) {
    Error error = std::move(status).error();
    // A file that holds its data has a name of its own.
    return error.fields().file.empty() ? std::move(error).file(path) : error;
  }
  source.file.expect_sequential();
  return source;
}

Status gather(Sources& sources) {
  for (std::uint32_t f = 0; f < sources.files.size(); ++f)
    for (std::uint32_t e = 0; e < sources.files[f].manifest.entries().size(); ++e)
      sources.tensors.push_back({.file = f, .entry = e});
  if (sources.files.size() == 1) sources.origin = sources.files.front().origin;
  return merge_metadata(sources);
}

Status merge_metadata(Sources& sources) {
  if (sources.files.size() == 1) {
    sources.metadata = sources.files.front().manifest.metadata;
    return {};
  }
  std::optional<Metadata> merged;
  std::unordered_map<std::string, std::size_t, SeededHash> place;  // in `merged`
  std::size_t differing = 0;
  for (const SourceFile& source : sources.files) {
    if (!source.manifest.metadata) continue;
    WEIG_TRY_ASSIGN(metadata, Metadata::parse(*source.manifest.metadata));
    if (!merged) merged.emplace();
    for (const Metadata::Entry& entry : metadata.entries()) {
      const auto [found, fresh] = place.emplace(entry.key, merged->entries().size());
      if (fresh) {
        merged->add(entry);
        continue;
      }
      const Metadata::Entry& first = merged->entries()[found->second];
      if (first.value == entry.value && first.type == entry.type) continue;
      if (++differing <= kMaxWarnings)
        sources.warnings.push_back(source.file.path() + ": metadata " +
                                   in_quotes(entry.key) +
                                   " differs from the file before; the first stands");
    }
  }
  if (differing > kMaxWarnings)
    sources.warnings.push_back("and " + std::to_string(differing - kMaxWarnings) +
                               " more like these");
  if (merged) sources.metadata = merged->text();
  return {};
}

namespace {

// Leaves tensors out and renames them, as the caller wants.
Status choose_names(Sources& sources, const ConvertOptions& options) {
  if (!options.rename || sources.tensors.empty()) return {};
  std::vector<SourceTensor> chosen;
  for (SourceTensor tensor : sources.tensors) {
    const std::string_view name = sources.name(tensor);
    std::optional<std::string> wanted = options.rename(name);
    if (!wanted) continue;
    if (*wanted != name) {
      tensor.name = static_cast<std::uint32_t>(sources.new_names.size());
      sources.new_names.push_back(*std::move(wanted));
    }
    chosen.push_back(tensor);
  }
  sources.left_out = sources.tensors.size() - chosen.size();
  if (sources.left_out > 0 || !sources.new_names.empty()) sources.origin.reset();
  sources.tensors = std::move(chosen);
  if (!sources.tensors.empty()) return {};
  return Error(Code::not_found, "no tensor of the sources is chosen")
      .file(sources.files[0].file.path())
      .found(std::to_string(sources.left_out) + " tensors, all left out");
}

// Readers have seen to the names of each file.
Status check_distinct(const Sources& sources) {
  if (sources.files.size() == 1 && sources.new_names.empty()) return {};
  std::unordered_map<std::string_view, const SourceTensor*, SeededHash> seen;
  seen.reserve(sources.tensors.size());
  for (const SourceTensor& tensor : sources.tensors) {
    const std::string_view name = sources.name(tensor);
    const auto [other, fresh] = seen.emplace(name, &tensor);
    if (fresh) continue;
    const auto& file = sources.files[tensor.file].file.path();
    const auto& other_file = sources.files[other->second->file].file.path();
    if (tensor.name == SourceTensor::kOwnName &&
        other->second->name == SourceTensor::kOwnName)
      return Error(Code::corrupt, "the tensor is in two of the files")
          .file(file)
          .tensor(name)
          .found("one in " + other_file);
    const auto old_name = [&](SourceTensor one) {
      one.name = SourceTensor::kOwnName;
      return in_quotes(sources.name(one));
    };
    return Error(Code::invalid_argument, "two tensors get one name")
        .file(file)
        .tensor(name)
        .found(old_name(*other->second) + " and " + old_name(tensor));
  }
  return {};
}

}  // namespace

Result<Sources> open_files(std::span<const std::string> paths,
                           const ConvertOptions& options) {
  Sources sources;
  std::size_t models = 0;
  for (const std::string& path : paths) {
    if (os::is_folder(path))
      return Error(Code::invalid_argument, "a folder can only be the one source")
          .file(path);
    // What is wrong with a file, open_source() says.
    const auto shard = shard_of(path);
    const bool is_member =
        shard && *shard && (*shard)->count > 1 &&
        options.from.value_or(SourceFormat::weig) == SourceFormat::weig;
    // A set is read once, however many of its members are given.
    if (is_member && is_among(sources.files, path)) continue;
    ++models;
    if (is_member) {
      WEIG_TRY(open_set(path, sources));
      continue;
    }
    WEIG_TRY_ASSIGN(source, open_source(path, options));
    if (source.gguf_split) {
      // So is a split one, and from any of its files.
      if (is_among(sources.files, path)) {
        --models;
        continue;
      }
      WEIG_TRY(add_gguf_split(std::move(source), options, sources));
      continue;
    }
    sources.files.push_back(std::move(source));
  }
  WEIG_TRY(gather(sources));
  if (models > 1) {
    sources.origin.reset();
  } else {
    // The text as it is.
    sources.metadata = sources.files.front().manifest.metadata;
  }
  return sources;
}

Result<Sources> open_sources(std::span<const std::string> paths,
                             const ConvertOptions& options) {
  if (paths.empty()) return Error(Code::invalid_argument, "no source is given");
  const bool folder = paths.size() == 1 && os::is_folder(paths[0]);
  WEIG_TRY_ASSIGN(sources,
                  folder ? open_folder(paths[0], options) : open_files(paths, options));
  WEIG_TRY(choose_names(sources, options));
  WEIG_TRY(check_distinct(sources));
  return std::move(sources);
}

}  // namespace weig
