// SPDX-License-Identifier: Apache-2.0
// export_file: from a WEIG file to safetensors, streaming.
#include <weig/convert.h>

#include <algorithm>
#include <chrono>

#include <weig/metadata.h>
#include <weig/model.h>

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

Result<std::optional<Target>> original_target(const Model& model) {
  WEIG_TRY_ASSIGN(header, restore_source_header(model.view()));
  if (!header) return std::optional<Target>();
  WEIG_TRY_ASSIGN(order, source_order(model.view(), *header));
  return std::optional(Target{
      .header = std::move(*header), .ordinals = std::move(order), .exact = true});
}

Status check_representable(const Tensor& tensor) {
  const auto refuse = [&](std::string what) {
    return Error(Code::unsupported, std::move(what)).tensor(tensor.name());
  };
  if (!safetensors_dtype_name(tensor.dtype()))
    return refuse("safetensors cannot hold this element type")
        .found(std::string(dtype_name(tensor.dtype())));
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
Result<std::optional<std::string>> plain_metadata(const Model& model) {
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

Result<Target> canonical_target(const Model& model,
                                std::vector<std::string>& warnings) {
  struct Item {
    std::string_view name;
    int type_order;
    std::uint32_t ordinal;
  };
  std::vector<Item> items;
  std::uint64_t copies = 0;
  for (const Result<Tensor>& tensor : model.tensors()) {
    if (!tensor) return tensor.error();
    WEIG_TRY(check_representable(*tensor));
    WEIG_TRY_ASSIGN(owner, model.owner(tensor->ordinal()));
    copies += owner != tensor->ordinal() ? 1 : 0;
    items.push_back(
        {tensor->name(), safetensors_type_order(tensor->dtype()), tensor->ordinal()});
  }
  if (copies > 0)
    warnings.push_back("written again, since safetensors cannot share bytes: " +
                       std::to_string(copies) + (copies == 1 ? " tensor" : " tensors"));
  for (const disk::SectionKind kind : model.section_kinds())
    if (kind >= disk::SectionKind::quantization)
      warnings.push_back("left out, since safetensors has no place for it: section " +
                         std::to_string(static_cast<std::uint32_t>(kind)) +
                         (kind == disk::SectionKind::quantization ? ", quantization"
                          : kind == disk::SectionKind::shard      ? ", shard"
                                                                  : ""));
  std::ranges::sort(items, [](const Item& a, const Item& b) {
    return a.type_order != b.type_order ? a.type_order < b.type_order : a.name < b.name;
  });
  WEIG_TRY_ASSIGN(metadata, plain_metadata(model));
  SafetensorsHeader header(metadata ? std::optional<std::string_view>(*metadata)
                                    : std::nullopt);
  Target target;
  for (const Item& item : items) {
    WEIG_TRY_ASSIGN(tensor, model[item.ordinal]);
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

Result<std::vector<Item>> items_of(const Model& model, const Target& target) {
  std::vector<Item> items;
  items.reserve(target.ordinals.size());
  const bool big_endian = model.format() == FileFormat::weig_big_endian;
  for (const std::uint32_t ordinal : target.ordinals) {
    WEIG_TRY_ASSIGN(tensor, model[ordinal]);
    WEIG_TRY_ASSIGN(digest, model.digest(ordinal));
    items.push_back({.name = std::string(tensor.name()),
                     .offset = tensor.data_offset(),
                     .size = tensor.byte_count(),
                     .digest = digest,
                     .elements = big_endian ? tensor.bytes() : Bytes(),
                     .unit = dtype_info(tensor.dtype())->swap_unit});
  }
  return items;
}

// Streams the tensors, each checked against its digest. What is hashed is the copy that
// is written, read from the file and not through the mapping: whatever somebody does to
// the file meanwhile is an error.
Status write_tensors(const std::vector<Item>& items, const os::InputFile& file,
                     std::uint64_t total, const Progress& progress, PieceWriter& out) {
  Hasher hasher;
  for (const Item& item : items) {
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
          .tensor(item.name)
          .at(item.offset)
          .found(to_hex(hasher.digest()))
          .expected(to_hex(*item.digest));
  }
  return {};
}

// `opened`: of the file, before anything of it was looked at.
Result<ExportReport> export_model(const Model& model, const os::InputFile& file,
                                  const os::FileStamp& opened, const std::string& path,
                                  const ExportOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  WEIG_TRY(check_name_bytes(model.view()));
  ExportReport report;
  report.output = path;
  WEIG_TRY_ASSIGN(original, original_target(model));
  if (!original) {
    WEIG_TRY_ASSIGN(canonical, canonical_target(model, report.warnings));
    original = std::move(canonical);
  }
  const Target& target = *original;
  WEIG_TRY_ASSIGN(items, items_of(model, target));
  std::uint64_t total = target.header.size();
  for (const Item& item : items) total += item.size;
  if (total / kMostTimes > file.size())
    return Error(Code::limit,
                 "tensors that share bytes would be written again and again")
        .found(std::to_string(total) + " bytes")
        .expected("at most " + std::to_string(kMostTimes) + " times the file's " +
                  std::to_string(file.size()));
  report.tensors = model.size();
  // Before there is a file.
  if (!goes_on(options.progress, 0, total))
    return Error(Code::cancelled, "export was stopped");
  WEIG_TRY_ASSIGN(sink,
                  file_sink(path, options.existing, as_private_as(file.permissions())));
  WEIG_TRY(sink->reserve(total));
  PieceWriter out(*sink, 0);
  WEIG_TRY(out.append(bytes_of(target.header)));
  WEIG_TRY(write_tensors(items, file, total, options.progress, out));
  WEIG_TRY(out.finish());
  if (file.stamp().differs_from(opened))
    return Error(Code::corrupt, "the file was changed while it was read");
  WEIG_TRY(sink->sync());
  WEIG_TRY(sink->publish());
  report.file_size = total;
  report.exact = target.exact;
  report.seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return report;
}

}  // namespace

Status check_source_header(const Model& model) {
  WEIG_TRY_ASSIGN(shard, model.shard());
  if (shard && shard->count > 1) return {};  // it is the whole set's
  if (auto target = original_target(model); !target) {
    Error why = std::move(target).error();
    // Whose header we cannot give back may be whole all the same.
    if (why.code() != Code::unsupported) return std::move(why).file(model.path());
  }
  return {};
}

Result<ExportReport> export_file(const std::string& source, const std::string& target,
                                 const ExportOptions& options) {
  WEIG_TRY_ASSIGN(file, os::InputFile::open(source));
  const os::FileStamp opened = file.stamp();
  file.expect_sequential();
  WEIG_TRY_ASSIGN(model, Model::open(source, {.unsealed = Unsealed::accept}));
  WEIG_TRY_ASSIGN(source_id, os::file_id(source));
  if (source_id != file.id())
    return Error(Code::io, "the file was replaced while it was opened").file(source);
  if (const auto id = os::file_id(target)) {
    if (*id == source_id)
      return Error(Code::exists, "the output is the source").file(target);
  }
  auto report = export_model(model, file, opened, target, options);
  if (!report && report.error().fields().file.empty())
    return std::move(report).error().file(source);
  return report;
}

}  // namespace weig
