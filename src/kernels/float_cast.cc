// SPDX-License-Identifier: Apache-2.0
#include "kernels/float_cast.h"

#include <cstring>

// This file is compiled once for each instruction set.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/float_cast.cc"
#include <hwy/foreach_target.h>
// After the line above, which includes it too.
#include <hwy/highway.h>

#include "kernels/float_lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace weig::kernels::HWY_NAMESPACE {
namespace {

template <typename Format>
void widen_all(const std::byte* in, std::size_t count, float* out) {
  using Word = typename Format::Word;
  const FloatTag tag;
  const std::size_t lanes = hn::Lanes(tag);
  std::size_t i = 0;
  for (; i + lanes <= count; i += lanes)
    hn::StoreU(decode<Format>(load_codes<Word>(in + i * sizeof(Word))), tag, out + i);
  if (i == count) return;
  // The rest, in lanes of its own.
  std::byte codes[hn::MaxLanes(tag) * sizeof(Word)] = {};
  float values[hn::MaxLanes(tag)];
  std::memcpy(codes, in + i * sizeof(Word), (count - i) * sizeof(Word));
  hn::StoreU(decode<Format>(load_codes<Word>(codes)), tag, values);
  std::memcpy(out + i, values, (count - i) * sizeof(float));
}

template <typename Format>
void narrow_all(const float* in, std::size_t count, std::byte* out) {
  using Word = typename Format::Word;
  const FloatTag tag;
  const std::size_t lanes = hn::Lanes(tag);
  std::size_t i = 0;
  for (; i + lanes <= count; i += lanes)
    store_codes<Word>(encode<Format>(hn::LoadU(tag, in + i)), out + i * sizeof(Word));
  if (i == count) return;
  std::byte codes[hn::MaxLanes(tag) * sizeof(Word)];
  float values[hn::MaxLanes(tag)] = {};
  std::memcpy(values, in + i, (count - i) * sizeof(float));
  store_codes<Word>(encode<Format>(hn::LoadU(tag, values)), codes);
  std::memcpy(out + i * sizeof(Word), codes, (count - i) * sizeof(Word));
}

void widen_half(const std::byte* in, std::size_t count, float* out) {
  widen_all<Half>(in, count, out);
}
void widen_brain_float(const std::byte* in, std::size_t count, float* out) {
  widen_all<BrainFloat>(in, count, out);
}
void widen_float8(const std::byte* in, std::size_t count, float* out) {
  widen_all<Float8>(in, count, out);
}
void narrow_half(const float* in, std::size_t count, std::byte* out) {
  narrow_all<Half>(in, count, out);
}
void narrow_brain_float(const float* in, std::size_t count, std::byte* out) {
  narrow_all<BrainFloat>(in, count, out);
}
void narrow_float8(const float* in, std::size_t count, std::byte* out) {
  narrow_all<Float8>(in, count, out);
}

}  // namespace
}  // namespace weig::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace weig::kernels {
namespace {

HWY_EXPORT(widen_half);
HWY_EXPORT(widen_brain_float);
HWY_EXPORT(widen_float8);
HWY_EXPORT(narrow_half);
HWY_EXPORT(narrow_brain_float);
HWY_EXPORT(narrow_float8);

}  // namespace

void widen(Dtype from, const std::byte* in, std::size_t count, float* out) noexcept {
  if (count == 0) return;
  if (from == Dtype::f16) return HWY_DYNAMIC_DISPATCH(widen_half)(in, count, out);
  if (from == Dtype::bf16)
    return HWY_DYNAMIC_DISPATCH(widen_brain_float)(in, count, out);
  if (from == Dtype::f8_e4m3fn)
    return HWY_DYNAMIC_DISPATCH(widen_float8)(in, count, out);
  std::memcpy(out, in, count * sizeof(float));
}

void narrow(Dtype to, const float* in, std::size_t count, std::byte* out) noexcept {
  if (count == 0) return;
  if (to == Dtype::f16) return HWY_DYNAMIC_DISPATCH(narrow_half)(in, count, out);
  if (to == Dtype::bf16)
    return HWY_DYNAMIC_DISPATCH(narrow_brain_float)(in, count, out);
  if (to == Dtype::f8_e4m3fn)
    return HWY_DYNAMIC_DISPATCH(narrow_float8)(in, count, out);
  std::memcpy(out, in, count * sizeof(float));
}

}  // namespace weig::kernels
#endif  // HWY_ONCE
