// SPDX-License-Identifier: Apache-2.0
#include "formats/safetensors_header.h"

#include <algorithm>
#include <array>

#include "core/bytes.h"
#include "core/text.h"

namespace weig {
namespace {

// The types of safetensors 0.8, in the order of its own enumeration, by which its
// writer sorts.
struct TypeName {
  std::string_view name;
  Dtype dtype;
};
constexpr auto kTypes = std::to_array<TypeName>({
    {"BOOL", Dtype::boolean},
    {"F4", Dtype::f4_e2m1},
    {"F6_E2M3", Dtype::f6_e2m3},
    {"F6_E3M2", Dtype::f6_e3m2},
    {"U8", Dtype::u8},
    {"I8", Dtype::i8},
    {"F8_E5M2", Dtype::f8_e5m2},
    {"F8_E4M3", Dtype::f8_e4m3fn},
    {"F8_E8M0", Dtype::f8_e8m0},
    {"F8_E4M3FNUZ", Dtype::f8_e4m3fnuz},
    {"F8_E5M2FNUZ", Dtype::f8_e5m2fnuz},
    {"I16", Dtype::i16},
    {"U16", Dtype::u16},
    {"F16", Dtype::f16},
    {"BF16", Dtype::bf16},
    {"I32", Dtype::i32},
    {"U32", Dtype::u32},
    {"F32", Dtype::f32},
    {"C64", Dtype::complex64},
    {"F64", Dtype::f64},
    {"I64", Dtype::i64},
    {"U64", Dtype::u64},
});

}  // namespace

std::optional<std::string_view> safetensors_dtype_name(Dtype dtype) noexcept {
  const auto* type = std::ranges::find(kTypes, dtype, &TypeName::dtype);
  if (type == kTypes.end()) return std::nullopt;
  return type->name;
}

std::optional<Dtype> safetensors_dtype_named(std::string_view name) noexcept {
  const auto* type = std::ranges::find(kTypes, name, &TypeName::name);
  if (type == kTypes.end()) return std::nullopt;
  return type->dtype;
}

int safetensors_type_order(Dtype dtype) noexcept {
  return static_cast<int>(kTypes.end() -
                          std::ranges::find(kTypes, dtype, &TypeName::dtype));
}

SafetensorsHeader::SafetensorsHeader(std::optional<std::string_view> metadata)
    : text_(kSafetensorsLengthBytes, '\0') {
  text_ += '{';
  if (!metadata) return;
  text_ += "\"__metadata__\":";
  text_ += *metadata;
  first_ = false;
}

void SafetensorsHeader::add(std::string_view name, Dtype dtype,
                            std::span<const std::uint64_t> shape,
                            std::uint64_t byte_count) {
  if (!first_) text_ += ',';
  first_ = false;
  append_json_string(text_, name);
  text_ += ":{\"dtype\":\"";
  text_ += *safetensors_dtype_name(dtype);
  text_ += "\",\"shape\":[";
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (i > 0) text_ += ',';
    text_ += std::to_string(shape[i]);
  }
  text_ += "],\"data_offsets\":[" + std::to_string(data_end_) + ',';
  data_end_ += byte_count;
  text_ += std::to_string(data_end_) + "]}";
}

std::string SafetensorsHeader::finish(std::uint64_t total_bytes) {
  text_ += '}';
  text_.resize(
      std::max(total_bytes, total_bytes ? text_.size() : align_up(text_.size(), 8)),
      ' ');
  store(reinterpret_cast<std::byte*>(text_.data()),
        std::uint64_t{text_.size() - kSafetensorsLengthBytes});
  return std::move(text_);
}

}  // namespace weig
