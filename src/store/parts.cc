// SPDX-License-Identifier: Apache-2.0
#include <weig/model.h>
#include <weig/parts.h>

#include <algorithm>
#include <utility>

#include "core/try.h"

namespace weig {
namespace {

// From the first to the last byte of a group's tensors. Aliases lie where their owner
// does, which is in the same group.
Result<FileRange> range_of(const Model& model, const Group& group) {
  FileRange range{model.file_size(), 0};
  for (std::uint32_t i = group.first; i < group.first + group.count; ++i) {
    WEIG_TRY_ASSIGN(tensor, model.view()[i]);
    if (tensor.byte_count() == 0) continue;
    range.begin = std::min(range.begin, tensor.data_offset());
    range.end = std::max(range.end, tensor.data_offset() + tensor.byte_count());
  }
  if (range.begin < range.end) return range;
  return FileRange{model.data_begin(), model.data_begin()};
}

Result<std::vector<FileRange>> add_groups(const Model& model, const Parts& parts) {
  std::vector<FileRange> ranges;
  WEIG_TRY_ASSIGN(groups, model.groups());
  for (const std::string& name : parts.groups) {
    std::uint32_t i = 0;
    while (i < groups.size() && groups[i].name != name) ++i;
    if (i == groups.size())
      return Error(Code::not_found, "no group is called '" + name + "'")
          .hint(groups.empty()
                    ? "the file has no groups: 'weig convert' makes one that "
                      "has"
                    : "'weig residency' lists them");
    WEIG_TRY_ASSIGN(range, range_of(model, groups[i]));
    ranges.push_back(range);
  }
  return ranges;
}

}  // namespace

Result<std::vector<FileRange>> ranges_of(const Model& model, const Parts& parts) {
  auto ranges = add_groups(model, parts);
  if (!ranges) return std::move(ranges).error().file(model.path());
  for (const std::string& name : parts.tensors) {
    auto tensor = model.view().tensor(name);
    if (!tensor) return std::move(tensor).error().file(model.path());
    ranges->push_back(
        {tensor->data_offset(), tensor->data_offset() + tensor->byte_count()});
  }
  return joined(*std::move(ranges));
}

Result<std::vector<FilePart>> file_parts(const Model& model) {
  const FileRange file{0, model.file_size()};
  const FileRange data{model.data_begin(), model.data_end()};
  WEIG_TRY_ASSIGN(groups, model.groups());
  if (groups.empty()) return std::vector<FilePart>{{.name = "all", .ranges = {file}}};
  std::vector<FilePart> parts{{.name = "metadata", .ranges = {}}};
  std::vector<FileRange> grouped;
  for (std::uint32_t i = 0; i < groups.size(); ++i) {
    WEIG_TRY_ASSIGN(range, range_of(model, groups[i]));
    grouped.push_back(range);
    parts.push_back(
        {.name = std::string(groups[i].name), .is_group = true, .ranges = {range}});
  }
  const auto loose = without(data, joined(grouped));
  if (!loose.empty()) parts.push_back({.name = "rest of the file", .ranges = loose});
  parts.front().ranges = without(file, std::vector{data});
  return parts;
}

std::uint64_t byte_count(std::span<const FileRange> ranges) noexcept {
  std::uint64_t sum = 0;
  for (const FileRange& range : ranges) sum += range.size();
  return sum;
}

std::uint64_t bytes_within(std::span<const FileRange> ranges,
                           FileRange range) noexcept {
  std::uint64_t sum = 0;
  auto at = std::ranges::upper_bound(ranges, range.begin, {}, &FileRange::end);
  for (; at != ranges.end() && at->begin < range.end; ++at)
    sum += std::min(at->end, range.end) - std::max(at->begin, range.begin);
  return sum;
}

std::vector<FileRange> joined(std::vector<FileRange> ranges) {
  std::ranges::sort(ranges, {}, &FileRange::begin);
  std::vector<FileRange> out;
  for (const FileRange& range : ranges) {
    if (range.size() == 0) continue;
    if (!out.empty() && range.begin <= out.back().end)
      out.back().end = std::max(out.back().end, range.end);
    else
      out.push_back(range);
  }
  return out;
}

std::vector<FileRange> without(FileRange whole, std::span<const FileRange> taken) {
  std::vector<FileRange> rest;
  std::uint64_t at = whole.begin;
  for (const FileRange& range : taken) {
    if (range.begin > at) rest.push_back({at, std::min(range.begin, whole.end)});
    at = std::max(at, range.end);
    if (at >= whole.end) return rest;
  }
  rest.push_back({at, whole.end});
  return rest;
}

}  // namespace weig
