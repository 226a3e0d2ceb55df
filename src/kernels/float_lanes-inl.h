// SPDX-License-Identifier: Apache-2.0
// Lanes of floats from and to the element types that C++ lacks, by integer arithmetic
// alone, so that every instruction set gives the same bits. Compiled once per
// instruction set: include it inside the loop of hwy/foreach_target.h.
#if defined(WEIG_FLOAT_LANES_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef WEIG_FLOAT_LANES_INL_H
#undef WEIG_FLOAT_LANES_INL_H
#else
#define WEIG_FLOAT_LANES_INL_H
#endif

#include <hwy/highway.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

HWY_BEFORE_NAMESPACE();
namespace weig::kernels::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using FloatTag = hn::ScalableTag<float>;
using IntTag = hn::RebindToSigned<FloatTag>;
using WordTag = hn::RebindToUnsigned<FloatTag>;
using Floats = hn::Vec<FloatTag>;
using Ints = hn::Vec<IntTag>;

// The elements at any address, aligned or not: LoadU and StoreU ask for no more.
template <typename T>
const T* elements(const std::byte* at) {
  return static_cast<const T*>(static_cast<const void*>(at));
}
template <typename T>
T* elements(std::byte* at) {
  return static_cast<T*>(static_cast<void*>(at));
}

HWY_INLINE Ints int_lanes(std::int32_t value) { return hn::Set(IntTag(), value); }

// As many words as there are float lanes, with zeros above them.
template <typename Word>
HWY_INLINE Ints load_codes(const std::byte* at) {
  const hn::Rebind<Word, IntTag> tag;
  return hn::PromoteTo(IntTag(), hn::LoadU(tag, elements<Word>(at)));
}

// Codes below 2^(bits of Word).
template <typename Word>
HWY_INLINE void store_codes(Ints codes, std::byte* at) {
  const hn::Rebind<Word, IntTag> tag;
  hn::StoreU(hn::DemoteTo(tag, codes), tag, elements<Word>(at));
}

// A format narrower than f32: sign, exponent, mantissa. `kLargest` is the largest code
// of a number that is not NaN, without its sign: infinity where there is one.
struct Half {
  using Word = std::uint16_t;
  static constexpr int kMantissaBits = 10;
  static constexpr int kBias = 15;
  static constexpr std::int32_t kLargest = 0x7C00;
  static constexpr std::int32_t kNan = 0x7E00;
  static constexpr bool kHasInfinity = true;
};
struct BrainFloat {
  using Word = std::uint16_t;
  static constexpr int kMantissaBits = 7;
  static constexpr int kBias = 127;
  static constexpr std::int32_t kLargest = 0x7F80;
  static constexpr std::int32_t kNan = 0x7FC0;
  static constexpr bool kHasInfinity = true;
};
struct Float8 {  // f8_e4m3fn
  using Word = std::uint8_t;
  static constexpr int kMantissaBits = 3;
  static constexpr int kBias = 7;
  static constexpr std::int32_t kLargest = 0x7E;
  static constexpr std::int32_t kNan = 0x7F;
  static constexpr bool kHasInfinity = false;
};

inline constexpr std::int32_t kFloatInfinity = 0x7F800000;
inline constexpr std::int32_t kFloatQuiet = 0x00400000;

// The float whose bits, as an integer, are `exponent` in the exponent field.
constexpr std::int32_t power_bits(int exponent) { return (exponent + 127) << 23; }

template <typename Format>
inline constexpr int kSignShift =
    32 - 8 * static_cast<int>(sizeof(typename Format::Word));

