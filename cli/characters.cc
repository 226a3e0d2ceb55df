// SPDX-License-Identifier: Apache-2.0
#include "characters.h"

namespace weig::cli {

Character character_at(std::string_view text, std::size_t at) noexcept {
  const auto byte = [&](std::size_t i) -> char32_t {
    return static_cast<unsigned char>(text[i]);
  };
  const char32_t first = byte(at);
  if (first < 0x80) return {first, 1, true};
  const std::size_t length = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  const Character stray{first, 1, false};
  if (first < 0xC2 || first > 0xF4 || length > text.size() - at) return stray;
  char32_t code = first & (0x7Fu >> length);
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(at + i) & 0xC0) != 0x80) return stray;
    code = code << 6 | (byte(at + i) & 0x3F);
  }
  constexpr char32_t kSmallest[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool surrogate = code >= 0xD800 && code <= 0xDFFF;
  if (code < kSmallest[length] || code > 0x10FFFF || surrogate) return stray;
  return {code, length, true};
}

bool is_unsafe(char32_t code) noexcept {
  return code < 0x20 || (code >= 0x7F && code < 0xA0) || code == 0xAD ||
         code == 0x061C || code == 0x180E || (code >= 0x200B && code <= 0x200F) ||
         (code >= 0x2028 && code <= 0x202E) || (code >= 0x2060 && code <= 0x206F) ||
         code == 0xFEFF || (code >= 0xFFF9 && code <= 0xFFFB) ||
         (code >= 0xE0000 && code <= 0xE007F);
}

bool is_plain(std::string_view text) noexcept {
  for (const char c : text)
    if (c < 0x20 || c >= 0x7F || c == '\\' || c == '"' || c == '\'') return false;
  return true;
}

void append_hex(std::string& out, std::uint64_t value, unsigned min_digits) {
  constexpr char kDigits[] = "0123456789abcdef";
  unsigned digits = min_digits;
  while (digits < 16 && value >> (4 * digits)) ++digits;
  while (digits-- > 0) out += kDigits[value >> (4 * digits) & 0xF];
}

}  // namespace weig::cli
