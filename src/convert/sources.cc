// SPDX-License-Identifier: Apache-2.0
#include "convert/sources.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <unordered_map>

#include <weig/metadata.h>
#include <weig/model.h>

#include "convert/source_header.h"
#include "core/digest.h"
#include "core/text.h"
#include "core/try.h"
#include "formats/big_endian.h"
#include "formats/safetensors.h"
#include "formats/sniff.h"

namespace weig {
namespace {

// Of one kind: the first of many, the rest is counted.
constexpr std::size_t kMaxWarnings = 20;

// What we write about sources, nobody else is believed.
Status drop_own_keys(Manifest& manifest) {
  if (!manifest.metadata || manifest.metadata->find(kSourceKeys) == std::string::npos)
    return {};
  WEIG_TRY_ASSIGN(metadata, Metadata::parse(*manifest.metadata));
  const Metadata all = metadata;
  for (const Metadata::Entry& entry : all.entries())
    if (entry.key.starts_with(kSourceKeys)) {
      metadata.remove(entry.key);
      manifest.warnings.push_back("metadata " + in_quotes(entry.key) +
                                  " is left out: such names are weig's own");
    }
  manifest.metadata = metadata.text();
  return {};
}

Status read_safetensors_source(SourceFile& source, Bytes first,
                               const ConvertOptions& options) {
  const SafetensorsOptions limits{.strictness = options.strictness,
                                  .max_header_bytes = options.max_header_bytes};
  const std::uint64_t file_size = source.file.size();
  WEIG_TRY_ASSIGN(length, safetensors_json_bytes(first, file_size, limits));
  source.header.resize(8 + length + kJsonPadding);
  const auto bytes = std::as_writable_bytes(std::span(source.header));
  WEIG_TRY(source.file.read(0, bytes.first(8 + length)));
  WEIG_TRY_ASSIGN(manifest,
                  read_safetensors(bytes.subspan(8), length, file_size, limits));
  WEIG_TRY(drop_own_keys(manifest));
  source.header.resize(manifest.covers_file ? 8 + length : 0);
  source.header_file_size = file_size;
  source.manifest = std::move(manifest);
  source.header_order.resize(source.manifest.entries().size());
  std::iota(source.header_order.begin(), source.header_order.end(), 0);
  return {};
}

// The header that a WEIG file keeps goes along into the new one.
Status keep_source_header(SourceFile& source, const Model& model, std::string header) {
  // Sealed files' ordinals are entries of the manifest.
  WEIG_TRY_ASSIGN(order, source_order(model.view(), header));
  WEIG_TRY_ASSIGN(origin, model.source());
  source.header_order = std::move(order);
  source.header = std::move(header);
  source.header_file_size = origin->file_size;
  return {};
}

// A WEIG file, to be written anew: sealed, swapped, in canonical order.
Status read_weig_source(SourceFile& source) {
  WEIG_TRY_ASSIGN(model, Model::open(source.file.path(), {.unsealed = Unsealed::accept,
                                                          .part = Part::metadata}));
  WEIG_TRY_ASSIGN(id, os::file_id(source.file.path()));
  if (id != source.file.id())
    return Error(Code::io, "the file was replaced while it was opened");
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
  WEIG_TRY_ASSIGN(shard, model.shard());
  if (shard && shard->count > 1)
    return Error(Code::unsupported, "the file is one member of a sharded set")
        .found(std::to_string(shard->index + 1) + " of " +
               std::to_string(shard->count));
  WEIG_TRY_ASSIGN(header, restore_source_header(model.view()));
  if (header) WEIG_TRY(keep_source_header(source, model, std::move(*header)));
  WEIG_TRY_ASSIGN(count, model.quantization_count());
  for (std::uint32_t i = 0; i < count; ++i) {
    WEIG_TRY_ASSIGN(entry, model.quantization(i));
    source.quantization.push_back(entry);
  }
  return {};
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

}  // namespace

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
    WEIG_TRY_ASSIGN(content, sniff(first, source.file.size()));
    switch (content) {
      case Content::weig:
        return read_weig_source(source);
      case Content::weig_big_endian:
        if (first.size() < sizeof(disk::Header)) break;
        return read_big_endian_source(source, first, options);
      case Content::safetensors:
        return read_safetensors_source(source, first, options);
    }
    return Error(Code::corrupt, "the file is shorter than a header")
        .at(0)
        .found(std::to_string(source.file.size()) + " bytes")
        .expected("at least 64 bytes");
  };
  if (auto status = read(); !status) return std::move(status).error().file(path);
  source.file.expect_sequential();
  return source;
}

Status gather(Sources& sources) {
  std::unordered_map<std::string_view, std::uint32_t, SeededHash> seen;
  for (std::uint32_t f = 0; f < sources.files.size(); ++f) {
    const Manifest& manifest = sources.files[f].manifest;
    for (std::uint32_t e = 0; e < manifest.entries().size(); ++e) {
      sources.tensors.push_back({f, e});
      if (sources.files.size() == 1) continue;  // its reader has seen to it
      const auto name = manifest.name(manifest.entries()[e]);
      const auto [other, fresh] = seen.emplace(name, f);
      if (!fresh)
        return Error(Code::corrupt, "the tensor is in two of the files")
            .file(sources.files[f].file.path())
            .tensor(name)
            .found("one in " + sources.files[other->second].file.path());
    }
  }
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

Result<Sources> open_sources(std::span<const std::string> paths,
                             const ConvertOptions& options) {
  if (paths.empty()) return Error(Code::invalid_argument, "no source is given");
  if (paths.size() == 1 && os::is_folder(paths[0]))
    return open_folder(paths[0], options);
  Sources sources;
  for (const std::string& path : paths) {
    if (os::is_folder(path))
      return Error(Code::invalid_argument, "a folder can only be the one source")
          .file(path);
    WEIG_TRY_ASSIGN(source, open_source(path, options));
    sources.files.push_back(std::move(source));
  }
  WEIG_TRY(gather(sources));
  return sources;
}

}  // namespace weig
