// SPDX-License-Identifier: Apache-2.0
// The bytes of a file by what they are: one part a group of layers, one for tensors
// that belong to none, one for everything that is not weights.
#pragma once

#include <weig/file_range.h>
#include <weig/model.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace weig::cli {

struct FilePart {
  std::string name;
  bool is_group = false;
  std::vector<FileRange> ranges;  // in order, apart from each other
};

std::uint64_t byte_count(std::span<const FileRange> ranges);

// The bytes of `range` that lie in one of `ranges`, which are in order.
std::uint64_t bytes_within(std::span<const FileRange> ranges, FileRange range);

// `ranges` in order, with those that touch or overlap joined.
std::vector<FileRange> joined(std::vector<FileRange> ranges);

// All parts of a file, in its order; together they are the whole file. One part, "all",
// where it has no groups. Fails where a record or a section is damaged.
Result<std::vector<FilePart>> file_parts(const Model& model);

// The ranges of the groups whose names match one of `patterns` (as `weig ls` has them),
// in order. Fails with not_found for a pattern that matches none.
Result<std::vector<FileRange>> group_ranges(const std::vector<FilePart>& parts,
                                            const std::vector<std::string>& patterns);

}  // namespace weig::cli
