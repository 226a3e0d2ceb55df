// SPDX-License-Identifier: Apache-2.0
#include "formats/json.h"

#include <algorithm>

#include "core/text.h"
#include "core/try.h"

namespace weig {
namespace {

// Above this, a set is cheaper than a list.
constexpr std::size_t kFew = 16;

std::string_view trimmed(std::string_view token) {
  const std::size_t last = token.find_last_not_of(" \t\r\n");
  return token.substr(0, last == token.npos ? 0 : last + 1);
}

Status append_object(std::string& out, simdjson::ondemand::object object,
                     std::uint32_t depth) {
  KeySet keys;
  out += '{';
  bool first = true;
  for (auto field : object) {
    std::string_view key;
    if (auto error = field.unescaped_key().get(key))
      return json_error(error, "a key in a JSON object");
    if (!keys.add(key))
      return Error(Code::corrupt, "a JSON object has a key twice")
          .found(in_quotes(key));
    if (!first) out += ',';
    first = false;
    append_json_string(out, key);
    out += ':';
    simdjson::ondemand::value value;
    if (auto error = field.value().get(value))
      return json_error(error, "a value in a JSON object");
    WEIG_TRY(append_canonical_json(out, value, depth));
  }
  out += '}';
  return {};
}

Status append_array(std::string& out, simdjson::ondemand::array array,
                    std::uint32_t depth) {
  out += '[';
  bool first = true;
  for (auto element : array) {
    simdjson::ondemand::value value;
    if (auto error = element.get(value))
      return json_error(error, "an element of a JSON array");
    if (!first) out += ',';
    first = false;
    WEIG_TRY(append_canonical_json(out, value, depth));
  }
  out += ']';
  return {};
}

}  // namespace

Error json_error(simdjson::error_code code, std::string what) {
  return Error(Code::corrupt, std::move(what) + ": " + simdjson::error_message(code));
}

bool KeySet::add(std::string_view key) {
  if (!many_.empty()) return many_.emplace(key).second;
  if (std::ranges::find(few_, key) != few_.end()) return false;
  few_.emplace_back(key);
  if (few_.size() > kFew) {
    many_.insert(few_.begin(), few_.end());
    few_.clear();
  }
  return true;
}

Status append_canonical_json(std::string& out, simdjson::ondemand::value value,
                             std::uint32_t depth) {
  const std::string what = "a JSON value";
  if (depth == 0) return Error(Code::limit, "JSON is nested too deep");
  // What is no JSON value has no type, and is not null either.
  auto type = simdjson::ondemand::json_type::null;
  [[maybe_unused]] const auto none = value.type().get(type);
  switch (type) {
    case simdjson::ondemand::json_type::object: {
      simdjson::ondemand::object object;
      if (auto error = value.get_object().get(object)) return json_error(error, what);
      return append_object(out, object, depth - 1);
    }
    case simdjson::ondemand::json_type::array: {
      simdjson::ondemand::array array;
      if (auto error = value.get_array().get(array)) return json_error(error, what);
      return append_array(out, array, depth - 1);
    }
    case simdjson::ondemand::json_type::string: {
      std::string_view text;
      if (auto error = value.get_string().get(text)) return json_error(error, what);
      append_json_string(out, text);
      return {};
    }
    case simdjson::ondemand::json_type::number: {
      const std::string token(trimmed(value.raw_json_token()));
      simdjson::ondemand::number number;
      if (auto error = value.get_number().get(number))
        return json_error(error, "a JSON number");
      out += token;
      return {};
    }
    case simdjson::ondemand::json_type::boolean: {
      bool truth = false;
      if (auto error = value.get_bool().get(truth)) return json_error(error, what);
      out += truth ? "true" : "false";
      return {};
    }
    default: {
      bool null = false;
      [[maybe_unused]] const auto error = value.is_null().get(null);
      if (!null) return Error(Code::corrupt, "a JSON value that is none");
      out += "null";
      return {};
    }
  }
}

}  // namespace weig
