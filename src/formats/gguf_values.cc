// SPDX-License-Identifier: Apache-2.0
#include "formats/gguf_values.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <type_traits>

#include "core/text.h"
#include "core/try.h"

namespace weig {
namespace {

constexpr std::uint32_t kMaxDepth = 32;  // of arrays in arrays

// By number.
constexpr std::array<std::string_view, kGgufTypes> kNames{
    "u8",   "i8",     "u16",   "i16", "u32", "i32", "f32",
    "bool", "string", "array", "u64", "i64", "f64"};

template <typename T>
using Bits = std::conditional_t<
    sizeof(T) == 1, std::uint8_t,
    std::conditional_t<
        sizeof(T) == 2, std::uint16_t,
        std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>>>;

template <typename T>
void append_decimal(std::string& out, T value) {
  if constexpr (std::is_floating_point_v<T>) {
    if (!std::isfinite(value)) {
      out += std::isnan(value) ? R"("nan")" : value > 0 ? R"("inf")" : R"("-inf")";
      return;
    }
  }
  std::array<char, 32> digits;
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value);
  out.append(digits.data(), end.ptr);
}

void append_hex(std::string& out, std::string_view text) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  out += R"({"hex":")";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    out += kDigits[byte >> 4];
    out += kDigits[byte & 15];
  }
  out += "\"}";
}

}  // namespace

std::string_view gguf_type_name(GgufType type) noexcept {
  return kNames[static_cast<std::size_t>(type)];
}

Error GgufCursor::cut() const {
  const bool is_limit = offset() + left() < file_size_;
  if (is_limit)
    return Error(Code::limit, "the header is longer than allowed")
        .at(offset())
        .hint("max_header_bytes, --max-header-bytes, raises it");
  return Error(Code::corrupt, "the file ends inside its header")
      .at(offset())
      .hint("the file was cut, or its header is damaged");
}

Error GgufCursor::too_much_text() const {
  return Error(Code::limit, "the values take more text than metadata may")
      .at(offset())
      .expected("at most " + std::to_string(max_text_bytes_) + " bytes");
}

template <typename T>
Result<T> GgufCursor::number() {
  if (left() < sizeof(T)) return cut();
  WEIG_TRY_ASSIGN(bytes, cursor_.take(sizeof(T)));
  return std::bit_cast<T>(load_in<Bits<T>>(bytes.data(), order_));
}

Result<std::string_view> GgufCursor::string() {
  WEIG_TRY_ASSIGN(length, u64());
  if (length > left()) return cut();
  if (length > max_text_bytes_)
    return Error(Code::limit, "a text is longer than all values may be")
        .at(offset())
        .found(std::to_string(length) + " bytes")
        .expected("at most " + std::to_string(max_text_bytes_));
  WEIG_TRY_ASSIGN(bytes, cursor_.take(length));
  return text_of(bytes);
}

Result<GgufType> GgufCursor::type() {
  const std::uint64_t at = offset();
  WEIG_TRY_ASSIGN(number, u32());
  if (number >= kGgufTypes)
    return Error(Code::unsupported, "a type of values that GGUF does not have")
        .at(at)
        .found(number);
  return static_cast<GgufType>(number);
}

Status GgufCursor::append_value(GgufType type, std::string& out) {
  whole_number_.reset();
  if (type == GgufType::string) return append_typed(type, 0, out);
  out += R"({"type":")";
  out += gguf_type_name(type);
  if (type == GgufType::array) {
    WEIG_TRY(append_array(0, out));
  } else {
    out += R"(","value":)";
    WEIG_TRY(append_typed(type, 0, out));
  }
  out += '}';
  return {};
}

template <typename T>
Status GgufCursor::append_number(std::string& out) {
  WEIG_TRY_ASSIGN(value, number<T>());
  if constexpr (std::is_integral_v<T>)
    if (std::in_range<std::uint64_t>(value))
      whole_number_ = static_cast<std::uint64_t>(value);
  append_decimal(out, value);
  return {};
}

Status GgufCursor::append_string(std::string& out) {
  WEIG_TRY_ASSIGN(text, string());
  if (is_utf8(text)) {
    append_json_string(out, text);
  } else {
    append_hex(out, text);
  }
  // It may be six times as long as what it stands for.
  if (out.size() > max_text_bytes_) return too_much_text();
  return {};
}

// After the array's type: that of its elements, and these. Inside another array, only
// these.
Status GgufCursor::append_array(std::uint32_t depth, std::string& out) {
  if (depth > kMaxDepth)
    return Error(Code::limit, "arrays are nested more deeply than allowed")
        .at(offset())
        .expected("at most " + std::to_string(kMaxDepth));
  WEIG_TRY_ASSIGN(of, type());
  WEIG_TRY_ASSIGN(count, u64());
  if (depth == 0) {
    out += R"(","of":")";
    out += gguf_type_name(of);
    out += R"(","value":)";
  }
  out += '[';
  for (std::uint64_t i = 0; i < count; ++i) {
    if (i > 0) out += ',';
    WEIG_TRY(append_typed(of, depth + 1, out));
  }
  out += ']';
  whole_number_.reset();
  return {};
}

Status GgufCursor::append_typed(GgufType type, std::uint32_t depth, std::string& out) {
  if (out.size() > max_text_bytes_) return too_much_text();
  switch (type) {
    case GgufType::u8:
      return append_number<std::uint8_t>(out);
    case GgufType::i8:
      return append_number<std::int8_t>(out);
    case GgufType::u16:
      return append_number<std::uint16_t>(out);
    case GgufType::i16:
      return append_number<std::int16_t>(out);
    case GgufType::u32:
      return append_number<std::uint32_t>(out);
    case GgufType::i32:
      return append_number<std::int32_t>(out);
    case GgufType::f32:
      return append_number<float>(out);
    case GgufType::boolean:
      break;
    case GgufType::string:
      return append_string(out);
    case GgufType::array:
      return append_array(depth, out);
    case GgufType::u64:
      return append_number<std::uint64_t>(out);
    case GgufType::i64:
      return append_number<std::int64_t>(out);
    case GgufType::f64:
      return append_number<double>(out);
  }
  const std::uint64_t at = offset();
  WEIG_TRY_ASSIGN(value, number<std::uint8_t>());
  if (value > 1)
    return Error(Code::corrupt, "a truth value that is neither 0 nor 1")
        .at(at)
        .found(std::uint64_t{value});
  out += value == 1 ? "true" : "false";
  return {};
}

}  // namespace weig
