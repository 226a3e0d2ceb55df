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

Result<ExportPlan> canonical(const ModelSet& set) {
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
  std::vector<std::string> warnings = sections_left_out(set, "safetensors");
  if (copies > 0)
    warnings.insert(warnings.begin(),
                    "written again, since safetensors cannot share bytes: " +
                        std::to_string(copies) +
                        (copies == 1 ? " tensor" : " tensors"));
  std::ranges::sort(items, [](const Item& a, const Item& b) {
    return a.type_order != b.type_order ? a.type_order < b.type_order : a.name < b.name;
  });
  WEIG_TRY_ASSIGN(metadata, plain_metadata(set));
  SafetensorsHeader header(metadata ? std::optional<std::string_view>(*metadata)
                                    : std::nullopt);
  std::vector<std::uint32_t> ordinals;
  for (const Item& item : items) {
    WEIG_TRY_ASSIGN(tensor, set[item.ordinal]);
    header.add(tensor.name(), tensor.dtype(), tensor.shape(), tensor.byte_count());
    ordinals.push_back(item.ordinal);
  }
  ExportPlan plan = plan_of(header.finish(), ordinals);
  plan.warnings = std::move(warnings);
  return plan;
}

}  // namespace

Result<ExportPlan> plan_safetensors(const ModelSet& set, const ExportOptions&) {
  WEIG_TRY_ASSIGN(plan, original(set));
  if (plan) return *std::move(plan);
  return canonical(set);
}

}  // namespace weig
