// SPDX-License-Identifier: Apache-2.0
// Json: writes JSON to an Output as it is told, without keeping it. Always valid UTF-8,
// and safe on a terminal: what could move its cursor is escaped.
#pragma once

#include <string>
#include <string_view>
#include <type_traits>

#include "output.h"

namespace weig::cli {

// The text as a JSON string. Bytes that are not UTF-8 (file names may hold them) become
// U+FFFD.
void append_json_string(std::string& out, std::string_view text);

class Json {
 public:
  // Containers less than `open_levels` deep have each member on a line of its own.
  explicit Json(Output& output, unsigned open_levels = 1);

  Json& begin_object() { return begin('{'); }
  Json& end_object() { return end('}'); }
  Json& begin_array() { return begin('['); }
  Json& end_array() { return end(']'); }
  Json& key(std::string_view name);

  Json& value(std::string_view text);
  Json& value(const std::string& text) { return value(std::string_view(text)); }
  Json& value(const char* text) { return value(std::string_view(text)); }
  // A number, null where it is not finite; or a truth value.
  template <typename T>
    requires std::is_arithmetic_v<T>
  Json& value(T number) {
    if constexpr (std::is_same_v<T, bool>)
      return raw(number ? "true" : "false");
    else if constexpr (std::is_floating_point_v<T>)
      return real(number);
    else
      return raw(std::to_string(number));
  }
  Json& null() { return raw("null"); }

  // Text that is JSON already. Characters unsafe on a terminal, which can only be
  // inside its strings, are escaped.
  Json& json(std::string_view text);

  template <typename T>
  Json& member(std::string_view name, const T& content) {
    return key(name).value(content);
  }

 private:
  Json& begin(char bracket);
  Json& end(char bracket);
  Json& raw(std::string_view text);
  Json& real(double number);
  void separate();
  void break_line();

  Output& output_;
  unsigned open_levels_;
  unsigned depth_ = 0;
  enum class Last { nothing, key, value } last_ = Last::nothing;
};

}  // namespace weig::cli
