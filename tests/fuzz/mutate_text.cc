// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <charconv>
#include <cstring>
#include <string>

#include "formats/onnx_mark.h"
#include "formats/safetensors.h"
#include "mutate.h"

namespace weig::fuzz {
namespace {

bool is_mark(char c) {
  return std::string_view("{}[]:,").find(c) != std::string_view::npos;
}
bool is_space(char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; }

// The length of the token at the front of `json`, which is not empty.
std::size_t token_length(std::string_view json) {
  if (is_mark(json[0])) return 1;
  std::size_t at = 1;
  if (json[0] == '"') {
    while (at < json.size() && json[at] != '"') at += json[at] == '\\' ? 2 : 1;
    return std::min(at + 1, json.size());
  }
  const bool space = is_space(json[0]);
  while (at < json.size() && !is_mark(json[at]) && json[at] != '"' &&
         is_space(json[at]) == space)
    ++at;
  return at;
}

constexpr auto kTokenValues = std::to_array<std::string_view>({
    "",
    "{",
    "}",
    "[",
    "]",
    ":",
    ",",
    " ",
    "0",
    "1",
    "2",
    "8",
    "-1",
    "1.5",
    "1e3",
    "00",
    "72057594037927936",
    "18446744073709551615",
    "18446744073709551616",
    "true",
    "false",
    "null",
    "\"\"",
    "\"a\"",
    "\"w\"",
    "\"\\u0061\"",
    "\"\\u0000\"",
    "\"\\ud800\"",
    "\"\\n\\\"\\\\\\b\\f\\t\\r\\u001f\"",
    "\"\xC3\xA9\"",
    "\"\xFF\"",
    "\"__metadata__\"",
    "\"dtype\"",
    "\"shape\"",
    "\"data_offsets\"",
    "\"BOOL\"",
    "\"F4\"",
    "\"F6_E2M3\"",
    "\"U8\"",
    "\"F8_E8M0\"",
    "\"BF16\"",
    "\"F32\"",
    "\"C64\"",
    "\"I64\"",
    "\"F7_X\"",
    "\"type\"",
    "\"value\"",
    "\"of\"",
    "\"hex\"",
    "\"array\"",
    "\"json\"",
    "\"string\"",
    "\"u32\"",
    "\"bool\"",
    "\"weight_map\"",
    "\"t0\"",
    "\"a.safetensors\"",
    "\"../outside.safetensors\"",
    "[]",
    "{}",
    "[0,0]",
    "[0,8]",
    "[8,0]",
    "[0,8,8]",
    "[0]",
    "{\"a\":1,\"a\":2}",
    "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[["
    "]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]",
    ",{\"type\":\"json\",\"value\":[1,{\"k\":null}]}",
    "{\"type\":\"array\",\"of\":\"u8\",\"value\":[1]}",
    "{\"hex\":\"ff\"}",
    "\"x\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]},",
    "\"x\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},",
});

std::string random_number(Random& random) {
  constexpr std::uint64_t kEdges[] = {
      0, 1, 4, 8, 255, 256, std::uint64_t{1} << 32, std::uint64_t{1} << 56, UINT64_MAX};
  const std::uint64_t value =
      random.one_in(2) ? random.below(40) : random.pick(kEdges) + random.below(3) - 1;
  return std::to_string(value);
}

std::string mutate_tokens(std::string_view json, Random& random) {
  std::vector<std::string_view> tokens = tokens_of(json);
  if (tokens.empty()) return std::string(random.pick(token_values()));
  const auto at = [&] {
    return tokens.begin() + static_cast<std::ptrdiff_t>(random.below(tokens.size()));
  };
  std::string number;  // a token that is made here
  switch (random.below(6)) {
    case 0:
      *at() = random.pick(token_values());
      break;
    case 1:
      tokens.insert(at(), random.pick(token_values()));
      break;
    case 2:
      *at() = *at();
      break;
    case 3: {  // a run of tokens once more, such as a whole tensor
      const std::uint64_t first = random.below(tokens.size());
      const std::uint64_t count =
          1 + random.below(std::min<std::uint64_t>(tokens.size() - first, 24));
      const std::vector<std::string_view> run(
          tokens.begin() + static_cast<std::ptrdiff_t>(first),
          tokens.begin() + static_cast<std::ptrdiff_t>(first + count));
      tokens.insert(at(), run.begin(), run.end());
      break;
    }
    case 4:
      std::swap(*at(), *at());
      break;
    default: {
      number = random_number(random);
      auto token = at();
      for (std::size_t tries = 0;
           tries < 32 && !(token->front() >= '0' && token->front() <= '9'); ++tries)
        token = at();
      *token = number;
    }
  }
  std::string out;
  for (const std::string_view token : tokens) out += token;
  return out;
}

std::string mutate_text(std::string_view text, std::size_t max_size, Random& random,
                        RawMutation raw) {
  std::string out(text);
  if (random.one_in(3)) {
    const std::size_t size = out.size();
    out.resize(std::max(max_size, size));
    out.resize(raw(reinterpret_cast<std::uint8_t*>(out.data()), size, out.size()));
    return out;
  }
  for (std::uint64_t n = 1 + random.below(3); n > 0; --n)
    out = mutate_tokens(out, random);
  if (out.size() > max_size) out.resize(max_size);
  return out;
}

std::uint64_t json_bytes(Bytes file) {
  const std::uint64_t length = load<std::uint64_t>(file.data());
  return std::min<std::uint64_t>(length, file.size() - 8);
}

}  // namespace

std::vector<std::string_view> tokens_of(std::string_view json) {
  std::vector<std::string_view> tokens;
  while (!json.empty()) {
    tokens.push_back(json.substr(0, token_length(json)));
    json.remove_prefix(tokens.back().size());
  }
  return tokens;
}

std::span<const std::string_view> token_values() { return kTokenValues; }

void repair_safetensors(Input& file, std::size_t max_size) {
  if (file.size() < 8) return;
  const std::uint64_t header = 8 + json_bytes(file);
  const std::string_view json = text_of(Bytes(file).subspan(8, header - 8));
  std::uint64_t data = 0;
  constexpr std::string_view kKey = "data_offsets\":[";
  for (std::size_t at = json.find(kKey); at != json.npos;
       at = json.find(kKey, at + 1)) {
    const std::size_t comma = json.find(',', at);
    if (comma == json.npos) break;
    std::uint64_t end = 0;
    std::from_chars(json.data() + comma + 1, json.data() + json.size(), end);
    if (end <= max_size) data = std::max(data, end);
  }
  if (header + data > max_size) return;
  const std::size_t old = file.size();
  file.resize(header + data);
  for (std::size_t i = old; i < file.size(); ++i) file[i] = static_cast<std::byte>(i);
}

void mutate_safetensors(Input& input, std::size_t max_size, Random& random,
                        RawMutation raw) {
  if (input.size() < 8 || random.one_in(16)) {
    mutate_raw(input, max_size, random, raw);
    if (random.one_in(2)) repair_safetensors(input, max_size);
    return;
  }
  const std::uint64_t length = json_bytes(input);
  std::string json(text_of(Bytes(input).subspan(8, length)));
  const Input data(input.begin() + static_cast<std::ptrdiff_t>(8 + length),
                   input.end());
  json = mutate_text(json, max_size - 8, random, raw);
  if (random.one_in(8)) json.append(random.below(9), ' ');
  input.resize(8);
  store(input.data(), std::uint64_t{json.size()});
  const Bytes text = bytes_of(json);
  input.insert(input.end(), text.begin(), text.end());
  input.insert(input.end(), data.begin(), data.end());
  if (!random.one_in(8)) repair_safetensors(input, max_size);
  if (input.size() > max_size) input.resize(max_size);
}

void mutate_json(Input& input, std::size_t max_size, Random& random, RawMutation raw) {
  const std::string text = mutate_text(text_of(input), max_size, random, raw);
  const Bytes bytes = bytes_of(text);
  input.assign(bytes.begin(), bytes.end());
}

void mutate_raw(Input& input, std::size_t max_size, Random&, RawMutation raw) {
  const std::size_t size = input.size();
  input.resize(std::max(max_size, size));
  input.resize(raw(reinterpret_cast<std::uint8_t*>(input.data()), size, input.size()));
}

void mutate_any(Input& input, std::size_t max_size, Random& random, RawMutation raw) {
  const bool ours =
      input.size() >= 4 && (load<std::uint32_t>(input.data()) == disk::kMagic ||
                            load<std::uint32_t>(input.data()) == disk::kSwappedMagic);
  if (ours)
    mutate_weig(input, max_size, random, raw);
  else if (looks_like_onnx(input, input.size()))
    mutate_protobuf(input, max_size, random, raw);
  else if (text_of(input).starts_with("GGUF"))
    mutate_gguf(input, max_size, random, raw);
  else
    mutate_safetensors(input, max_size, random, raw);
}

}  // namespace weig::fuzz
