// SPDX-License-Identifier: Apache-2.0
#include "core/text.h"

#include <cstdint>
#include <cstring>

namespace weig {
namespace {

// Decodes the character at text[at]; returns its length in bytes, 0 if it is not
// strict UTF-8.
std::size_t decode(std::string_view text, std::size_t at,
                   std::uint32_t& code) noexcept {
  const auto byte = [&](std::size_t i) -> std::uint32_t {
    return static_cast<unsigned char>(text[i]);
  };
  const std::uint32_t first = byte(at);
  if (first < 0x80) {
    code = first;
    return 1;
  }
  const std::size_t length = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4 || length > text.size() - at) return 0;
  code = first & (0x7F >> length);
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(at + i) & 0xC0) != 0x80) return 0;
    code = code << 6 | (byte(at + i) & 0x3F);
  }
  constexpr std::uint32_t kSmallest[] = {0, 0, 0x80, 0x800, 0x10000};
  if (code < kSmallest[length] || code > 0x10FFFF) return 0;
  if (code >= 0xD800 && code <= 0xDFFF) return 0;
  return length;
}

// Characters that move the cursor, change direction, break the line, or are not seen,
// so that two names look alike.
bool unsafe_on_terminal(std::uint32_t code) noexcept {
  return code < 0x20 || (code >= 0x7F && code < 0xA0) || code == 0xAD ||
         code == 0x061C || (code >= 0x200B && code <= 0x200F) ||
         (code >= 0x2028 && code <= 0x202E) || (code >= 0x2060 && code <= 0x206F) ||
         code == 0xFEFF || (code >= 0xE0000 && code <= 0xE007F);
}

constexpr char kHexDigits[] = "0123456789abcdef";

void append_hex(std::string& out, std::uint32_t value, int min_digits) {
  int digits = min_digits;
  while (digits < 8 && value >> (4 * digits)) ++digits;
  for (int i = digits - 1; i >= 0; --i) out += kHexDigits[value >> (4 * i) & 0xF];
}

bool is_digit(char c) noexcept { return c >= '0' && c <= '9'; }

// The end of the run of digits that starts at `at`.
std::size_t digits_end(std::string_view text, std::size_t at) noexcept {
  while (at < text.size() && is_digit(text[at])) ++at;
  return at;
}

}  // namespace

bool is_utf8_slow(std::string_view text) noexcept {
  for (std::size_t at = 0; at < text.size();) {
    std::uint32_t code = 0;
    const std::size_t length = decode(text, at, code);
    if (length == 0) return false;
    at += length;
  }
  return true;
}

std::string escaped(std::string_view text, char quote, std::size_t max_bytes) {
  std::string out;
  std::size_t at = 0;
  while (at < text.size()) {
    if (at >= max_bytes) return out + "...";
    std::uint32_t code = 0;
    const std::size_t length = decode(text, at, code);
    if (length == 0) {
      out += "\\x";
      append_hex(out, static_cast<unsigned char>(text[at]), 2);
      ++at;
      continue;
    }
    if (quote && (code == static_cast<unsigned char>(quote) || code == '\\')) {
      out += '\\';
      out += static_cast<char>(code);
    } else if (code == '\n') {
      out += "\\n";
    } else if (code == '\t') {
      out += "\\t";
    } else if (unsafe_on_terminal(code)) {
      out += code < 0x80 ? "\\x" : "\\u{";
      append_hex(out, code, code < 0x80 ? 2 : 4);
      if (code >= 0x80) out += '}';
    } else {
      out += text.substr(at, length);
    }
    at += length;
  }
  return out;
}

std::string in_quotes(std::string_view text) { return "'" + escaped(text) + "'"; }

std::string shape_text(std::span<const std::uint64_t> shape) {
  std::string text = "[";
  for (const std::uint64_t size : shape)
    text += (text.size() > 1 ? ", " : "") + std::to_string(size);
  return text + "]";
}

std::string hex(std::uint64_t value) {
  std::string out = "0x";
  int digits = 1;
  while (digits < 16 && value >> (4 * digits)) ++digits;
  for (int i = digits - 1; i >= 0; --i) out += kHexDigits[value >> (4 * i) & 0xF];
  return out;
}

std::string range_text(std::uint64_t begin, std::uint64_t end) {
  return "[" + std::to_string(begin) + ", " + std::to_string(end) + ")";
}

std::string extent_text(std::uint64_t offset, std::uint64_t size) {
  return std::to_string(size) + " bytes at " + std::to_string(offset);
}

void append_json_string(std::string& out, std::string_view text) {
  out += '"';
  for (const char c : text) {
    switch (c) {
      case '"':
        out += "\\\"";
        break;
      case '\\':
        out += "\\\\";
        break;
      case '\b':
        out += "\\b";
        break;
      case '\f':
        out += "\\f";
        break;
      case '\n':
        out += "\\n";
        break;
      case '\r':
        out += "\\r";
        break;
      case '\t':
        out += "\\t";
        break;
      default:
        if (static_cast<unsigned char>(c) < 0x20) {
          out += "\\u";
          append_hex(out, static_cast<unsigned char>(c), 4);
        } else {
          out += c;
        }
    }
  }
  out += '"';
}

int natural_compare(std::string_view a, std::string_view b) noexcept {
  std::size_t i = 0;
  std::size_t j = 0;
  while (i < a.size() && j < b.size()) {
    if (!is_digit(a[i]) || !is_digit(b[j])) {
      if (a[i] != b[j])
        return static_cast<unsigned char>(a[i]) < static_cast<unsigned char>(b[j]) ? -1
                                                                                   : 1;
      ++i;
      ++j;
      continue;
    }
    const std::size_t a_end = digits_end(a, i);
    const std::size_t b_end = digits_end(b, j);
    std::size_t a_first = i;
    std::size_t b_first = j;
    while (a_first < a_end && a[a_first] == '0') ++a_first;
    while (b_first < b_end && b[b_first] == '0') ++b_first;
    if (a_end - a_first != b_end - b_first)
      return a_end - a_first < b_end - b_first ? -1 : 1;
    const int order =
        a.substr(a_first, a_end - a_first).compare(b.substr(b_first, b_end - b_first));
    if (order != 0) return order;
    if (a_first - i != b_first - j) return a_first - i < b_first - j ? -1 : 1;
    i = a_end;
    j = b_end;
  }
  if (i < a.size()) return 1;
  return j < b.size() ? -1 : 0;
}

}  // namespace weig
