// SPDX-License-Identifier: Apache-2.0
// export_file: from a WEIG file or a set to safetensors, streaming.
#include <weig/convert.h>

#include <algorithm>
#include <chrono>

#include <weig/metadata.h>
#include <weig/model.h>
#include <weig/model_set.h>

#include "convert/source_header.h"
#include "core/digest.h"
#include "core/progress.h"
#include "core/text.h"
#include "core/try.h"
#include "formats/manifest.h"
#include "formats/safetensors_header.h"
#include "os/os.h"
#include "store/sink.h"

namespace weig {
namespace {

// What will be written: a header, then tensors in this order.
struct Target {
  std::string header;
  std::vector<std::uint32_t> ordinals;
  bool exact = false;
};

// Of a View or a ModelSet.
template <typename Tensors>
Result<std::optional<Target>> original_target(const Tensors& tensors) {
  WEIG_TRY_ASSIGN(header, restore_source_header(tensors));
  if (!header) return std::optional<Target>();
  WEIG_TRY_ASSIGN(order, source_order(tensors, *header));
  return std::optional(Target{
      .header = std::move(*header), .ordinals = std::move(order), .exact = true});
}

Status check_representable(const Tensor& tensor) {
  const auto refuse = [&](std::string what) {
    return Error(Code::unsupported, std::move(what)).tensor(tensor.name());
  };
  if (!safetensors_dtype_name(tensor.dtype()))
    return refuse("safetensors cannot hold this element type")
        .found(std::string(dtype_name(tensor.dtype())))
        .hint("'weig convert --dequantize' turns what is quantized into numbers");
  if (tensor.name() == "__metadata__")
    return refuse("safetensors cannot hold a tensor of this name");
  const DtypeInfo& info = *dtype_info(tensor.dtype());
  if (tensor.element_count() * info.block_bytes % info.block_elements != 0)
    return refuse("safetensors cannot hold elements that do not fill whole bytes")
        .found(std::to_string(tensor.element_count()) + " of " +
               std::string(info.name));
  return {};
}

// The metadata as safetensors can hold it, without what convert() added.
Result<std::optional<std::string>> plain_metadata(const ModelSet& model) {
  WEIG_TRY_ASSIGN(text, model.metadata_text());
  if (!text) return std::optional<std::string>();
  WEIG_TRY_ASSIGN(metadata, model.metadata());
  Metadata plain;
  for (const Metadata::Entry& entry : metadata.entries()) {
    if (entry.key.starts_with(kSourceKeys)) continue;
    if (entry.type != "string" || entry.hex)
      return Error(Code::unsupported,
                   "safetensors cannot hold metadata that is no text")
          .found(in_quotes(entry.key) + " of type " + entry.type);
    plain.add(entry);
  }
  if (plain.entries().empty() && !metadata.entries().empty())
    return std::optional<std::string>();
  return std::optional(plain.text());
}

// Sections that safetensors has no place for; which member a file is, it need not have.
void warn_of_sections(const ModelSet& set, std::vector<std::string>& warnings) {
  std::vector<disk::SectionKind> kinds;
  for (std::uint32_t m = 0; m < set.member_count(); ++m)
    for (const disk::SectionKind kind : set.member(m)->section_kinds())
      if (kind >= disk::SectionKind::quantization && kind != disk::SectionKind::shard)
        kinds.push_back(kind);
  std::ranges::sort(kinds);
  kinds.erase(std::ranges::unique(kinds).begin(), kinds.end());
  for (const disk::SectionKind kind : kinds)
    warnings.push_back(
        "left out, since safetensors has no place for it: section " +
        std::to_string(static_cast<std::uint32_t>(kind)) +
        (kind == disk::SectionKind::quantization ? ", quantization" : ""));
}

Result<Target> canonical_target(const ModelSet& set,
                                std::vector<std::string>& warnings) {
  struct Item {
    std::string_view name;
    int type_order;
    std::uint32_t ordinal;
  };
  std::vector<Item> items;
  std::uint64_t copies = 0;
  for (std::uint64_t i = 0; i < set.size(); ++i) {
    WEIG_TRY_ASSIGN(tensor, set[i]);
    WEIG_TRY(check_representable(tensor));
    WEIG_TRY_ASSIGN(owner, set.member(set.member_of(i))->owner(tensor.ordinal()));
    copies += owner != tensor.ordinal() ? 1 : 0;
    items.push_back({tensor.name(), safetensors_type_order(tensor.dtype()),
                     static_cast<std::uint32_t>(i)});
  }
  if (copies > 0)
    warnings.push_back("written again, since safetensors cannot share bytes: " +
                       std::to_string(copies) + (copies == 1 ? " tensor" : " tensors"));
  warn_of_sections(set, warnings);
  std::ranges::sort(items, [](const Item& a, const Item& b) {
    return a.type_order != b.type_order ? a.type_order < b.type_order : a.name < b.name;
  });
  WEIG_TRY_ASSIGN(metadata, plain_metadata(set));
  SafetensorsHeader header(metadata ? std::optional<std::string_view>(*metadata)
                                    : std::nullopt);
  Target target;
  for (const Item& item : items) {
    WEIG_TRY_ASSIGN(tensor, set[item.ordinal]);
    header.add(tensor.name(), tensor.dtype(), tensor.shape(), tensor.byte_count());
    target.ordinals.push_back(item.ordinal);
  }
  target.header = header.finish();
  return target;
}

// Tied weights are written for each of their names: two or three, not thousands, by
// which a small file would fill any disk.
constexpr std::uint64_t kMostTimes = 64;

// A tensor that will be written. In memory of our own, so that once there is a
// temporary file nothing is read through the mapping, where a file that was cut ends
// the process and leaves it behind.
struct Item {
  std::string name;
  std::uint32_t file = 0;  // the member
  std::uint64_t offset = 0;
  std::uint64_t size = 0;
  std::optional<Digest> digest;
  Bytes elements;          // of a big-endian file, in this machine's byte order
  std::uint32_t unit = 1;  // bytes that change places in a change of byte order
};

// Part of such a tensor, little-endian.
void copy_little(const Item& item, std::uint64_t from, MutableBytes out) {
  if (kNativeOrder == ByteOrder::little) {
    std::ranges::copy(item.elements.subspan(from, out.size()), out.begin());
    return;
  }
  // A part may begin and end inside an element.
  for (std::size_t i = 0; i < out.size(); ++i)
    out[i] = item.elements[(from + i) ^ (item.unit - 1)];
}

Result<std::vector<Item>> items_of(const ModelSet& set, const Target& target) {
  std::vector<Item> items;
  items.reserve(target.ordinals.size());
  for (const std::uint32_t ordinal : target.ordinals) {
    const std::uint32_t m = set.member_of(ordinal);
    const Model& model = *set.member(m);
    const bool big_endian = model.format() == FileFormat::weig_big_endian;
    WEIG_TRY_ASSIGN(tensor, set[ordinal]);
    WEIG_TRY_ASSIGN(digest, model.digest(tensor.ordinal()));
    items.push_back({.name = std::string(tensor.name()),
                     .file = m,
                     .offset = tensor.data_offset(),
                     .size = tensor.byte_count(),
                     .digest = digest,
                     .elements = big_endian ? tensor.bytes() : Bytes(),
                     .unit = dtype_info(tensor.dtype())->swap_unit});
  }
  return items;
}

// The files of a set, to be read from, and as they were before anything was.
struct OpenFile {
  os::InputFile file;
  os::FileStamp opened;
};

Result<std::vector<OpenFile>> open_files(const ModelSet& set) {
  std::vector<OpenFile> files;
  for (std::uint32_t m = 0; m < set.member_count(); ++m) {
    WEIG_TRY_ASSIGN(file, os::InputFile::open(set.path(m)));
    const os::FileStamp opened = file.stamp();
    file.expect_sequential();
    WEIG_TRY_ASSIGN(change, set.member(m)->changed());
    if (change == FileChange::modified)
      return Error(Code::corrupt, "the file was changed while it was read")
          .file(set.path(m));
    if (change != FileChange::none)
      return Error(Code::io, "the file was replaced while it was opened")
          .file(set.path(m));
    files.push_back({std::move(file), opened});
  }
  return files;
}

// Streams the tensors, each checked against its digest. What is hashed is the copy that
// is written, read from the file and not through the mapping: whatever somebody does to
// the file meanwhile is an error.
Status write_tensors(const std::vector<Item>& items, const std::vector<OpenFile>& files,
                     std::uint64_t total, const Progress& progress, PieceWriter& out) {
  Hasher hasher;
  for (const Item& item : items) {
    const os::InputFile& file = files[item.file].file;
    hasher.reset();
    for (std::uint64_t at = 0; at < item.size;) {
      WEIG_TRY_ASSIGN(room, out.space());
      const MutableBytes step =
          room.first(std::min<std::uint64_t>(room.size(), item.size - at));
      if (!item.elements.empty()) {
        copy_little(item, at, step);
      } else {
        WEIG_TRY(file.read(item.offset + at, step));
      }
      hasher.update(step);
      WEIG_TRY(out.advance(step.size()));
      at += step.size();
      if (!goes_on(progress, out.offset(), total))
        return Error(Code::cancelled, "export was stopped");
    }
    if (item.digest && *item.digest != hasher.digest())
      return Error(Code::checksum, "the bytes differ from their digest")
          .file(file.path())
          .tensor(item.name)
          .at(item.offset)
          .found(to_hex(hasher.digest()))
          .expected(to_hex(*item.digest));
  }
  return {};
}

// The files together, and what all of them let others do.
std::uint64_t bytes_in(const std::vector<OpenFile>& files) {
  std::uint64_t bytes = 0;
  for (const OpenFile& one : files) bytes += one.file.size();
  return bytes;
}
std::uint32_t permissions_of(const std::vector<OpenFile>& files) {
  std::uint32_t all = 0666;
  for (const OpenFile& one : files) all &= as_private_as(one.file.permissions());
  return all;
}

Status check_unchanged(const std::vector<OpenFile>& files) {
  for (const OpenFile& one : files)
    if (one.file.stamp().differs_from(one.opened))
      return Error(Code::corrupt, "the file was changed while it was read")
          .file(one.file.path());
  return {};
}

Result<ExportReport> export_set(const ModelSet& set, const std::vector<OpenFile>& files,
                                const std::string& path, const ExportOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  for (std::uint32_t m = 0; m < set.member_count(); ++m)
    WEIG_TRY(check_name_bytes(set.member(m)->view()));
  ExportReport report;
  report.output = path;
  WEIG_TRY_ASSIGN(original, original_target(set));
  if (!original) {
    WEIG_TRY_ASSIGN(canonical, canonical_target(set, report.warnings));
    original = std::move(canonical);
  }
  const Target& target = *original;
  WEIG_TRY_ASSIGN(items, items_of(set, target));
  std::uint64_t total = target.header.size();
  for (const Item& item : items) total += item.size;
  if (total / kMostTimes > bytes_in(files))
    return Error(Code::limit,
                 "tensors that share bytes would be written again and again")
        .found(std::to_string(total) + " bytes")
        .expected("at most " + std::to_string(kMostTimes) + " times the file's " +
                  std::to_string(bytes_in(files)));
  report.tensors = set.size();
  // Before there is a file.
  if (!goes_on(options.progress, 0, total))
    return Error(Code::cancelled, "export was stopped");
  WEIG_TRY_ASSIGN(sink, file_sink(path, options.existing, permissions_of(files)));
  WEIG_TRY(sink->reserve(total));
  PieceWriter out(*sink, 0);
  WEIG_TRY(out.append(bytes_of(target.header)));
  WEIG_TRY(write_tensors(items, files, total, options.progress, out));
  WEIG_TRY(out.finish());
  WEIG_TRY(check_unchanged(files));
  WEIG_TRY(sink->sync());
  WEIG_TRY(sink->publish());
  report.file_size = total;
  report.exact = target.exact;
  report.seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return report;
}

// Whose header we cannot give back may be whole all the same.
template <typename Tensors>
Status check_original(const Tensors& tensors, const std::string& path) {
  auto target = original_target(tensors);
  if (target || target.error().code() == Code::unsupported) return {};
  return std::move(target).error().file(path);
}

}  // namespace

Status check_source_header(const Model& model) {
  WEIG_TRY_ASSIGN(shard, model.shard());
  if (shard && shard->count > 1) return {};  // it is the whole set's
  return check_original(model.view(), model.path());
}

Status check_source_header(const ModelSet& set) {
  return check_original(set, set.path(0));
}

Result<ExportReport> export_file(const std::string& source, const std::string& target,
                                 const ExportOptions& options) {
  WEIG_TRY_ASSIGN(set, ModelSet::open(source, {.unsealed = Unsealed::accept}));
  WEIG_TRY_ASSIGN(files, open_files(set));
  if (const auto id = os::file_id(target))
    for (const OpenFile& one : files)
      if (*id == one.file.id())
        return Error(Code::exists, "the output is the source").file(target);
  auto report = export_set(set, files, target, options);
  if (!report && report.error().fields().file.empty())
    return std::move(report).error().file(set.path(0));
  return report;
}

}  // namespace weig
