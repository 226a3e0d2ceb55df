// SPDX-License-Identifier: Apache-2.0
// Parts of a model's file by what they are: layer groups, tensors, what belongs to
// none. Loads, Model::release and Model::unmap take them as ranges of bytes.
//
//   const auto layer = weig::ranges_of(model, {.groups = {"model.layers.0"}});
//   model.prefetch(*layer);   // comes in while others are used
//   model.release(*layer);    // and goes, page cache included
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <weig/error.h>
#include <weig/file_range.h>

namespace weig {

class Model;

// Names, as `weig ls` has them.
struct Parts {
  std::vector<std::string> groups = {};
  std::vector<std::string> tensors = {};
  bool empty() const noexcept { return groups.empty() && tensors.empty(); }
};

// The bytes of the data that these parts own, in order and apart from each other. Of a
// group, from its first tensor to its last. Fails with not_found for a name that the
// file does not have, and with corrupt or unsupported where a record breaks a rule.
Result<std::vector<FileRange>> ranges_of(const Model& model, const Parts& parts);

struct FilePart {
  std::string name;
  bool is_group = false;
  std::vector<FileRange> ranges;  // in order, apart from each other
};

// All parts of a file, in its order; together they are the whole file: "metadata", the
// groups, and "rest of the file" where tensors belong to none. One part, "all", where
// it has no groups. Fails with corrupt or unsupported where a record or a section is
// damaged.
Result<std::vector<FilePart>> file_parts(const Model& model);

std::uint64_t byte_count(std::span<const FileRange> ranges) noexcept;

// The bytes of `range` that lie in one of `ranges`, which are in order.
std::uint64_t bytes_within(std::span<const FileRange> ranges, FileRange range) noexcept;

// `ranges` in order, with those that touch or overlap joined; without empty ones.
std::vector<FileRange> joined(std::vector<FileRange> ranges);

// What is left of `whole` without `taken`, which is in order.
std::vector<FileRange> without(FileRange whole, std::span<const FileRange> taken);

}  // namespace weig
