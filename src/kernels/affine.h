// SPDX-License-Identifier: Apache-2.0
// Affine quantization of many elements: the arithmetic of ONNX QuantizeLinear and
// DequantizeLinear, by the widest instructions that the processor has. Knows nothing of
// shapes, nor of how a scale is chosen: that is store/quantize.cc. All pointers may
// have any alignment for bytes; elements are in this machine's byte order.
#pragma once

#include <cstddef>
#include <cstdint>

#include <weig/dtype.h>

namespace weig::kernels {

// Whether elements of the type can be quantized here.
constexpr bool is_quantizable(Dtype dtype) noexcept {
  return dtype == Dtype::f32 || dtype == Dtype::f16 || dtype == Dtype::bf16;
}

// `count` runs of `length` elements each, back to back. Run i has scale i.
struct Runs {
  std::size_t length = 0;
  std::size_t count = 0;

  constexpr std::size_t elements() const noexcept { return length * count; }
};

// The extremes of a run, as the bits of its elements moved to the top of 32: `highs`
// the largest as signed numbers, which is the largest positive element, or 0 without
// one; `lows` the largest as unsigned numbers, which is the lowest element where its
// top bit is set. NaN and infinity have larger bits than all finite numbers of their
// sign. Raises what is there already.
void measure(Dtype from, const std::byte* in, Runs runs, std::uint32_t* highs,
             std::uint32_t* lows) noexcept;

// The float that such bits stand for; finite ones only.
float float_of_bits(Dtype from, std::uint32_t bits) noexcept;

// The integers that codes of a quantized type may be.
struct CodeRange {
  int low = 0;
  int high = 0;
};

// out[i] = saturate(round(in[i] / scale) + zero): the quotient rounded to f32, then to
// an integer, of two as near the even one. Elements must be finite and scales normal
// numbers above 0. One byte a code, in two's complement. `zeros` may be null: all 0.
void quantize(Dtype from, const std::byte* in, Runs runs, const float* scales,
              const std::int16_t* zeros, CodeRange range, std::byte* out) noexcept;

// out[i] = (in[i] - zero) * scale, where `codes` is i8 or u8.
void dequantize(Dtype codes, const std::byte* in, Runs runs, const float* scales,
                const std::int16_t* zeros, float* out) noexcept;

// Codes of one byte each to two a byte, the first in the low half; a spare half is 0.
void pack_nibbles(const std::byte* codes, std::size_t count, std::byte* out) noexcept;
// And back, where `packed` is i4 or u4: bytes of i8 or u8.
void unpack_nibbles(Dtype packed, const std::byte* in, std::size_t count,
                    std::byte* codes) noexcept;

}  // namespace weig::kernels
