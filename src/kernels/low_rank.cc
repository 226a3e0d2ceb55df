// SPDX-License-Identifier: Apache-2.0
// Compiled without contraction (CMakeLists.txt): a sum of a product must not become one
// operation where the processor has it.
#include "kernels/low_rank.h"

#include <cstdint>

// This file is compiled once for each instruction set.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/low_rank.cc"
#include <hwy/foreach_target.h>
// After the line above, which includes it too.
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace weig::kernels::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

// Two vectors of doubles are never more than a tile's least columns.
using WideTag = hn::CappedTag<double, kTileColumns / 2>;
using NarrowTag = hn::Rebind<float, WideTag>;
using Wide = hn::Vec<WideTag>;

HWY_INLINE Wide load(const float* at) {
  return hn::PromoteTo(WideTag(), hn::LoadU(NarrowTag(), at));
}

HWY_INLINE void add_to(float* at, Wide sum, Wide scale) {
  const WideTag wide;
  const NarrowTag narrow;
  const Wide value = hn::Add(load(at), hn::Mul(scale, sum));
  // Highway's emulation gives the largest float for all that is above it. What rounds
  // to infinity gets there by a second one; all else by -0, which changes nothing.
  const Wide largest = hn::CopySign(hn::Set(wide, 0x1.fffffep127), value);
  const auto overflows = hn::Ge(hn::Abs(value), hn::Set(wide, 0x1.ffffffp127));
  const Wide more = hn::IfThenElse(overflows, largest, hn::Set(wide, -0.0));
  const auto rounded = hn::Add(hn::DemoteTo(narrow, value), hn::DemoteTo(narrow, more));
  const hn::RebindToUnsigned<NarrowTag> words;
  const auto nan = hn::BitCast(narrow, hn::Set(words, std::uint32_t{0x7FC00000}));
  hn::StoreU(hn::IfThenElse(hn::IsNaN(rounded), nan, rounded), narrow, at);
}

// Products of floats are exact as doubles: fused or not, their sums are the same.
void add_product(const LowRankTile& tile, float* values) {
  const WideTag wide;
  const std::size_t lanes = hn::Lanes(wide);
  const Wide scale = hn::Set(wide, tile.scale);
  for (std::size_t column = 0; column < tile.columns; column += 2 * lanes) {
    // Vectors of some instruction sets cannot be in an array.
    Wide sum00 = hn::Zero(wide);
    Wide sum01 = sum00;
    Wide sum10 = sum00;
    Wide sum11 = sum00;
    Wide sum20 = sum00;
    Wide sum21 = sum00;
    Wide sum30 = sum00;
    Wide sum31 = sum00;
    const double* left = tile.left;
    const float* right = tile.right + column;
    for (std::size_t k = 0; k < tile.rank; ++k) {
      const Wide right0 = load(right);
      const Wide right1 = load(right + lanes);
      const Wide left0 = hn::Set(wide, left[0]);
      const Wide left1 = hn::Set(wide, left[1]);
      const Wide left2 = hn::Set(wide, left[2]);
      const Wide left3 = hn::Set(wide, left[3]);
      sum00 = hn::MulAdd(left0, right0, sum00);
      sum01 = hn::MulAdd(left0, right1, sum01);
      sum10 = hn::MulAdd(left1, right0, sum10);
      sum11 = hn::MulAdd(left1, right1, sum11);
      sum20 = hn::MulAdd(left2, right0, sum20);
      sum21 = hn::MulAdd(left2, right1, sum21);
      sum30 = hn::MulAdd(left3, right0, sum30);
      sum31 = hn::MulAdd(left3, right1, sum31);
      left += kTileRows;
      right += tile.stride;
    }
    float* at = values + column;
    add_to(at, sum00, scale);
    add_to(at + lanes, sum01, scale);
    at += tile.columns;
    add_to(at, sum10, scale);
    add_to(at + lanes, sum11, scale);
    at += tile.columns;
    add_to(at, sum20, scale);
    add_to(at + lanes, sum21, scale);
    at += tile.columns;
    add_to(at, sum30, scale);
    add_to(at + lanes, sum31, scale);
  }
}

}  // namespace
}  // namespace weig::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace weig::kernels {
namespace {

HWY_EXPORT(add_product);

}  // namespace

void add_product(const LowRankTile& tile, float* values) noexcept {
  HWY_DYNAMIC_DISPATCH(add_product)(tile, values);
}

}  // namespace weig::kernels
#endif  // HWY_ONCE
