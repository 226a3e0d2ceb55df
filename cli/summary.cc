// SPDX-License-Identifier: Apache-2.0
#include "summary.h"

#include <algorithm>

#include "owners.h"

namespace weig::cli {
namespace {

DtypeCount& count_of(std::vector<DtypeCount>& counts, Dtype dtype) {
  const auto found = std::ranges::find(counts, dtype, &DtypeCount::dtype);
  if (found != counts.end()) return *found;
  return counts.emplace_back(DtypeCount{.dtype = dtype});
}

void add_place(Summary& summary, std::uint64_t offset) {
  const std::uint64_t alignment = offset & (~offset + 1);  // the lowest bit set
  summary.alignment =
      summary.with_bytes == 0 ? alignment : std::min(summary.alignment, alignment);
  ++summary.with_bytes;
  if (offset % (std::uint64_t{4} << 10) == 0) ++summary.on_4_kib;
  if (offset % (std::uint64_t{2} << 20) == 0) ++summary.on_2_mib;
}

Status add_tensors(Summary& summary, const Model& model) {
  Owners owners(model);
  for (const auto& tensor : model.tensors()) {
    if (!tensor) return tensor.error();
    DtypeCount& count = count_of(summary.dtypes, tensor->dtype());
    ++summary.tensors;
    ++count.tensors;
    if (tensor->byte_count() > 0) add_place(summary, tensor->data_offset());
    if (owners.of(*tensor) != tensor->ordinal()) {
      ++summary.aliases;
      continue;
    }
    count.parameters += tensor->element_count();
    count.bytes += tensor->byte_count();
    summary.parameters += tensor->element_count();
    summary.bytes += tensor->byte_count();
  }
  return {};
}

void sort_types(Summary& summary) {
  std::ranges::stable_sort(summary.dtypes, std::ranges::greater(), &DtypeCount::bytes);
}

}  // namespace

Result<Summary> summarize(const Model& model) {
  Summary summary;
  if (auto status = add_tensors(summary, model); !status)
    return std::move(status).error();
  sort_types(summary);
  return summary;
}

Result<Summary> summarize(const ModelSet& set) {
  Summary summary;
  for (std::uint32_t m = 0; m < set.member_count(); ++m)
    if (auto status = add_tensors(summary, *set.member(m)); !status)
      return std::move(status).error();
  sort_types(summary);
  return summary;
}

}  // namespace weig::cli
