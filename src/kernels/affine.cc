// SPDX-License-Identifier: Apache-2.0
#include "kernels/affine.h"

#include <algorithm>
#include <bit>
#include <cstring>

// This file is compiled once for each instruction set.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/affine.cc"
#include <hwy/foreach_target.h>
// After the line above, which includes it too.
#include <hwy/highway.h>

#include "kernels/float_lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace weig::kernels::HWY_NAMESPACE {
namespace {

// f32 as the formats of float_lanes-inl.h are told.
struct Single {
  using Word = std::uint32_t;
};

// Elements that are finite, as floats.
template <typename Format>
HWY_INLINE Floats load_floats(const std::byte* at) {
  if constexpr (std::is_same_v<Format, Single>) {
    return hn::LoadU(FloatTag(), elements<float>(at));
  } else {
    return decode_finite<Format>(load_codes<typename Format::Word>(at));
  }
}

// Elements as bits, at the top of 32.
template <typename Word>
HWY_INLINE hn::Vec<WordTag> load_bits(const std::byte* at) {
  if constexpr (sizeof(Word) == 4) {
    return hn::LoadU(WordTag(), elements<Word>(at));
  } else {
    const hn::Rebind<Word, WordTag> tag;
    const auto words = hn::LoadU(tag, elements<Word>(at));
    return hn::ShiftLeft<32 - 8 * sizeof(Word)>(hn::PromoteTo(WordTag(), words));
  }
}

template <typename Word>
HWY_INLINE void measure_run(const std::byte* in, std::size_t length,
                            std::uint32_t& high, std::uint32_t& low) {
  const hn::ScalableTag<Word> tag;
  const hn::RebindToSigned<decltype(tag)> signed_tag;
  const std::size_t lanes = hn::Lanes(tag);
  auto highest = hn::Zero(signed_tag);
  auto lowest = hn::Zero(tag);
  std::size_t i = 0;
  for (; i + lanes <= length; i += lanes) {
    const auto words = hn::LoadU(tag, elements<Word>(in + i * sizeof(Word)));
    highest = hn::Max(highest, hn::BitCast(signed_tag, words));
    lowest = hn::Max(lowest, words);
  }
  if (i < length) {
    std::byte rest[hn::MaxLanes(tag) * sizeof(Word)] = {};
    std::memcpy(rest, in + i * sizeof(Word), (length - i) * sizeof(Word));
    const auto words = hn::LoadU(tag, elements<Word>(rest));
    highest = hn::Max(highest, hn::BitCast(signed_tag, words));
    lowest = hn::Max(lowest, words);
  }
  constexpr int kUp = 32 - 8 * static_cast<int>(sizeof(Word));
  const auto top = hn::GetLane(hn::MaxOfLanes(signed_tag, highest));
  const auto bottom = hn::GetLane(hn::MaxOfLanes(tag, lowest));
  high = std::max(high, static_cast<std::uint32_t>(top) << kUp);
  low = std::max(low, static_cast<std::uint32_t>(bottom) << kUp);
}

// Runs of one element: lanes have extremes of their own.
template <typename Word>
void measure_columns(const std::byte* in, std::size_t count, std::uint32_t* highs,
                     std::uint32_t* lows) {
  const WordTag tag;
  const IntTag signed_tag;
  const std::size_t lanes = hn::Lanes(tag);
  std::size_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    const auto bits = load_bits<Word>(in + i * sizeof(Word));
    const auto high = hn::Max(hn::BitCast(signed_tag, bits),
                              hn::BitCast(signed_tag, hn::LoadU(tag, highs + i)));
    hn::StoreU(hn::BitCast(tag, high), tag, highs + i);
    hn::StoreU(hn::Max(bits, hn::LoadU(tag, lows + i)), tag, lows + i);
  }
  for (; i < count; ++i) measure_run<Word>(in + i * sizeof(Word), 1, highs[i], lows[i]);
}

