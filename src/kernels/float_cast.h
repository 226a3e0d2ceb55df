// SPDX-License-Identifier: Apache-2.0
// Many elements of one floating type as another: f32, f16, bf16 and f8_e4m3fn, by the
// widest instructions that the processor has. The rules are in weig/quantize.h.
#pragma once

#include <cstddef>

#include <weig/dtype.h>

namespace weig::kernels {

// Whether the functions below know the type.
constexpr bool is_castable(Dtype dtype) noexcept {
  return dtype == Dtype::f32 || dtype == Dtype::f16 || dtype == Dtype::bf16 ||
         dtype == Dtype::f8_e4m3fn;
}

// `count` elements of `from`, which must be castable, at any alignment, in this
// machine's byte order. The ranges must not overlap.
void widen(Dtype from, const std::byte* in, std::size_t count, float* out) noexcept;
void narrow(Dtype to, const float* in, std::size_t count, std::byte* out) noexcept;

}  // namespace weig::kernels
