// SPDX-License-Identifier: Apache-2.0
#include "file_parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "glob.h"
#include "near_names.h"
#include "owners.h"
#include "terminal.h"

namespace weig::cli {
namespace {

// What is left of `whole` without `taken`, which is in order.
std::vector<FileRange> without(FileRange whole, std::span<const FileRange> taken) {
  std::vector<FileRange> rest;
  std::uint64_t at = whole.begin;
  for (const FileRange& range : taken) {
    if (range.begin > at) rest.push_back({at, range.begin});
    at = std::max(at, range.end);
  }
  if (at < whole.end) rest.push_back({at, whole.end});
  return rest;
}

// From the first to the last byte of the tensors that a group owns.
Result<FileRange> range_of(const Model& model, Owners& owners, const Group& group) {
  FileRange range{model.file_size(), 0};
  for (std::uint32_t i = group.first; i < group.first + group.count; ++i) {
    const auto tensor = model[i];
    if (!tensor) return tensor.error();
    if (owners.of(*tensor) != i || tensor->byte_count() == 0) continue;
    range.begin = std::min(range.begin, tensor->data_offset());
    range.end = std::max(range.end, tensor->data_offset() + tensor->byte_count());
  }
  if (range.begin >= range.end)
    return FileRange{model.data_begin(), model.data_begin()};
  return range;
}

}  // namespace

std::uint64_t byte_count(std::span<const FileRange> ranges) {
  std::uint64_t sum = 0;
  for (const FileRange& range : ranges) sum += range.size();
  return sum;
}

std::uint64_t bytes_within(std::span<const FileRange> ranges, FileRange range) {
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

Result<std::vector<FilePart>> file_parts(const Model& model) {
  const FileRange file{0, model.file_size()};
  const FileRange data{model.data_begin(), model.data_end()};
  const auto groups = model.groups();
  if (!groups) return groups.error();
  if (groups->empty()) return std::vector<FilePart>{{.name = "all", .ranges = {file}}};
  std::vector<FilePart> parts{{.name = "metadata", .ranges = {}}};
  std::vector<FileRange> grouped;
  Owners owners(model);
  for (std::uint32_t i = 0; i < groups->size(); ++i) {
    const auto range = range_of(model, owners, (*groups)[i]);
    if (!range) return range.error();
    grouped.push_back(*range);
    parts.push_back(
        {.name = std::string((*groups)[i].name), .is_group = true, .ranges = {*range}});
  }
  const auto loose = without(data, joined(grouped));
  if (!loose.empty()) parts.push_back({.name = "rest of the file", .ranges = loose});
  parts.front().ranges = without(file, std::vector{data});
  return parts;
}

Result<std::vector<FileRange>> group_ranges(const std::vector<FilePart>& parts,
                                            const std::vector<std::string>& patterns) {
  std::vector<FileRange> ranges;
  std::vector<std::string> known;
  for (const FilePart& part : parts)
    if (part.is_group) known.push_back(part.name);
  if (known.empty())
    return Error(Code::not_found, "this file has no groups")
        .hint("'weig convert' makes a file that has");
  for (const std::string& pattern : patterns) {
    bool found = false;
    for (const FilePart& part : parts) {
      if (!part.is_group || !glob_matches(pattern, part.name)) continue;
      ranges.insert(ranges.end(), part.ranges.begin(), part.ranges.end());
      found = true;
    }
    if (found) continue;
    const auto near = nearest(known, pattern);
    return Error(Code::not_found, "no group is called " + in_quotes(pattern))
        .hint(near ? fmt::format("did you mean {}?", in_quotes(*near))
                   : "'weig residency' lists them, between metadata and the rest of "
                     "the file");
  }
  return joined(std::move(ranges));
}

}  // namespace weig::cli
