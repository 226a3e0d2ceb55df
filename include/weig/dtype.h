// SPDX-License-Identifier: Apache-2.0
// Element types: one table, from which names, sizes and alignments derive, and the C++
// types that typed spans are made of.
#pragma once

#include <array>
#include <bit>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include <weig/version.h>

namespace weig {

// The codes stored in files (docs/format.md, "Element types"). Append only; never
// renumber, never reuse. Codes of GGML blocks are 0x1000 + GGML's own number.
enum class Dtype : std::uint32_t {
  f32 = 0,
  f16 = 1,
  bf16 = 2,
  i8 = 3,
  u8 = 4,
  i32 = 5,
  f64 = 6,
  i64 = 7,
  i16 = 8,
  u16 = 9,
  u32 = 10,
  u64 = 11,
  boolean = 12,  // "bool": one byte, 0 is false, all else true
  f8_e4m3fn = 13,
  f8_e5m2 = 14,
  f8_e4m3fnuz = 15,
  f8_e5m2fnuz = 16,
  f8_e8m0 = 17,
  f6_e2m3 = 18,
  f6_e3m2 = 19,
  f4_e2m1 = 20,
  i4 = 21,
  u4 = 22,
  complex64 = 23,
  complex128 = 24,
  complex32 = 25,
  f8_e4m3 = 26,
  f8_e3m4 = 27,
  f8_e4m3b11fnuz = 28,
  i2 = 29,
  u2 = 30,
  i1 = 31,
  u1 = 32,
  bcomplex32 = 33,
  q4_0 = 0x1000 + 2,
  q4_1 = 0x1000 + 3,
  q5_0 = 0x1000 + 6,
  q5_1 = 0x1000 + 7,
  q8_0 = 0x1000 + 8,
  q8_1 = 0x1000 + 9,
  q2_k = 0x1000 + 10,
  q3_k = 0x1000 + 11,
  q4_k = 0x1000 + 12,
  q5_k = 0x1000 + 13,
  q6_k = 0x1000 + 14,
  q8_k = 0x1000 + 15,
  iq2_xxs = 0x1000 + 16,
  iq2_xs = 0x1000 + 17,
  iq3_xxs = 0x1000 + 18,
  iq1_s = 0x1000 + 19,
  iq4_nl = 0x1000 + 20,
  iq3_s = 0x1000 + 21,
  iq2_s = 0x1000 + 22,
  iq4_xs = 0x1000 + 23,
  iq1_m = 0x1000 + 29,
  tq1_0 = 0x1000 + 34,
  tq2_0 = 0x1000 + 35,
  mxfp4 = 0x1000 + 39,
  nvfp4 = 0x1000 + 40,
  q1_0 = 0x1000 + 41,
};

inline constexpr std::uint32_t kGgmlBase = 0x1000;

// One row of the table. `block_elements` elements take `block_bytes` bytes. Plain
// types, sub-byte ones included, round the last block up to whole bytes; GGML blocks
// exist only whole, along the last dimension.
struct DtypeInfo {
  Dtype dtype;
  std::string_view name;
  std::uint32_t block_elements;
  std::uint32_t block_bytes;
  std::uint32_t alignment;  // natural alignment in bytes
  std::uint32_t swap_unit;  // bytes that change places in a change of byte order

