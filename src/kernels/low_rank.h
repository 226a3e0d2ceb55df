// SPDX-License-Identifier: Apache-2.0
// The product of two thin matrices, added to many elements: the arithmetic of
// weig/lora.h, by the widest instructions that the processor has. Knows nothing of
// tensors: that is store/lora_delta.cc.
#pragma once

#include <cstddef>

namespace weig::kernels {

// A tile has so many rows, and a multiple of so many columns.
inline constexpr std::size_t kTileRows = 4;
inline constexpr std::size_t kTileColumns = 32;

struct LowRankTile {
  const double* left = nullptr;  // for each k, kTileRows numbers
  const float* right =
      nullptr;  // for each k, `columns` numbers, `stride` after the last
  std::size_t rank = 0;
  std::size_t stride = 0;
  std::size_t columns = 0;
  double scale = 0;
};

// Adds the tile's product to `values`: kTileRows rows of `columns` floats, back to
// back.
void add_product(const LowRankTile& tile, float* values) noexcept;

}  // namespace weig::kernels