template <typename Word>
void measure_runs(const std::byte* in, Runs runs, std::uint32_t* highs,
                  std::uint32_t* lows) {
  if (runs.length == 1) return measure_columns<Word>(in, runs.count, highs, lows);
  for (std::size_t run = 0; run < runs.count; ++run)
    measure_run<Word>(in + run * runs.length * sizeof(Word), runs.length, highs[run],
                      lows[run]);
}

// Adding this to a float of a small magnitude rounds it to an integer, which then is in
// the low bits of the sum.
constexpr float kRounder = 12582912.0f;  // 1.5 * 2^23
constexpr std::int32_t kRounderBits = 0x4B400000;

// The integers that lanes of elements become. `low` and `high` bound the quotient:
// bounds that are integers may be applied before it is rounded.
HWY_INLINE Ints codes_of(Floats values, Floats scales, Ints zeros, Floats low,
                         Floats high) {
  const Floats quotients = hn::Div(values, scales);
  const Floats bounded = hn::Min(hn::Max(quotients, low), high);
  const Floats sums = hn::Add(bounded, hn::Set(FloatTag(), kRounder));
  const Ints integers = hn::Sub(hn::BitCast(IntTag(), sums), int_lanes(kRounderBits));
  return hn::And(hn::Add(integers, zeros), int_lanes(0xFF));
}

template <typename Format>
HWY_INLINE void quantize_run(const std::byte* in, std::size_t length, float scale,
                             int zero, CodeRange range, std::byte* out) {
  constexpr std::size_t kBytes = sizeof(typename Format::Word);
  const FloatTag tag;
  const std::size_t lanes = hn::Lanes(tag);
  const Floats scales = hn::Set(tag, scale);
  const Floats low = hn::Set(tag, static_cast<float>(range.low - zero));
  const Floats high = hn::Set(tag, static_cast<float>(range.high - zero));
  const Ints zeros = int_lanes(zero);
  std::size_t i = 0;
  for (; i + lanes <= length; i += lanes)
    store_codes<std::uint8_t>(
        codes_of(load_floats<Format>(in + i * kBytes), scales, zeros, low, high),
        out + i);
  if (i == length) return;
  std::byte rest[hn::MaxLanes(tag) * kBytes] = {};
  std::byte codes[hn::MaxLanes(tag)];
  std::memcpy(rest, in + i * kBytes, (length - i) * kBytes);
  store_codes<std::uint8_t>(
      codes_of(load_floats<Format>(rest), scales, zeros, low, high), codes);
  std::memcpy(out + i, codes, length - i);
}

// Runs of one element: lanes have scales of their own.
template <typename Format>
void quantize_columns(const std::byte* in, std::size_t count, const float* scales,
                      const std::int16_t* zeros, CodeRange range, std::byte* out) {
  constexpr std::size_t kBytes = sizeof(typename Format::Word);
  const FloatTag tag;
  const hn::Rebind<std::int16_t, IntTag> zero_tag;
  const std::size_t lanes = hn::Lanes(tag);
  std::size_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    const Ints zero = zeros == nullptr
                          ? int_lanes(0)
                          : hn::PromoteTo(IntTag(), hn::LoadU(zero_tag, zeros + i));
    const Floats low = hn::ConvertTo(tag, hn::Sub(int_lanes(range.low), zero));
    const Floats high = hn::ConvertTo(tag, hn::Sub(int_lanes(range.high), zero));
    store_codes<std::uint8_t>(codes_of(load_floats<Format>(in + i * kBytes),
                                       hn::LoadU(tag, scales + i), zero, low, high),
                              out + i);
  }
  for (; i < count; ++i)
    quantize_run<Format>(in + i * kBytes, 1, scales[i], zeros ? zeros[i] : 0, range,
                         out + i);
}