  constexpr bool is_block() const noexcept {
    return static_cast<std::uint32_t>(dtype) >= kGgmlBase;
  }
};

namespace detail {

// Elements are plain bits: `alignment` and `swap_unit` are those of one component.
constexpr DtypeInfo plain(Dtype dtype, std::string_view name, std::uint32_t bits,
                          std::uint32_t component_bytes = 0) {
  const std::uint32_t elements = bits == 6 ? 4 : bits < 8 ? 8 / bits : 1;
  const std::uint32_t unit = component_bytes ? component_bytes : (bits + 7) / 8;
  return {dtype, name, elements, elements * bits / 8, unit, unit};
}

constexpr DtypeInfo block(Dtype dtype, std::string_view name, std::uint32_t elements,
                          std::uint32_t bytes, std::uint32_t alignment) {
  return {dtype, name, elements, bytes, alignment, 1};
}

}  // namespace detail

// The table: plain types by code, then GGML blocks by number. Sizes and alignments of
// blocks are those of ggml's block structs.
inline constexpr auto kDtypes = std::to_array<DtypeInfo>({
    detail::plain(Dtype::f32, "f32", 32),
    detail::plain(Dtype::f16, "f16", 16),
    detail::plain(Dtype::bf16, "bf16", 16),
    detail::plain(Dtype::i8, "i8", 8),
    detail::plain(Dtype::u8, "u8", 8),
    detail::plain(Dtype::i32, "i32", 32),
    detail::plain(Dtype::f64, "f64", 64),
    detail::plain(Dtype::i64, "i64", 64),
    detail::plain(Dtype::i16, "i16", 16),
    detail::plain(Dtype::u16, "u16", 16),
    detail::plain(Dtype::u32, "u32", 32),
    detail::plain(Dtype::u64, "u64", 64),
    detail::plain(Dtype::boolean, "bool", 8),
    detail::plain(Dtype::f8_e4m3fn, "f8_e4m3fn", 8),
    detail::plain(Dtype::f8_e5m2, "f8_e5m2", 8),
    detail::plain(Dtype::f8_e4m3fnuz, "f8_e4m3fnuz", 8),
    detail::plain(Dtype::f8_e5m2fnuz, "f8_e5m2fnuz", 8),
    detail::plain(Dtype::f8_e8m0, "f8_e8m0", 8),
    detail::plain(Dtype::f6_e2m3, "f6_e2m3", 6),
    detail::plain(Dtype::f6_e3m2, "f6_e3m2", 6),
    detail::plain(Dtype::f4_e2m1, "f4_e2m1", 4),
    detail::plain(Dtype::i4, "i4", 4),
    detail::plain(Dtype::u4, "u4", 4),
    detail::plain(Dtype::complex64, "complex64", 64, 4),
    detail::plain(Dtype::complex128, "complex128", 128, 8),
    detail::plain(Dtype::complex32, "complex32", 32, 2),
    detail::plain(Dtype::f8_e4m3, "f8_e4m3", 8),
    detail::plain(Dtype::f8_e3m4, "f8_e3m4", 8),
    detail::plain(Dtype::f8_e4m3b11fnuz, "f8_e4m3b11fnuz", 8),
    detail::plain(Dtype::i2, "i2", 2),
    detail::plain(Dtype::u2, "u2", 2),
    detail::plain(Dtype::i1, "i1", 1),
    detail::plain(Dtype::u1, "u1", 1),
    detail::plain(Dtype::bcomplex32, "bcomplex32", 32, 2),
    detail::block(Dtype::q4_0, "q4_0", 32, 18, 2),
    detail::block(Dtype::q4_1, "q4_1", 32, 20, 2),
    detail::block(Dtype::q5_0, "q5_0", 32, 22, 2),
    detail::block(Dtype::q5_1, "q5_1", 32, 24, 2),
    detail::block(Dtype::q8_0, "q8_0", 32, 34, 2),
    detail::block(Dtype::q8_1, "q8_1", 32, 36, 2),
    detail::block(Dtype::q2_k, "q2_k", 256, 84, 2),
    detail::block(Dtype::q3_k, "q3_k", 256, 110, 2),
    detail::block(Dtype::q4_k, "q4_k", 256, 144, 2),
    detail::block(Dtype::q5_k, "q5_k", 256, 176, 2),
    detail::block(Dtype::q6_k, "q6_k", 256, 210, 2),
    detail::block(Dtype::q8_k, "q8_k", 256, 292, 4),
    detail::block(Dtype::iq2_xxs, "iq2_xxs", 256, 66, 2),
    detail::block(Dtype::iq2_xs, "iq2_xs", 256, 74, 2),
    detail::block(Dtype::iq3_xxs, "iq3_xxs", 256, 98, 2),
    detail::block(Dtype::iq1_s, "iq1_s", 256, 50, 2),
    detail::block(Dtype::iq4_nl, "iq4_nl", 32, 18, 2),
    detail::block(Dtype::iq3_s, "iq3_s", 256, 110, 2),
    detail::block(Dtype::iq2_s, "iq2_s", 256, 82, 2),
    detail::block(Dtype::iq4_xs, "iq4_xs", 256, 136, 2),
    detail::block(Dtype::iq1_m, "iq1_m", 256, 56, 1),
    detail::block(Dtype::tq1_0, "tq1_0", 256, 54, 2),
    detail::block(Dtype::tq2_0, "tq2_0", 256, 66, 2),
    detail::block(Dtype::mxfp4, "mxfp4", 32, 17, 1),
    detail::block(Dtype::nvfp4, "nvfp4", 64, 36, 1),
    detail::block(Dtype::q1_0, "q1_0", 128, 18, 2),
});

namespace detail {

inline constexpr std::size_t kPlainCount = 34;
inline constexpr std::size_t kGgmlLimit = 42;  // GGML numbers below this may be known

// kDtypes' row for each GGML number, 0 (f32: no block) where the number is unknown.
inline constexpr auto kGgmlRow = [] {
  std::array<std::uint8_t, kGgmlLimit> row{};
  for (std::size_t i = kPlainCount; i < kDtypes.size(); ++i)
    row[static_cast<std::uint32_t>(kDtypes[i].dtype) - kGgmlBase] =
        static_cast<std::uint8_t>(i);
  return row;
}();

consteval bool dtype_table_is_sound() {
  for (std::size_t i = 0; i < kDtypes.size(); ++i) {
    const DtypeInfo& row = kDtypes[i];
    if (row.name.empty() || row.block_elements == 0 || row.block_bytes == 0)
      return false;
    if (!std::has_single_bit(row.alignment)) return false;
    if (i < kPlainCount && static_cast<std::size_t>(row.dtype) != i) return false;
    if (i > kPlainCount && kDtypes[i - 1].dtype >= row.dtype) return false;
  }
  return true;
}
static_assert(dtype_table_is_sound(), "kDtypes is ordered by code, without holes");

}  // namespace detail

// The table's row for a code as found in a file, or null where the code is unknown.
constexpr const DtypeInfo* dtype_info(Dtype dtype) noexcept {
  const auto code = static_cast<std::uint32_t>(dtype);
  if (code < detail::kPlainCount) return &kDtypes[code];
  if (code < kGgmlBase || code - kGgmlBase >= detail::kGgmlLimit) return nullptr;
  const std::uint8_t row = detail::kGgmlRow[code - kGgmlBase];
  return row ? &kDtypes[row] : nullptr;
}

// The name ("bf16"), or "unknown" where the code is. Static storage.
constexpr std::string_view dtype_name(Dtype dtype) noexcept {
  const DtypeInfo* info = dtype_info(dtype);
  return info ? info->name : "unknown";
}

// The type of that name, or nothing.
constexpr std::optional<Dtype> dtype_from_name(std::string_view name) noexcept {
  for (const DtypeInfo& row : kDtypes)
    if (row.name == name) return row.dtype;
  return std::nullopt;
}

// C++ element types for formats that the language lacks: the bits, nothing else.
struct Float16 {
  std::uint16_t bits;
};
struct BFloat16 {
  std::uint16_t bits;
};

namespace detail {

// The element type that a Tensor::as<T>() demands. Byte-wide formats without a C++
// type of their own (bool, the fp8 family) are read as uint8_t.
template <typename T>
constexpr bool is_element_of(Dtype dtype) noexcept {
  using enum Dtype;
  if constexpr (std::is_same_v<T, float>) return dtype == f32;
  if constexpr (std::is_same_v<T, double>) return dtype == f64;
  if constexpr (std::is_same_v<T, Float16>) return dtype == f16;
  if constexpr (std::is_same_v<T, BFloat16>) return dtype == bf16;
  if constexpr (std::is_same_v<T, std::int8_t>) return dtype == i8;
  if constexpr (std::is_same_v<T, std::int16_t>) return dtype == i16;
  if constexpr (std::is_same_v<T, std::int32_t>) return dtype == i32;
  if constexpr (std::is_same_v<T, std::int64_t>) return dtype == i64;
  if constexpr (std::is_same_v<T, std::uint16_t>) return dtype == u16;
  if constexpr (std::is_same_v<T, std::uint32_t>) return dtype == u32;
  if constexpr (std::is_same_v<T, std::uint64_t>) return dtype == u64;
  if constexpr (std::is_same_v<T, std::complex<float>>) return dtype == complex64;
  if constexpr (std::is_same_v<T, std::complex<double>>) return dtype == complex128;
  if constexpr (std::is_same_v<T, std::uint8_t>)
    return dtype == u8 || dtype == boolean ||
           (dtype >= f8_e4m3fn && dtype <= f8_e8m0) ||
           (dtype >= f8_e4m3 && dtype <= f8_e4m3b11fnuz);
  return false;
}

template <typename T>
concept Element =
    std::is_same_v<T, float> || std::is_same_v<T, double> ||
    std::is_same_v<T, Float16> || std::is_same_v<T, BFloat16> ||
    std::is_same_v<T, std::int8_t> || std::is_same_v<T, std::int16_t> ||
    std::is_same_v<T, std::int32_t> || std::is_same_v<T, std::int64_t> ||
    std::is_same_v<T, std::uint8_t> || std::is_same_v<T, std::uint16_t> ||
    std::is_same_v<T, std::uint32_t> || std::is_same_v<T, std::uint64_t> ||
    std::is_same_v<T, std::complex<float>> || std::is_same_v<T, std::complex<double>>;

}  // namespace detail
}  // namespace weig
