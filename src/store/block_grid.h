// SPDX-License-Identifier: Apache-2.0
// Which elements of a tensor share a scale: BlockGrid, as runs of neighbours, and the
// shape that the scales have.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include <weig/format.h>

#include "kernels/affine.h"

namespace weig {

// Rows of `row` elements, each cut into blocks of `block`, of which the last may be
// shorter. Row r has the scales of row r % rows.
struct BlockGrid {
  std::uint64_t row = 1;
  std::uint64_t block = 1;
  std::uint64_t rows = 1;

  // `axis` and `block` as in a quantization entry, both proven to go with the shape.
  static BlockGrid of(std::span<const std::uint64_t> shape, std::uint32_t axis,
                      std::uint32_t block) noexcept {
    const auto product = [](std::span<const std::uint64_t> dimensions) {
      std::uint64_t elements = 1;
      for (const std::uint64_t size : dimensions) elements *= size;
      return elements;
    };
    if (axis == disk::kNone) return {product(shape), product(shape), 1};
    const std::uint64_t behind = product(shape.subspan(axis + 1));
    if (block == 0) return {behind, behind, shape[axis]};
    return {shape[axis], block, product(shape.first(axis))};
  }

  std::uint64_t blocks_per_row() const noexcept {
    return row / block + (row % block != 0 ? 1 : 0);
  }
  // The scale of element number `element`.
  std::uint64_t scale_of(std::uint64_t element) const noexcept {
    return element / row % rows * blocks_per_row() + element % row / block;
  }

  // Takes [first, first + count) apart, in order: calls visit(offset from `first`, the
  // scale of the first run, runs), where the runs are back to back and their scales
  // follow each other.
  template <typename Visit>
  void for_each_run(std::uint64_t first, std::uint64_t count, Visit visit) const {
    for (std::uint64_t at = first; at < first + count;) {
      const kernels::Runs runs = runs_at(at, first + count);
      visit(at - first, scale_of(at), runs);
      at += runs.elements();
    }
  }

 private:
  // The longest stretch of runs at `at`, which is before `end`.
  kernels::Runs runs_at(std::uint64_t at, std::uint64_t end) const noexcept {
    const std::uint64_t column = at % row;
    const std::uint64_t left =
        std::min({end - at, row - column, block - column % block});
    if (column % block != 0 || left < block) return {left, 1};
    std::uint64_t whole = (row - column) / block;
    // Where rows are of whole blocks, the next one goes on.
    if (row % block == 0) whole += (rows - 1 - at / row % rows) * (row / block);
    return {block, std::min(whole, (end - at) / block)};
  }
};

// The shape of scales and zero points, with axis and block as above. One of them, for
// all of a tensor, may as well be a vector of one.
inline std::vector<std::uint64_t> parameter_shape(std::span<const std::uint64_t> shape,
                                                  std::uint32_t axis,
                                                  std::uint32_t block) {
  std::vector<std::uint64_t> scales;
  if (axis == disk::kNone) return scales;
  if (block == 0) {
    scales.push_back(shape[axis]);
    return scales;
  }
  scales.assign(shape.begin(), shape.end());
  scales[axis] = scales[axis] / block + (scales[axis] % block != 0 ? 1 : 0);
  return scales;
}
inline bool is_parameter_shape(std::span<const std::uint64_t> found,
                               std::span<const std::uint64_t> expected) noexcept {
  if (expected.empty() && found.size() == 1) return found[0] == 1;
  return std::ranges::equal(found, expected);
}

}  // namespace weig
