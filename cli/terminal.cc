// SPDX-License-Identifier: Apache-2.0
#include "terminal.h"

#include "characters.h"
#include "host.h"

namespace weig::cli {
namespace {

void append_escape(std::string& out, char32_t code) {
  if (code == '\n') {
    out += "\\n";
  } else if (code == '\t') {
    out += "\\t";
  } else if (code < 0x80) {
    out += "\\x";
    append_hex(out, code, 2);
  } else {
    out += "\\u{";
    append_hex(out, code, 4);
    out += '}';
  }
}

void append_escaped(std::string& out, std::string_view text, char quote) {
  for (std::size_t at = 0; at < text.size();) {
    const Character character = character_at(text, at);
    if (!character.valid) {
      out += "\\x";
      append_hex(out, character.code, 2);
    } else if (character.code == '\\' || (quote != 0 && text[at] == quote)) {
      out += '\\';
      out += text[at];
    } else if (is_unsafe(character.code)) {
      append_escape(out, character.code);
    } else {
      out += text.substr(at, character.length);
    }
    at += character.length;
  }
}

}  // namespace

void append_printable(std::string& out, std::string_view text) {
  if (is_plain(text))
    out += text;
  else
    append_escaped(out, text, '\0');
}

std::string printable(std::string_view text) {
  std::string out;
  append_printable(out, text);
  return out;
}

std::string in_quotes(std::string_view text) {
  std::string out = "'";
  append_escaped(out, text, '\'');
  return out += '\'';
}

std::size_t display_width(std::string_view text) {
  if (is_plain(text)) return text.size();
  std::size_t width = 0;
  for (std::size_t at = 0; at < text.size();) {
    const Character character = character_at(text, at);
    width += character_columns(character.code);
    at += character.length;
  }
  return width;
}

std::string shortened(std::string_view text, std::size_t width) {
  constexpr std::string_view kMark = "...";
  std::size_t used = 0;
  std::size_t fits = 0;  // bytes that leave room for the mark
  for (std::size_t at = 0; at < text.size();) {
    const Character character = character_at(text, at);
    used += character_columns(character.code);
    if (used > width) return std::string(text.substr(0, fits)).append(kMark);
    at += character.length;
    if (used + kMark.size() <= width) fits = at;
  }
  return std::string(text);
}

}  // namespace weig::cli
