// SPDX-License-Identifier: Apache-2.0
// GGUF's numbers, strings and typed values, read one after the other; values as the
// text of WEIG metadata.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <weig/error.h>

#include "core/bytes.h"
#include "formats/input.h"

namespace weig {

// The types of values, by GGUF's numbers.
enum class GgufType : std::uint32_t {
  u8,
  i8,
  u16,
  i16,
  u32,
  i32,
  f32,
  boolean,
  string,
  array,
  u64,
  i64,
  f64,
};
inline constexpr std::uint32_t kGgufTypes = 13;

// The name that WEIG metadata has for a type.
std::string_view gguf_type_name(GgufType type) noexcept;

class GgufCursor {
 public:
  // Of what lies between `begin` and `end`. Each string, and all values together, take
  // at most `max_text_bytes`, and a value.
  GgufCursor(const Input& input, std::uint64_t begin, std::uint64_t end,
             std::uint64_t max_text_bytes, ByteOrder order)
      : cursor_(input, begin, end),
        file_size_(input.size),
        max_text_bytes_(max_text_bytes),
        order_(order) {}

  std::uint64_t offset() const noexcept { return cursor_.offset(); }
  std::uint64_t left() const noexcept { return cursor_.left(); }
  ByteOrder order() const noexcept { return order_; }

  // Fail where the file, or what is allowed of it, ends before.
  Result<std::uint32_t> u32() { return number<std::uint32_t>(); }
  Result<std::uint64_t> u64() { return number<std::uint64_t>(); }
  // Valid until the next call.
  Result<std::string_view> string();
  Result<GgufType> type();
  // Appends a value. What a whole number that is none of an array is, is kept in
  // whole_number() until the next value.
  Status append_value(GgufType type, std::string& out);
  std::optional<std::uint64_t> whole_number() const noexcept { return whole_number_; }

 private:
  Error cut() const;
  Error too_much_text() const;
  template <typename T>
  Result<T> number();
  template <typename T>
  Status append_number(std::string& out);
  Status append_typed(GgufType type, std::uint32_t depth, std::string& out);
  Status append_array(std::uint32_t depth, std::string& out);
  Status append_string(std::string& out);

  InputCursor cursor_;
  std::uint64_t file_size_;
  std::uint64_t max_text_bytes_;
  ByteOrder order_;
  std::optional<std::uint64_t> whole_number_;
};

}  // namespace weig
