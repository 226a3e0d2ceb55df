// SPDX-License-Identifier: Apache-2.0
#include "terminal.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <system_error>

#include "characters.h"

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

// A number in hexadecimal at the start of `text`, up to `end`.
std::optional<char32_t> hex_until(std::string_view text, std::size_t end) {
  std::uint32_t code = 0;
  const char* first = text.data();
  const char* last = first + end;
  const auto read = std::from_chars(first, last, code, 16);
  if (read.ec != std::errc() || read.ptr != last || code > 0x10FFFF)
    return std::nullopt;
  return code;
}

// Reads the escape at the start of `text`, and steps over it. \xNN above 7F is a byte
// of no character, which no name has.
std::optional<char32_t> take_escape(std::string_view& text) {
  if (text.size() < 2) return std::nullopt;
  std::size_t length = 2;
  std::optional<char32_t> code;
  switch (text[1]) {
    case '\\':
    case '\'':
      code = static_cast<unsigned char>(text[1]);
      break;
    case 'n':
      code = '\n';
      break;
    case 't':
      code = '\t';
      break;
    case 'x':
      length = 4;
      if (text.size() >= length) code = hex_until(text.substr(2), 2);
      if (code && *code > 0x7F) return std::nullopt;
      break;
    case 'u': {
      const std::size_t end = text.find('}');
      if (text.size() < 4 || text[2] != '{' || end == text.npos) return std::nullopt;
      length = end + 1;
      code = hex_until(text.substr(3), end - 3);
      break;
    }
    default:
      break;
  }
  text.remove_prefix(std::min(length, text.size()));
  return code;
}

// Where the word at the start of `text` ends. What a single quote begins goes on to the
// next one, if there is one within `room` columns.
std::size_t word_end(std::string_view text, std::size_t room) {
  std::size_t end = 0;
  const std::size_t open = text.find_first_not_of('(');
  if (open < text.size() && text[open] == '\'') {
    const std::size_t close = text.find('\'', open + 1);
    if (close != text.npos && display_width(text.substr(0, close + 1)) <= room)
      end = close + 1;
  }
  return std::min(text.find(' ', end), text.size());
}

void append_utf8(std::string& out, char32_t code) {
  const auto tail = [&](unsigned shift) {
    out += static_cast<char>(0x80 | (code >> shift & 0x3F));
  };
  if (code < 0x80) {
    out += static_cast<char>(code);
  } else if (code < 0x800) {
    out += static_cast<char>(0xC0 | code >> 6);
    tail(0);
  } else if (code < 0x10000) {
    out += static_cast<char>(0xE0 | code >> 12);
    tail(6);
    tail(0);
  } else {
    out += static_cast<char>(0xF0 | code >> 18);
    tail(12);
    tail(6);
    tail(0);
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

std::optional<std::string> from_printable(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    if (text[0] != '\\') {
      out += text[0];
      text.remove_prefix(1);
      continue;
    }
    const auto code = take_escape(text);
    if (!code) return std::nullopt;
    append_utf8(out, *code);
  }
  return out;
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

std::string wrapped(std::string_view text, std::size_t width, std::size_t indent) {
  // Of lines that have no room for words, the terminal makes what it can.
  constexpr std::size_t kLeastRoom = 20;
  const std::size_t room = std::max(width, indent + kLeastRoom) - indent;
  std::string out;
  std::size_t used = 0;
  while (!text.empty()) {
    const std::size_t begin = std::min(text.find_first_not_of(' '), text.size());
    const std::string_view gap = text.substr(0, begin);
    text.remove_prefix(begin);
    const std::string_view word = text.substr(0, word_end(text, room));
    text.remove_prefix(word.size());
    const std::size_t columns = display_width(word);
    if (used > indent && used + gap.size() + columns > indent + room) {
      out.append(1, '\n').append(indent, ' ');
      used = indent;
    } else {
      out += gap;
      used += gap.size();
    }
    out += word;
    used += columns;
  }
  return out;
}

std::string fitting(Stream stream, std::string_view text, std::size_t indent) {
  if (!is_terminal(stream)) return std::string(text);
  // One column stays free: some terminals begin a line after a full one.
  return wrapped(text, std::max<std::size_t>(columns(stream), 1) - 1, indent);
}

}  // namespace weig::cli
