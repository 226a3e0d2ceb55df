// SPDX-License-Identifier: Apache-2.0
#include "shell_word.h"

#include <algorithm>

#include "characters.h"

namespace weig::cli {
namespace {

bool needs_no_quotes(char c) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./:=+-@%,";
  return kPlain.find(c) != kPlain.npos;
}

bool is_safe(std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    const Character character = character_at(text, at);
    if (!character.valid || is_unsafe(character.code)) return false;
    at += character.length;
  }
  return true;
}

std::string with_escapes(std::string_view text) {
  std::string out = "$'";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '\'' || c == '\\') {
      out += '\\';
      out += c;
    } else if (byte < 0x20 || byte >= 0x7F) {
      out += "\\x";
      append_hex(out, byte, 2);
    } else {
      out += c;
    }
  }
  return out += '\'';
}

}  // namespace

std::string shell_word(std::string_view text) {
  if (!is_safe(text)) return with_escapes(text);
  // "=" at the start is special in zsh; a dash would be an option.
  const bool plain = !text.empty() && text[0] != '=' && text[0] != '-' &&
                     std::ranges::all_of(text, needs_no_quotes);
  if (plain) return std::string(text);
  std::string out = text.starts_with('-') ? "./" : "";
  out += '\'';
  for (const char c : text) {
    if (c == '\'')
      out += "'\\''";
    else
      out += c;
  }
  return out += '\'';
}

}  // namespace weig::cli
