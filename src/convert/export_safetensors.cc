// SPDX-License-Identifier: Apache-2.0
// From a WEIG file or a set to safetensors: the file that it was converted from, or a
// canonical one.
#include <algorithm>
#include <optional>

#include <weig/metadata.h>
#include <weig/model.h>

#include "convert/export_plan.h"
#include "convert/source_header.h"
#include "core/text.h"
#include "core/try.h"
#include "formats/safetensors_header.h"

namespace weig {
namespace {

// A header, then tensors in this order.
ExportPlan plan_of(std::string header, std::span<const std::uint32_t> ordinals) {
  ExportPlan plan;
  plan.pieces.push_back({.bytes = std::move(header)});
  for (const std::uint32_t ordinal : ordinals)
    plan.pieces.push_back({.bytes = {}, .ordinal = ordinal});
  return plan;
}

// The file that was converted, where it was a safetensors file.
Result<std::optional<ExportPlan>> original(const ModelSet& set) {
  WEIG_TRY_ASSIGN(source, set.source());
  if (!source || source->format != SourceHeader::Format::safetensors)
    return std::optional<ExportPlan>();
  WEIG_TRY_ASSIGN(header, restore_source_header(set));
  WEIG_TRY_ASSIGN(order, source_order(set, *header));
  std::optional plan = plan_of(*std::move(header), order.ordinals);
  plan->exact = true;
  return plan;
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

struct Item {
  std::string_view name;
  int type_order = 0;
  std::uint32_t ordinal = 0;
};

// All tensors of a set, and what goes with them.
struct Content {
  std::vector<Item> items;  // in the set's order
  std::optional<std::string> metadata;
  std::vector<std::string> warnings;
};

Result<Content> content_of(const ModelSet& set) {
  Content content;
  std::uint64_t copies = 0;
  for (std::uint64_t i = 0; i < set.size(); ++i) {
    WEIG_TRY_ASSIGN(tensor, set[i]);
    WEIG_TRY(check_representable(tensor));
    WEIG_TRY_ASSIGN(owner, set.member(set.member_of(i))->owner(tensor.ordinal()));
    copies += owner != tensor.ordinal() ? 1 : 0;
    content.items.push_back({tensor.name(), safetensors_type_order(tensor.dtype()),
                             static_cast<std::uint32_t>(i)});
  }
  content.warnings = sections_left_out(set, "safetensors");
  if (copies > 0)
    content.warnings.insert(content.warnings.begin(),
                            "written again, since safetensors cannot share bytes: " +
                                std::to_string(copies) +
                                (copies == 1 ? " tensor" : " tensors"));
  WEIG_TRY_ASSIGN(metadata, plain_metadata(set));
  content.metadata = std::move(metadata);
  return content;
}

SafetensorsHeader header_with(const std::optional<std::string>& metadata) {
  return SafetensorsHeader(metadata ? std::optional<std::string_view>(*metadata)
                                    : std::nullopt);
}

// A file of these tensors.
Result<ExportPlan> canonical(const ModelSet& set, std::span<const Item> items,
                             const std::optional<std::string>& metadata) {
  std::vector<Item> ordered(items.begin(), items.end());
  std::ranges::sort(ordered, [](const Item& a, const Item& b) {
    return a.type_order != b.type_order ? a.type_order < b.type_order : a.name < b.name;
  });
  SafetensorsHeader header = header_with(metadata);
  std::vector<std::uint32_t> ordinals;
  ordinals.reserve(ordered.size());
  for (const Item& item : ordered) {
    WEIG_TRY_ASSIGN(tensor, set[item.ordinal]);
    header.add(tensor.name(), tensor.dtype(), tensor.shape(), tensor.byte_count());
    ordinals.push_back(item.ordinal);
  }
  return plan_of(header.finish(), ordinals);
}

// At most what the tensor adds to a file.
std::uint64_t bytes_for(const Tensor& tensor) {
  constexpr std::uint64_t kOffsetDigits = 40;  // of its two, wherever it lies
  SafetensorsHeader alone(std::nullopt);
  alone.add(tensor.name(), tensor.dtype(), tensor.shape(), tensor.byte_count());
  return alone.size() + kOffsetDigits + tensor.byte_count();
}

// Where each file ends: in the set's order, as much as fits into each.
Result<std::vector<std::size_t>> shard_ends(const ModelSet& set, const Content& content,
                                            std::uint64_t shard_bytes) {
  constexpr std::uint64_t kEnd = 16;  // of a header
  const std::uint64_t empty = header_with(content.metadata).size() + kEnd;
  std::vector<std::size_t> ends;
  std::uint64_t bytes = empty;
  for (std::size_t i = 0; i < content.items.size(); ++i) {
    WEIG_TRY_ASSIGN(tensor, set[content.items[i].ordinal]);
    const std::uint64_t more = bytes_for(tensor);
    if (bytes > empty && more > shard_bytes - std::min(bytes, shard_bytes)) {
      ends.push_back(i);
      bytes = empty;
    }
    bytes += more;
  }
  ends.push_back(content.items.size());
  return ends;
}

}  // namespace

Result<ExportPlan> plan_safetensors(const ModelSet& set, const ExportOptions&) {
  WEIG_TRY_ASSIGN(plan, original(set));
  if (plan) return *std::move(plan);
  WEIG_TRY_ASSIGN(content, content_of(set));
  WEIG_TRY_ASSIGN(made, canonical(set, content.items, content.metadata));
  made.warnings = std::move(content.warnings);
  return std::move(made);
}

Result<std::vector<ExportPlan>> plan_safetensors_shards(const ModelSet& set,
                                                        std::uint64_t shard_bytes) {
  WEIG_TRY_ASSIGN(content, content_of(set));
  WEIG_TRY_ASSIGN(ends, shard_ends(set, content, shard_bytes));
  std::vector<ExportPlan> plans;
  plans.reserve(ends.size());
  std::size_t begin = 0;
  for (const std::size_t end : ends) {
    const auto items = std::span(content.items).subspan(begin, end - begin);
    WEIG_TRY_ASSIGN(plan, canonical(set, items, content.metadata));
    plans.push_back(std::move(plan));
    begin = end;
  }
  plans.front().warnings = std::move(content.warnings);
  return plans;
}

Result<std::string> safetensors_index(const ModelSet& set,
                                      std::span<const ExportPlan> plans,
                                      std::span<const std::string> file_names) {
  std::vector<std::uint32_t> shards(set.size());
  for (std::uint32_t s = 0; s < plans.size(); ++s)
    for (const ExportPiece& piece : plans[s].pieces)
      if (piece.ordinal != disk::kNone) shards[piece.ordinal] = s;
  std::uint64_t bytes = 0;
  std::string map;
  for (std::uint32_t i = 0; i < set.size(); ++i) {
    WEIG_TRY_ASSIGN(tensor, set[i]);
    bytes += tensor.byte_count();
    map += i > 0 ? ",\n    " : "\n    ";
    append_json_string(map, tensor.name());
    map += ": ";
    append_json_string(map, file_names[shards[i]]);
  }
  return "{\n  \"metadata\": {\n    \"total_size\": " + std::to_string(bytes) +
         "\n  },\n  \"weight_map\": {" + map + "\n  }\n}\n";
}

}  // namespace weig
