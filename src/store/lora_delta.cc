// SPDX-License-Identifier: Apache-2.0
// The sum of a tensor and what an adapter adds to it, by parts, one a thread.
#include <algorithm>
#include <array>

#include "core/bytes.h"
#include "kernels/float_cast.h"
#include "kernels/low_rank.h"
#include "store/lora.h"
#include "store/parallel.h"

namespace weig {
namespace {

// What a thread takes at a time: of the right factor no more than a cache has.
constexpr std::uint64_t kPartRows = 32;
constexpr std::uint64_t kPartColumns = 512;
static_assert(kPartRows % kernels::kTileRows == 0);
static_assert(kPartColumns % kernels::kTileColumns == 0);

std::uint64_t element_bytes(Dtype dtype) { return dtype_info(dtype)->block_bytes; }

std::uint64_t parts_of(std::uint64_t whole, std::uint64_t part) {
  return whole / part + (whole % part != 0 ? 1 : 0);
}

}  // namespace

LoraDelta::LoraDelta(const LoraAdapter& adapter, const LoraModule& module, Dtype dtype)
    : module_(module), dtype_(dtype) {
  // LoraAdapter::open() has had both tensors.
  const Tensor a = adapter.file()[module.a].value();
  const Tensor b = adapter.file()[module.b].value();
  const Tensor& left = module.transposed ? a : b;
  const Tensor& right = module.transposed ? b : a;
  factor_dtype_ = left.dtype();
  left_ = left.bytes();
  stride_ = align_up(module.columns, kernels::kTileColumns);
  right_.resize(module.rank * stride_);
  const std::uint64_t unit = element_bytes(right.dtype());
  if (!module.transposed) {
    for (std::uint64_t k = 0; k < module.rank; ++k)
      kernels::widen(right.dtype(), right.bytes().data() + k * module.columns * unit,
                     module.columns, right_.data() + k * stride_);
    return;
  }
  std::vector<float> row(module.rank);
  for (std::uint64_t column = 0; column < module.columns; ++column) {
    kernels::widen(right.dtype(), right.bytes().data() + column * module.rank * unit,
                   module.rank, row.data());
    for (std::uint64_t k = 0; k < module.rank; ++k)
      right_[k * stride_ + column] = row[k];
  }
}

// The left factor of a tile: for each k, the numbers of its rows. Fewer rows than a
// tile has leave zeros.
void LoraDelta::read_left(std::uint64_t row, std::uint64_t rows,
                          std::span<double> left) const {
  const std::uint64_t unit = element_bytes(factor_dtype_);
  const std::uint64_t rank = module_.rank;
  std::ranges::fill(left, 0);
  if (module_.transposed) {
    std::array<float, kernels::kTileRows> numbers;
    for (std::uint64_t k = 0; k < rank; ++k) {
      kernels::widen(factor_dtype_, left_.data() + (k * module_.rows + row) * unit,
                     rows, numbers.data());
      for (std::uint64_t r = 0; r < rows; ++r)
        left[k * kernels::kTileRows + r] = numbers[r];
    }
    return;
  }
  std::vector<float> numbers(rank);
  for (std::uint64_t r = 0; r < rows; ++r) {
    kernels::widen(factor_dtype_, left_.data() + (row + r) * rank * unit, rank,
                   numbers.data());
    for (std::uint64_t k = 0; k < rank; ++k)
      left[k * kernels::kTileRows + r] = numbers[k];
  }
}

void LoraDelta::add_part(const LoraPiece& part, std::byte* elements,
                         std::uint64_t row_bytes) const {
  std::vector<double> left(module_.rank * kernels::kTileRows);
  std::array<float, kernels::kTileRows * kPartColumns> values{};
  const std::uint64_t columns = align_up(part.columns, kernels::kTileColumns);
  const kernels::LowRankTile tile{.left = left.data(),
                                  .right = right_.data() + part.column,
                                  .rank = module_.rank,
                                  .stride = stride_,
                                  .columns = columns,
                                  .scale = module_.scale};
  for (std::uint64_t at = 0; at < part.rows; at += kernels::kTileRows) {
    const std::uint64_t rows = std::min(kernels::kTileRows, part.rows - at);
    read_left(part.row + at, rows, left);
    std::byte* const first = elements + at * row_bytes;
    for (std::uint64_t r = 0; r < rows; ++r)
      kernels::widen(dtype_, first + r * row_bytes, part.columns,
                     values.data() + r * columns);
    kernels::add_product(tile, values.data());
    for (std::uint64_t r = 0; r < rows; ++r)
      kernels::narrow(dtype_, values.data() + r * columns, part.columns,
                      first + r * row_bytes);
  }
}

Status LoraDelta::add(const LoraPiece& piece, std::span<std::byte> elements) const {
  const std::uint64_t unit = element_bytes(dtype_);
  const std::uint64_t row_bytes = piece.columns * unit;
  const std::uint64_t across = parts_of(piece.columns, kPartColumns);
  const std::uint64_t down = parts_of(piece.rows, kPartRows);
  return run_in_parallel(across * down, [&](std::uint64_t number) -> Status {
    const std::uint64_t row = number / across * kPartRows;
    const std::uint64_t column = number % across * kPartColumns;
    add_part({.row = piece.row + row,
              .rows = std::min(kPartRows, piece.rows - row),
              .column = piece.column + column,
              .columns = std::min(kPartColumns, piece.columns - column)},
             elements.data() + row * row_bytes + column * unit, row_bytes);
    return {};
  });
}

}  // namespace weig