template <typename Format>
void quantize_runs(const std::byte* in, Runs runs, const float* scales,
                   const std::int16_t* zeros, CodeRange range, std::byte* out) {
  if (runs.length == 1)
    return quantize_columns<Format>(in, runs.count, scales, zeros, range, out);
  for (std::size_t run = 0; run < runs.count; ++run) {
    const std::size_t at = run * runs.length;
    quantize_run<Format>(in + at * sizeof(typename Format::Word), runs.length,
                         scales[run], zeros ? zeros[run] : 0, range, out + at);
  }
}

template <typename Code>
HWY_INLINE void dequantize_run(const std::byte* in, std::size_t length, float scale,
                               int zero, float* out) {
  const FloatTag tag;
  const std::size_t lanes = hn::Lanes(tag);
  const Floats scales = hn::Set(tag, scale);
  const Ints zeros = int_lanes(zero);
  std::size_t i = 0;
  for (; i + lanes <= length; i += lanes) {
    const Ints steps = hn::Sub(load_codes<Code>(in + i), zeros);
    hn::StoreU(hn::Mul(hn::ConvertTo(tag, steps), scales), tag, out + i);
  }
  for (; i < length; ++i) {
    Code code;
    std::memcpy(&code, in + i, 1);
    out[i] = static_cast<float>(code - zero) * scale;
  }
}

template <typename Code>
void dequantize_columns(const std::byte* in, std::size_t count, const float* scales,
                        const std::int16_t* zeros, float* out) {
  const FloatTag tag;
  const hn::Rebind<std::int16_t, IntTag> zero_tag;
  const std::size_t lanes = hn::Lanes(tag);
  std::size_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    Ints steps = load_codes<Code>(in + i);
    if (zeros != nullptr)
      steps = hn::Sub(steps, hn::PromoteTo(IntTag(), hn::LoadU(zero_tag, zeros + i)));
    hn::StoreU(hn::Mul(hn::ConvertTo(tag, steps), hn::LoadU(tag, scales + i)), tag,
               out + i);
  }
  for (; i < count; ++i)
    dequantize_run<Code>(in + i, 1, scales[i], zeros ? zeros[i] : 0, out + i);
}

template <typename Code>
void dequantize_runs(const std::byte* in, Runs runs, const float* scales,
                     const std::int16_t* zeros, float* out) {
  if (runs.length == 1)
    return dequantize_columns<Code>(in, runs.count, scales, zeros, out);
  for (std::size_t run = 0; run < runs.count; ++run)
    dequantize_run<Code>(in + run * runs.length, runs.length, scales[run],
                         zeros ? zeros[run] : 0, out + run * runs.length);
}

void measure_words16(const std::byte* in, Runs runs, std::uint32_t* highs,
                     std::uint32_t* lows) {
  measure_runs<std::uint16_t>(in, runs, highs, lows);
}
void measure_words32(const std::byte* in, Runs runs, std::uint32_t* highs,
                     std::uint32_t* lows) {
  measure_runs<std::uint32_t>(in, runs, highs, lows);
}
void quantize_half(const std::byte* in, Runs runs, const float* scales,
                   const std::int16_t* zeros, CodeRange range, std::byte* out) {
  quantize_runs<Half>(in, runs, scales, zeros, range, out);
}
void quantize_brain_float(const std::byte* in, Runs runs, const float* scales,
                          const std::int16_t* zeros, CodeRange range, std::byte* out) {
  quantize_runs<BrainFloat>(in, runs, scales, zeros, range, out);
}
void quantize_single(const std::byte* in, Runs runs, const float* scales,
                     const std::int16_t* zeros, CodeRange range, std::byte* out) {
  quantize_runs<Single>(in, runs, scales, zeros, range, out);
}
void dequantize_signed(const std::byte* in, Runs runs, const float* scales,
                       const std::int16_t* zeros, float* out) {
  dequantize_runs<std::int8_t>(in, runs, scales, zeros, out);
}
void dequantize_unsigned(const std::byte* in, Runs runs, const float* scales,
                         const std::int16_t* zeros, float* out) {
  dequantize_runs<std::uint8_t>(in, runs, scales, zeros, out);
}

