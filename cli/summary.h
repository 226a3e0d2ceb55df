// SPDX-License-Identifier: Apache-2.0
// Summary: what `weig info` says of the tensors of a file or a set, counted in one
// pass.
#pragma once

#include <weig/model_set.h>

#include <cstdint>
#include <vector>

namespace weig::cli {

struct DtypeCount {
  Dtype dtype{};
  std::uint64_t tensors = 0;
  std::uint64_t parameters = 0;  // of tensors that own their bytes
  std::uint64_t bytes = 0;       // likewise
};

struct Summary {
  std::uint64_t tensors = 0;
  std::uint64_t aliases = 0;
  std::uint64_t parameters = 0;  // elements, aliases not counted twice
  std::uint64_t bytes = 0;
  std::vector<DtypeCount> dtypes;  // most bytes first
  // Of tensors that have bytes: the largest power of two that divides all offsets, and
  // how many start on a page and on a huge page.
  std::uint64_t alignment = 0;
  std::uint64_t with_bytes = 0;
  std::uint64_t on_4_kib = 0;
  std::uint64_t on_2_mib = 0;
};

// Fails where a record is damaged.
Result<Summary> summarize(const Model& model);
Result<Summary> summarize(const ModelSet& set);

}  // namespace weig::cli
