// SPDX-License-Identifier: Apache-2.0
#include "elements.h"

#include <bit>
#include <cmath>
#include <cstring>

#include "numerals.h"

namespace weig::cli {
namespace {

Dtype component_of(Dtype dtype) noexcept {
  switch (dtype) {
    case Dtype::complex64:
      return Dtype::f32;
    case Dtype::complex128:
      return Dtype::f64;
    case Dtype::complex32:
      return Dtype::f16;
    case Dtype::bcomplex32:
      return Dtype::bf16;
    default:
      return dtype;
  }
}

Kind kind_of(Dtype dtype) noexcept {
  using enum Dtype;
  if (component_of(dtype) != dtype) return Kind::complex;
  switch (dtype) {
    case boolean:
      return Kind::boolean;
    case i1:
    case i2:
    case i4:
    case i8:
    case i16:
    case i32:
    case i64:
      return Kind::signed_integer;
    case u1:
    case u2:
    case u4:
    case u8:
    case u16:
    case u32:
    case u64:
      return Kind::unsigned_integer;
    default:
      return Kind::real;
  }
}

template <typename Word>
std::uint64_t load(const std::byte* data, std::uint64_t index) noexcept {
  Word word;
  std::memcpy(&word, data + index * sizeof word, sizeof word);
  return word;
}

void append_boolean(std::string& out, std::uint64_t value, Syntax syntax) {
  if (syntax == Syntax::json)
    out += value ? "true" : "false";
  else
    out += value ? "True" : "False";
}

}  // namespace

std::optional<Elements> Elements::of(Dtype dtype, const std::byte* data) {
  const DtypeInfo* info = dtype_info(dtype);
  if (info == nullptr || info->is_block()) return std::nullopt;
  Elements elements;
  elements.data_ = data;
  elements.component_ = component_of(dtype);
  elements.kind_ = kind_of(dtype);
  elements.components_ = elements.kind_ == Kind::complex ? 2 : 1;
  const DtypeInfo* component = dtype_info(elements.component_);
  elements.component_bits_ = component->block_bytes * 8 / component->block_elements;
  elements.small_ = small_float(elements.component_);
  return elements;
}

std::uint64_t Elements::raw(std::uint64_t component) const noexcept {
  switch (component_bits_) {
    case 8:
      return load<std::uint8_t>(data_, component);
    case 16:
      return load<std::uint16_t>(data_, component);
    case 32:
      return load<std::uint32_t>(data_, component);
    case 64:
      return load<std::uint64_t>(data_, component);
    default:
      break;
  }
  // From the least significant bit up; an element may lie across two bytes.
  const std::uint64_t bit = component * component_bits_;
  const std::uint32_t shift = bit % 8;
  std::uint32_t word = std::to_integer<std::uint32_t>(data_[bit / 8]);
  if (shift + component_bits_ > 8)
    word |= std::to_integer<std::uint32_t>(data_[bit / 8 + 1]) << 8;
  return word >> shift & ((1u << component_bits_) - 1);
}

std::int64_t Elements::integer(std::uint64_t component) const noexcept {
  // The element's sign bit becomes the word's.
  const std::uint32_t spare = 64 - component_bits_;
  return static_cast<std::int64_t>(raw(component) << spare) >> spare;
}

double Elements::real(std::uint64_t component) const noexcept {
  const std::uint64_t code = raw(component);
  if (small_) return decode(*small_, static_cast<std::uint32_t>(code));
  if (component_ == Dtype::f64) return std::bit_cast<double>(code);
  if (component_ == Dtype::f32)
    return std::bit_cast<float>(static_cast<std::uint32_t>(code));
  return decode_e8m0(static_cast<std::uint32_t>(code));
}

void Elements::append(std::string& out, std::uint64_t element, Spelling spelling,
                      Syntax syntax) const {
  switch (kind_) {
    case Kind::boolean:
      return append_boolean(out, raw(element), syntax);
    case Kind::signed_integer:
      return append_number(out, integer(element));
    case Kind::unsigned_integer:
      return append_number(out, raw(element));
    case Kind::complex:
      return append_complex(out, element, spelling, syntax);
    case Kind::real:
      break;
  }
  // JSON has no numbers for these.
  const bool quote = syntax == Syntax::json && !std::isfinite(real(element));
  if (quote) out += '"';
  append_real(out, element, spelling);
  if (quote) out += '"';
}

void Elements::append_real(std::string& out, std::uint64_t component,
                           Spelling spelling) const {
  // Of 16 bits the shortest text is what NumPy and people expect. Narrower formats have
  // so few values that rounding shows: 448, the largest f8_e4m3fn, would become 450.
  if (small_ && component_bits_ == 16 && spelling == Spelling::shortest)
    append_shortest(out, *small_, static_cast<std::uint32_t>(raw(component)));
  else if (component_ == Dtype::f64)
    append_number(out, real(component));
  else
    append_number(out, static_cast<float>(real(component)));
}

void Elements::append_complex(std::string& out, std::uint64_t element,
                              Spelling spelling, Syntax syntax) const {
  if (syntax == Syntax::json) {
    out += '[';
    for (std::uint64_t part = 0; part < 2; ++part) {
      const bool quote = !std::isfinite(real(2 * element + part));
      if (part) out += ", ";
      if (quote) out += '"';
      append_real(out, 2 * element + part, spelling);
      if (quote) out += '"';
    }
    out += ']';
    return;
  }
  append_real(out, 2 * element, spelling);
  const std::size_t sign = out.size();
  append_real(out, 2 * element + 1, spelling);
  if (out[sign] != '-') out.insert(sign, 1, '+');
  out += 'j';
}

}  // namespace weig::cli
