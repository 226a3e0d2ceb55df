// SPDX-License-Identifier: Apache-2.0
// UTF-8, one character at a time, and which characters must not reach a terminal.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace weig::cli {

struct Character {
  char32_t code = 0;       // the byte's value where it is not UTF-8
  std::size_t length = 1;  // bytes
  bool valid = false;      // strict UTF-8
};

// Requires at < text.size().
Character character_at(std::string_view text, std::size_t at) noexcept;

// Controls, bidirectional controls and separators: characters that move the cursor,
// change direction or break the line. The same set as in the library's messages.
bool is_unsafe(char32_t code) noexcept;

// True where every byte is printable ASCII that needs no escape anywhere.
bool is_plain(std::string_view text) noexcept;

// At least `min_digits` lower-case hexadecimal digits.
void append_hex(std::string& out, std::uint64_t value, unsigned min_digits);

}  // namespace weig::cli