// Lanes of codes as floats: exact, but for NaN, which becomes quiet.
template <typename Format>
HWY_INLINE Floats decode(Ints codes) {
  constexpr int kShift = 23 - Format::kMantissaBits;
  const Ints word = hn::ShiftLeft<kSignShift<Format>>(codes);
  const Ints sign = hn::And(word, int_lanes(std::numeric_limits<std::int32_t>::min()));
  const Ints magnitude =
      hn::And(codes, int_lanes((1 << (31 - kSignShift<Format>)) - 1));
  Ints bits = hn::ShiftLeft<kShift>(magnitude);
  if constexpr (Format::kBias != 127) {
    // Below the smallest normal number, a code counts steps of one size.
    const Floats step = hn::BitCast(
        FloatTag(), int_lanes(power_bits(1 - Format::kBias - Format::kMantissaBits)));
    const Floats steps = hn::Mul(hn::ConvertTo(FloatTag(), magnitude), step);
    const Ints normal = hn::Add(bits, int_lanes((127 - Format::kBias) << 23));
    bits = hn::IfThenElse(hn::Lt(magnitude, int_lanes(1 << Format::kMantissaBits)),
                          hn::BitCast(IntTag(), steps), normal);
  }
  if constexpr (Format::kHasInfinity) {
    const Ints special =
        hn::Or(hn::ShiftLeft<kShift>(magnitude), int_lanes(kFloatInfinity));
    const auto is_special = hn::Gt(magnitude, int_lanes(Format::kLargest - 1));
    bits = hn::IfThenElse(is_special, special, bits);
  }
  Ints nan = int_lanes(kFloatInfinity | kFloatQuiet);
  if constexpr (Format::kHasInfinity) nan = hn::Or(nan, bits);
  bits = hn::IfThenElse(hn::Gt(magnitude, int_lanes(Format::kLargest)), nan, bits);
  return hn::BitCast(FloatTag(), hn::Or(bits, sign));
}

// Lanes of codes whose numbers are known to be finite, as floats.
template <typename Format>
HWY_INLINE Floats decode_finite(Ints codes) {
  if constexpr (Format::kBias == 127) {
    return hn::BitCast(FloatTag(), hn::ShiftLeft<kSignShift<Format>>(codes));
  } else {
    return decode<Format>(codes);
  }
}

// Floats as codes: the nearest, of two as near the even one. What is above the largest
// number becomes `kLargest`; NaN stays NaN with its sign, quiet, and with the leading
// bits of its payload where the format has some.
template <typename Format>
HWY_INLINE Ints encode(Floats values) {
  constexpr int kShift = 23 - Format::kMantissaBits;
  const Ints bits = hn::BitCast(IntTag(), values);
  const Ints magnitude =
      hn::And(bits, int_lanes(std::numeric_limits<std::int32_t>::max()));
  const Ints odd = hn::And(hn::ShiftRight<kShift>(magnitude), int_lanes(1));
  const Ints up = hn::Add(odd, int_lanes((1 << (kShift - 1)) - 1));
  Ints codes = hn::ShiftRight<kShift>(hn::Add(magnitude, up));
  if constexpr (Format::kBias != 127) {
    codes = hn::Sub(codes, int_lanes((127 - Format::kBias) << Format::kMantissaBits));
    // Adding a power of two whose last bit is one step rounds to steps.
    const Ints power =
        int_lanes(power_bits(1 - Format::kBias - Format::kMantissaBits + 23));
    const Floats sum =
        hn::Add(hn::BitCast(FloatTag(), magnitude), hn::BitCast(FloatTag(), power));
    const Ints steps = hn::Sub(hn::BitCast(IntTag(), sum), power);
    codes = hn::IfThenElse(hn::Lt(magnitude, int_lanes(power_bits(1 - Format::kBias))),
                           steps, codes);
  }
  codes = hn::Min(codes, int_lanes(Format::kLargest));
  Ints nan = int_lanes(Format::kNan);
  if constexpr (Format::kHasInfinity)
    nan = hn::Or(nan, hn::And(hn::ShiftRight<kShift>(magnitude),
                              int_lanes((1 << Format::kMantissaBits) - 1)));
  codes = hn::IfThenElse(hn::Gt(magnitude, int_lanes(kFloatInfinity)), nan, codes);
  const Ints sign = hn::And(hn::ShiftRight<kSignShift<Format>>(bits),
                            int_lanes(1 << (31 - kSignShift<Format>)));
  return hn::Or(codes, sign);
}

}  // namespace weig::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // WEIG_FLOAT_LANES_INL_H
