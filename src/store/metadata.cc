// SPDX-License-Identifier: Apache-2.0
#include <weig/metadata.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <optional>

#include "core/text.h"
#include "core/try.h"
#include "formats/json.h"

namespace weig {
namespace {

namespace ondemand = simdjson::ondemand;

// An even number of hexadecimal digits.
bool is_hex(std::string_view text) {
  return text.size() % 2 == 0 &&
         text.find_first_not_of("0123456789abcdefABCDEF") == text.npos;
}

template <typename Number>
bool is_number(std::string_view json) {
  Number number{};
  const char* begin = json.data();
  const char* end = begin + json.size();
  const auto [read, failed] = std::from_chars(begin, end, number);
  return failed == std::errc() && read == end;
}
template <typename Number>
bool is_float(std::string_view json) {
  return json == R"("nan")" || json == R"("inf")" || json == R"("-inf")" ||
         is_number<Number>(json);
}
bool is_bool(std::string_view json) { return json == "true" || json == "false"; }
bool is_string(std::string_view json) {
  constexpr std::string_view kHex = R"({"hex":")";
  if (json.starts_with('"')) return true;
  return json.starts_with(kHex) && json.ends_with(R"("})") &&
         is_hex(json.substr(kHex.size(), json.size() - kHex.size() - 2));
}

// The types of values, and how their values look as canonical JSON.
struct ValueType {
  std::string_view name;
  bool (*holds)(std::string_view json);
};
constexpr ValueType kValueTypes[] = {
    {"u8", is_number<std::uint8_t>},
    {"i8", is_number<std::int8_t>},
    {"u16", is_number<std::uint16_t>},
    {"i16", is_number<std::int16_t>},
    {"u32", is_number<std::uint32_t>},
    {"i32", is_number<std::int32_t>},
    {"u64", is_number<std::uint64_t>},
    {"i64", is_number<std::int64_t>},
    {"f32", is_float<float>},
    {"f64", is_float<double>},
    {"bool", is_bool},
    {"string", is_string},
    {"json", [](std::string_view) { return true; }},
    {"array", [](std::string_view json) { return json.starts_with('['); }},
};

const ValueType* value_type(std::string_view name) {
  const auto found = std::ranges::find(kValueTypes, name, &ValueType::name);
  return found == std::end(kValueTypes) ? nullptr : found;
}

// The first element of an array, as canonical JSON, that is not of the type.
std::optional<std::string_view> misfit(std::string_view array, const ValueType& type) {
  std::size_t begin = 1;
  std::size_t depth = 0;
  bool in_string = false;
  for (std::size_t i = 0; i < array.size(); ++i) {
    const char c = array[i];
    if (in_string) {
      if (c == '\\') ++i;
      in_string = c != '"';
      continue;
    }
    in_string = c == '"';
    if (c == '[' || c == '{') ++depth;
    const bool ends = (c == ',' && depth == 1) || (c == ']' && depth == 1);
    if (c == ']' || c == '}') --depth;
    if (!ends) continue;
    const std::string_view element = array.substr(begin, i - begin);
    begin = i + 1;
    const bool empty = c == ']' && i == 1;
    if (!empty && !type.holds(element)) return element;
  }
  return {};
}

Error bad(std::string_view key, std::string what) {
  return Error(Code::corrupt, "metadata " + in_quotes(key) + ": " + std::move(what));
}

