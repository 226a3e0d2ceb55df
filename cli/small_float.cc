// SPDX-License-Identifier: Apache-2.0
#include "small_float.h"

#include <cmath>
#include <limits>

namespace weig::cli {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

}  // namespace

std::optional<SmallFloat> small_float(Dtype dtype) noexcept {
  using enum SmallFloat::Specials;
  switch (dtype) {
    case Dtype::f16:
      return SmallFloat{5, 10, 15, ieee};
    case Dtype::bf16:
      return SmallFloat{8, 7, 127, ieee};
    case Dtype::f8_e4m3fn:
      return SmallFloat{4, 3, 7, one_nan};
    case Dtype::f8_e5m2:
      return SmallFloat{5, 2, 15, ieee};
    case Dtype::f8_e4m3fnuz:
      return SmallFloat{4, 3, 8, negative_zero};
    case Dtype::f8_e5m2fnuz:
      return SmallFloat{5, 2, 16, negative_zero};
    case Dtype::f8_e4m3:
      return SmallFloat{4, 3, 7, ieee};
    case Dtype::f8_e3m4:
      return SmallFloat{3, 4, 3, ieee};
    case Dtype::f8_e4m3b11fnuz:
      return SmallFloat{4, 3, 11, negative_zero};
    case Dtype::f6_e2m3:
      return SmallFloat{2, 3, 1, none};
    case Dtype::f6_e3m2:
      return SmallFloat{3, 2, 3, none};
    case Dtype::f4_e2m1:
      return SmallFloat{2, 1, 1, none};
    default:
      return std::nullopt;
  }
}

float decode(const SmallFloat& format, std::uint32_t code) noexcept {
  const bool negative = (code & format.sign_bit()) != 0;
  const std::uint32_t magnitude = code & (format.sign_bit() - 1);
  if (magnitude == 0 && negative &&
      format.specials == SmallFloat::Specials::negative_zero)
    return kNan;
  float value = 0;
  if (magnitude >= format.magnitude_end()) {
    const bool infinite = format.specials == SmallFloat::Specials::ieee &&
                          magnitude == format.magnitude_end();
    value = infinite ? kInfinity : kNan;
  } else {
    const std::uint32_t mantissa = magnitude & ((1u << format.mantissa_bits) - 1);
    const std::uint32_t exponent = magnitude >> format.mantissa_bits;
    // Exponent 0 is the subnormals: the same step as exponent 1, without the one.
    const std::uint32_t whole = mantissa + (exponent ? 1u << format.mantissa_bits : 0u);
    const int power = static_cast<int>(exponent ? exponent : 1u) - format.bias -
                      static_cast<int>(format.mantissa_bits);
    value = std::ldexp(static_cast<float>(whole), power);
  }
  return negative ? -value : value;
}

float decode_e8m0(std::uint32_t code) noexcept {
  return code == 0xFF ? kNan : std::ldexp(1.0f, static_cast<int>(code) - 127);
}

}  // namespace weig::cli
