// SPDX-License-Identifier: Apache-2.0
// Text that comes from files: strict UTF-8, and forms that are safe to print.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

namespace weig {

// Strict UTF-8 (RFC 3629): no overlong forms, no surrogates, nothing above U+10FFFF.
bool is_utf8_slow(std::string_view text) noexcept;

// The same, inline for what names are nearly always: ASCII, eight bytes at a time, the
// last eight twice if need be.
inline bool is_utf8(std::string_view text) noexcept {
  constexpr std::uint64_t kHighBits = 0x8080808080808080;
  if (text.size() < 8) return is_utf8_slow(text);
  std::uint64_t bits = 0;
  std::uint64_t eight = 0;
  for (std::size_t at = 0; at + 8 <= text.size(); at += 8) {
    std::memcpy(&eight, text.data() + at, sizeof eight);
    bits |= eight;
  }
  std::memcpy(&eight, text.data() + text.size() - 8, sizeof eight);
  return !((bits | eight) & kHighBits) || is_utf8_slow(text);
}

// The text with control characters (C0, DEL, C1), bidirectional controls, line
// separators and bytes that are not UTF-8 written as \n, \t, \xNN or \u{NNNN}; `quote`
// and backslash are escaped too, unless `quote` is 0. At most `max_bytes` are shown.
std::string escaped(std::string_view text, char quote = '\'',
                    std::size_t max_bytes = 256);

// escaped() between quotes.
std::string in_quotes(std::string_view text);

// Numbers and places, for messages: "0x1f", "[64, 128)", "8 bytes at 64"; a shape,
// "[3, 4]".
std::string hex(std::uint64_t value);
std::string shape_text(std::span<const std::uint64_t> shape);
std::string range_text(std::uint64_t begin, std::uint64_t end);
std::string extent_text(std::uint64_t offset, std::uint64_t size);

// Appends `text`, which must be UTF-8, as a JSON string in the one spelling that WEIG
// metadata uses: \" \\ \b \f \n \r \t, \u00xx below 0x20, all else as it is.
void append_json_string(std::string& out, std::string_view text);

// Natural order: runs of digits compare as numbers, equal numbers by fewer leading
// zeros, all else by byte. Negative, zero or positive; zero only for equal strings.
int natural_compare(std::string_view a, std::string_view b) noexcept;

}  // namespace weig
