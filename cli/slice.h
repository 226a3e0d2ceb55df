// SPDX-License-Identifier: Apache-2.0
// Slices with NumPy's meaning: '0:10, ::-1, 3, ...' picks elements of a tensor.
#pragma once

#include <weig/error.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace weig::cli {

// One part between commas.
struct SlicePart {
  enum class Kind { index, range, rest };  // 3, 0:10:2, ...
  Kind kind{};
  std::int64_t index = 0;
  std::optional<std::int64_t> start = {};
  std::optional<std::int64_t> stop = {};
  std::optional<std::int64_t> step = {};
};

// Fails with invalid_argument, naming the part that cannot be read.
Result<std::vector<SlicePart>> parse_slice(std::string_view text);

// Elements of a row-major array, in the order of the result: the element at position
// (p0, p1, ...) of the result is first + p0 * strides[0] + p1 * strides[1] + ...
struct Selection {
  std::vector<std::uint64_t> shape;   // of the result: an index drops its axis
  std::vector<std::int64_t> strides;  // in elements; 0 where it cannot matter
  std::uint64_t first = 0;
  std::uint64_t element_count = 1;
};

// Picks `parts` (all where there are none) of an array of that shape. Fails with
// invalid_argument for an index outside its axis, naming axis and size, and for more
// parts than axes.
Result<Selection> select(std::span<const std::uint64_t> shape,
                         std::span<const SlicePart> parts);

// Equally spaced elements: first, first + stride, ...
struct Run {
  std::uint64_t first = 0;
  std::int64_t stride = 1;
  std::uint64_t count = 0;
};

// Walks a Selection in runs as long as can be, in order.
class Runs {
 public:
  explicit Runs(const Selection& selection);
  // Nothing at the end.
  std::optional<Run> next();

 private:
  struct Axis {
    std::uint64_t count;
    std::int64_t stride;
    std::uint64_t position;
  };
  std::vector<Axis> outer_;  // slowest first
  Run run_;
  bool at_end_ = false;
};

}  // namespace weig::cli