// Loops that compilers make vectors of, for this instruction set.
void pack_pairs(const std::byte* codes, std::size_t pairs, std::byte* out) {
  for (std::size_t i = 0; i < pairs; ++i)
    out[i] = (codes[2 * i] & std::byte{15}) | (codes[2 * i + 1] << 4);
}
// `sign` is 8 where the top bit of a code is its sign, else 0.
void unpack_pairs(const std::byte* in, std::size_t pairs, int sign, std::byte* codes) {
  const auto extended = [sign](unsigned code) {
    return static_cast<std::byte>((static_cast<int>(code) ^ sign) - sign);
  };
  for (std::size_t i = 0; i < pairs; ++i) {
    const auto both = std::to_integer<unsigned>(in[i]);
    codes[2 * i] = extended(both & 15);
    codes[2 * i + 1] = extended(both >> 4);
  }
}

}  // namespace
}  // namespace weig::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace weig::kernels {
namespace {

HWY_EXPORT(measure_words16);
HWY_EXPORT(measure_words32);
HWY_EXPORT(quantize_half);
HWY_EXPORT(quantize_brain_float);
HWY_EXPORT(quantize_single);
HWY_EXPORT(dequantize_signed);
HWY_EXPORT(dequantize_unsigned);
HWY_EXPORT(pack_pairs);
HWY_EXPORT(unpack_pairs);

}  // namespace

void measure(Dtype from, const std::byte* in, Runs runs, std::uint32_t* highs,
             std::uint32_t* lows) noexcept {
  if (from == Dtype::f32)
    return HWY_DYNAMIC_DISPATCH(measure_words32)(in, runs, highs, lows);
  HWY_DYNAMIC_DISPATCH(measure_words16)(in, runs, highs, lows);
}

float float_of_bits(Dtype from, std::uint32_t bits) noexcept {
  if (from != Dtype::f16) return std::bit_cast<float>(bits);
  // An f16's fields in an f32's places, and then its bias.
  const std::uint32_t magnitude = (bits & 0x7FFF0000) >> 3;
  return std::bit_cast<float>((bits & 0x80000000) | magnitude) * 0x1p112f;
}

void quantize(Dtype from, const std::byte* in, Runs runs, const float* scales,
              const std::int16_t* zeros, CodeRange range, std::byte* out) noexcept {
  if (from == Dtype::f16)
    return HWY_DYNAMIC_DISPATCH(quantize_half)(in, runs, scales, zeros, range, out);
  if (from == Dtype::bf16)
    return HWY_DYNAMIC_DISPATCH(quantize_brain_float)(in, runs, scales, zeros, range,
                                                      out);
  HWY_DYNAMIC_DISPATCH(quantize_single)(in, runs, scales, zeros, range, out);
}

void dequantize(Dtype codes, const std::byte* in, Runs runs, const float* scales,
                const std::int16_t* zeros, float* out) noexcept {
  if (codes == Dtype::i8)
    return HWY_DYNAMIC_DISPATCH(dequantize_signed)(in, runs, scales, zeros, out);
  HWY_DYNAMIC_DISPATCH(dequantize_unsigned)(in, runs, scales, zeros, out);
}

void pack_nibbles(const std::byte* codes, std::size_t count, std::byte* out) noexcept {
  HWY_DYNAMIC_DISPATCH(pack_pairs)(codes, count / 2, out);
  if (count % 2 != 0) out[count / 2] = codes[count - 1] & std::byte{15};
}

void unpack_nibbles(Dtype packed, const std::byte* in, std::size_t count,
                    std::byte* codes) noexcept {
  const int sign = packed == Dtype::i4 ? 8 : 0;
  HWY_DYNAMIC_DISPATCH(unpack_pairs)(in, count / 2, sign, codes);
  if (count % 2 == 0) return;
  std::byte last[2];
  HWY_DYNAMIC_DISPATCH(unpack_pairs)(in + count / 2, 1, sign, last);
  codes[count - 1] = last[0];
}

}  // namespace weig::kernels
#endif  // HWY_ONCE