// {"type":T,"value":V}, {"type":"array","of":T,"value":[..]} or {"hex":".."}.
Status read_typed(ondemand::object object, std::uint32_t depth,
                  Metadata::Entry& entry) {
  KeySet keys;
  for (auto field : object) {
    std::string_view key;
    ondemand::value value;
    if (auto error = field.unescaped_key().get(key))
      return json_error(error, "metadata " + in_quotes(entry.key));
    const std::string name(key);
    if (!keys.add(name)) return bad(entry.key, "a key twice").found(in_quotes(name));
    if (auto error = field.value().get(value))
      return json_error(error, "metadata " + in_quotes(entry.key));
    if (name == "value") {
      WEIG_TRY(append_canonical_json(entry.value, value, depth));
      continue;
    }
    std::string_view text;
    if (auto error = value.get_string().get(text))
      return json_error(error,
                        "metadata " + in_quotes(entry.key) + ", " + in_quotes(name));
    if (name == "type") {
      entry.type = text;
    } else if (name == "of") {
      entry.element_type = text;
    } else if (name == "hex") {
      if (!is_hex(text))
        return bad(entry.key, "no hexadecimal digits").found(in_quotes(text));
      entry.value = text;
      entry.hex = true;
    } else {
      return bad(entry.key, "a key that typed values do not have")
          .found(in_quotes(name));
    }
  }
  if (entry.hex && entry.type.empty() && keys.add("value")) {
    entry.type = "string";
    return {};
  }
  const ValueType* type = value_type(entry.type);
  if (!type || entry.value.empty() || entry.hex)
    return bad(entry.key, "not a typed value").found(in_quotes(entry.type));
  const ValueType* of = value_type(entry.element_type);
  if ((entry.type == "array") != !entry.element_type.empty() ||
      (entry.type == "array" && !of))
    return bad(entry.key, "an array's element type")
        .found(in_quotes(entry.element_type));
  const auto wrong = !type->holds(entry.value)
                         ? std::optional<std::string_view>(entry.value)
                     : of ? misfit(entry.value, *of)
                          : std::nullopt;
  if (wrong)
    return bad(entry.key, "a value of another type")
        .found(in_quotes(*wrong))
        .expected(of ? entry.element_type : entry.type);
  return {};
}

}  // namespace

Result<Metadata> Metadata::parse(std::string_view text, const MetadataLimits& limits) {
  if (text.size() > limits.max_bytes)
    return Error(Code::limit, "the metadata is larger than allowed")
        .found(text.size())
        .expected("at most " + std::to_string(limits.max_bytes));
  const simdjson::padded_string padded(text);
  ondemand::parser parser;
  ondemand::document document;
  if (auto error = parser.iterate(padded).get(document))
    return json_error(error, "the metadata");
  ondemand::object object;
  if (auto error = document.get_object().get(object))
    return json_error(error, "the metadata is no JSON object");
  Metadata metadata;
  KeySet keys;
  for (auto field : object) {
    std::string_view key;
    if (auto error = field.unescaped_key().get(key))
      return json_error(error, "a key of the metadata");
    Entry entry;
    entry.key = key;
    if (!keys.add(entry.key)) return bad(entry.key, "the key is there twice");
    ondemand::value value;
    ondemand::json_type type;
    if (auto error = field.value().get(value))
      return json_error(error, "metadata " + in_quotes(entry.key));
    if (auto error = value.type().get(type))
      return json_error(error, "metadata " + in_quotes(entry.key));
    if (type == ondemand::json_type::string) {
      std::string_view string;
      if (auto error = value.get_string().get(string))
        return json_error(error, "metadata " + in_quotes(entry.key));
      entry.type = "string";
      entry.value = string;
    } else if (type == ondemand::json_type::object) {
      ondemand::object typed;
      if (auto error = value.get_object().get(typed))
        return json_error(error, "metadata " + in_quotes(entry.key));
      const std::uint32_t depth = limits.max_depth - std::min(limits.max_depth, 2u);
      WEIG_TRY(read_typed(typed, depth, entry));
    } else {
      return bad(entry.key, "neither a string nor a typed value");
    }
    metadata.entries_.push_back(std::move(entry));
  }
  if (document.current_location().error() != simdjson::OUT_OF_BOUNDS)
    return Error(Code::corrupt, "the metadata goes on after its object");
  return metadata;
}

const Metadata::Entry* Metadata::find(std::string_view key) const& noexcept {
  const auto found = std::ranges::find(entries_, key, &Entry::key);
  return found == entries_.end() ? nullptr : &*found;
}

void Metadata::set(std::string_view key, std::string_view value) {
  remove(key);
  entries_.push_back({.key = std::string(key),
                      .type = "string",
                      .value = std::string(value),
                      .element_type = {}});
}

bool Metadata::remove(std::string_view key) {
  return std::erase_if(entries_, [&](const Entry& entry) { return entry.key == key; }) >
         0;
}

std::string Metadata::text() const {
  std::string out = "{";
  for (const Entry& entry : entries_) {
    if (out.size() > 1) out += ',';
    append_json_string(out, entry.key);
    out += ':';
    if (entry.hex) {
      out += R"({"hex":")" + entry.value + "\"}";
    } else if (entry.type == "string") {
      append_json_string(out, entry.value);
    } else {
      out += R"({"type":")" + entry.type + '"';
      if (entry.type == "array") out += R"(,"of":")" + entry.element_type + '"';
      out += R"(,"value":)" + entry.value + '}';
    }
  }
  return out + "}";
}

}  // namespace weig
