// SPDX-License-Identifier: Apache-2.0
// SmallFloat: floating-point formats that C++ has no type for, told by their fields.
#pragma once

#include <weig/dtype.h>

#include <cstdint>
#include <optional>

namespace weig::cli {

struct SmallFloat {
  // Which codes are not numbers of the usual kind.
  enum class Specials {
    ieee,           // largest exponent: infinity and NaN
    one_nan,        // all exponent and mantissa bits set: NaN; no infinity
    negative_zero,  // the code of -0 is the only NaN; no infinity
    none,           // every code is a finite number
  };

  unsigned exponent_bits;
  unsigned mantissa_bits;
  int bias;
  Specials specials;

  // The code of +infinity in IEEE formats, else one past the largest magnitude.
  constexpr std::uint32_t magnitude_end() const noexcept {
    const std::uint32_t all = 1u << (exponent_bits + mantissa_bits);
    if (specials == Specials::ieee) return all - (1u << mantissa_bits);
    return specials == Specials::one_nan ? all - 1 : all;
  }
  constexpr std::uint32_t sign_bit() const noexcept {
    return 1u << (exponent_bits + mantissa_bits);
  }
};

// The fields of f16, bf16 and narrower floats; nothing for any other type. f8_e8m0, a
// power of two without sign or mantissa, is not among them.
std::optional<SmallFloat> small_float(Dtype dtype) noexcept;

// The value of a code, exact: a float holds every value of every such format.
float decode(const SmallFloat& format, std::uint32_t code) noexcept;
float decode_e8m0(std::uint32_t code) noexcept;

}  // namespace weig::cli
