// SPDX-License-Identifier: Apache-2.0
#include "formats/pickle_text.h"

#include <array>
#include <charconv>
#include <cstdint>
#include <optional>
#include <utility>

#include "core/text.h"

namespace weig {
namespace {

// Where `at` is at most the text's size.
std::optional<std::uint32_t> hex_at(std::string_view text, std::size_t at,
                                    std::size_t digits) {
  const std::string_view spelled = text.substr(at, digits);
  if (spelled.size() != digits) return std::nullopt;
  std::uint32_t value = 0;
  const auto parsed =
      std::from_chars(spelled.data(), spelled.data() + spelled.size(), value, 16);
  if (parsed.ptr != spelled.data() + spelled.size()) return std::nullopt;
  return value;
}

// Surrogates and what lies beyond Unicode become bytes that are not UTF-8, as whoever
// wants a name of them notices.
void append_utf8(std::string& out, std::uint32_t code) {
  const auto put = [&](std::uint32_t byte) { out += static_cast<char>(byte); };
  if (code < 0x80) return put(code);
  if (code < 0x800) {
    put(0xC0 | code >> 6);
  } else {
    if (code < 0x10000) {
      put(0xE0 | code >> 12);
    } else {
      put(0xF0 | (code >> 18 & 7));
      put(0x80 | (code >> 12 & 0x3F));
    }
    put(0x80 | (code >> 6 & 0x3F));
  }
  put(0x80 | (code & 0x3F));
}

Error broken(std::string_view line) {
  return Error(Code::corrupt, "the pickle has a text that is spelled wrongly")
      .found(in_quotes(line));
}

constexpr auto kEscapes = std::to_array<std::pair<char, char>>(
    {{'\\', '\\'}, {'\'', '\''}, {'"', '"'}, {'n', '\n'}, {'r', '\r'}, {'t', '\t'}});

}  // namespace

Result<std::string> decode_quoted(std::string_view line) {
  if (line.size() < 2 || line.front() != line.back() ||
      (line.front() != '\'' && line.front() != '"'))
    return broken(line);
  const std::string_view text = line.substr(1, line.size() - 2);
  std::string out;
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text[at] != '\\') {
      out += text[at];
      continue;
    }
    if (++at == text.size()) return broken(line);
    if (text[at] == 'x') {
      const auto byte = hex_at(text, at + 1, 2);
      if (!byte) return broken(line);
      out += static_cast<char>(*byte);
      at += 2;
      continue;
    }
    bool known = false;
    for (const auto& [letter, byte] : kEscapes)
      if (text[at] == letter) {
        out += byte;
        known = true;
      }
    if (!known) return broken(line);
  }
  return out;
}

Result<std::string> decode_raw_unicode(std::string_view line) {
  std::string out;
  for (std::size_t at = 0; at < line.size(); ++at) {
    const char next = at + 1 < line.size() ? line[at + 1] : '\0';
    if (line[at] != '\\' || (next != 'u' && next != 'U')) {
      append_utf8(out, static_cast<unsigned char>(line[at]));
      continue;
    }
    const std::size_t digits = next == 'u' ? 4 : 8;
    const auto code = hex_at(line, at + 2, digits);
    if (!code) return broken(line);
    append_utf8(out, *code);
    at += 1 + digits;
  }
  return out;
}

}  // namespace weig
