// SPDX-License-Identifier: Apache-2.0
#include "json.h"

#include <cmath>

#include "characters.h"
#include "numerals.h"

namespace weig::cli {
namespace {

// \uNNNN, as a pair of surrogates above U+FFFF.
void append_json_escape(std::string& out, char32_t code) {
  if (code > 0xFFFF) {
    append_json_escape(out, 0xD800 + ((code - 0x10000) >> 10));
    append_json_escape(out, 0xDC00 + ((code - 0x10000) & 0x3FF));
    return;
  }
  out += "\\u";
  append_hex(out, code, 4);
}

void append_json_character(std::string& out, std::string_view bytes, char32_t code) {
  switch (code) {
    case '"':
      out += "\\\"";
      break;
    case '\\':
      out += "\\\\";
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
      if (is_unsafe(code))
        append_json_escape(out, code);
      else
        out += bytes;
  }
}

}  // namespace

void append_json_string(std::string& out, std::string_view text) {
  out += '"';
  if (is_plain(text)) {
    out += text;
  } else {
    for (std::size_t at = 0; at < text.size();) {
      const Character character = character_at(text, at);
      if (character.valid)
        append_json_character(out, text.substr(at, character.length), character.code);
      else
        out += "\xEF\xBF\xBD";
      at += character.length;
    }
  }
  out += '"';
}

Json::Json(Output& output, unsigned open_levels)
    : output_(output), open_levels_(open_levels) {}

Json& Json::key(std::string_view name) {
  separate();
  std::string text;
  append_json_string(text, name);
  output_.write(text += open_levels_ > 0 ? ": " : ":");
  last_ = Last::key;
  return *this;
}

Json& Json::value(std::string_view text) {
  std::string quoted;
  append_json_string(quoted, text);
  return raw(quoted);
}

Json& Json::real(double number) {
  if (!std::isfinite(number)) return null();
  std::string text;
  append_number(text, number);
  return raw(text);
}

Json& Json::json(std::string_view text) {
  separate();
  std::size_t done = 0;
  for (std::size_t at = 0; at < text.size();) {
    const Character character = character_at(text, at);
    if (character.code >= 0x7F && is_unsafe(character.code)) {
      output_.write(text.substr(done, at - done));
      std::string escape;
      append_json_escape(escape, character.code);
      output_.write(escape);
      done = at + character.length;
    }
    at += character.length;
  }
  output_.write(text.substr(done));
  last_ = Last::value;
  return *this;
}

Json& Json::begin(char bracket) {
  separate();
  output_.write(std::string_view(&bracket, 1));
  ++depth_;
  last_ = Last::nothing;
  return *this;
}

Json& Json::end(char bracket) {
  --depth_;
  if (last_ != Last::nothing && depth_ < open_levels_) break_line();
  output_.write(std::string_view(&bracket, 1));
  last_ = Last::value;
  if (depth_ == 0) output_.write("\n");
  return *this;
}

Json& Json::raw(std::string_view text) {
  separate();
  output_.write(text);
  last_ = Last::value;
  return *this;
}

void Json::separate() {
  if (last_ != Last::key && depth_ > 0) {
    if (last_ == Last::value) output_.write(depth_ <= open_levels_ ? "," : ", ");
    if (depth_ <= open_levels_) break_line();
  }
}

void Json::break_line() {
  output_.write("\n");
  for (unsigned level = 0; level < depth_; ++level) output_.write("  ");
}

}  // namespace weig::cli
