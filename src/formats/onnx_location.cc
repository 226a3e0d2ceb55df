// SPDX-License-Identifier: Apache-2.0
#include "formats/onnx_location.h"

#include <charconv>

#include "core/text.h"
#include "core/try.h"

namespace weig {
namespace {

// Begins what is no path but an address in the process that made the model.
constexpr std::string_view kInMemory = "*/_ORT_MEM_ADDR_/*";

Error no_location(std::string_view given, const char* what) {
  return Error(Code::corrupt, std::string("its data are said to lie in a file ") + what)
      .found(in_quotes(given));
}

}  // namespace

Result<std::pair<std::string, std::string>> read_onnx_pair(InputCursor& cursor,
                                                           const ProtobufField& message,
                                                           std::uint64_t most,
                                                           const char* what) {
  std::pair<std::string, std::string> entry;
  ProtobufMessage fields(cursor, message);
  bool has_key = false;
  bool has_value = false;
  for (;;) {
    WEIG_TRY_ASSIGN(more, fields.next());
    if (!more) return entry;
    const ProtobufField& field = fields.field();
    if (field.number != 1 && field.number != 2) continue;
    bool& is_there = field.number == 1 ? has_key : has_value;
    if (is_there)
      return Error(Code::corrupt, std::string(what) + " has a key or a value twice")
          .at(field.at);
    is_there = true;
    WEIG_TRY_ASSIGN(text, protobuf_text(cursor, field, most, what));
    (field.number == 1 ? entry.first : entry.second) = std::move(text);
  }
}

Result<std::string> onnx_location(std::string_view location) {
  const std::string_view given = location;
  if (location.empty()) return no_location(given, "without a name");
  if (location.find('\0') != location.npos)
    return no_location(given, "with a NUL character");
  if (location.starts_with(kInMemory))
    return no_location(given, "that was the memory of another process");
  if (location.starts_with('/')) return no_location(given, "by an absolute path");
  std::string path;
  while (!location.empty()) {
    const std::size_t slash = location.find('/');
    const std::string_view part = location.substr(0, slash);
    location.remove_prefix(slash == location.npos ? location.size() : slash + 1);
    if (part == "..") return no_location(given, "outside the model's folder");
    if (part.empty() || part == ".") continue;
    if (!path.empty()) path += '/';
    path += part;
  }
  if (path.empty()) return no_location(given, "that is the model's folder");
  return path;
}

Result<std::uint64_t> onnx_place_number(std::string_view key, std::string_view value,
                                        std::uint64_t at) {
  std::uint64_t number = 0;
  const auto [end, error] =
      std::from_chars(value.data(), value.data() + value.size(), number);
  // from_chars takes neither a plus nor white space; a minus not for what is unsigned.
  if (error == std::errc() && end == value.data() + value.size()) return number;
  return Error(Code::corrupt,
               "a tensor's external_data gives no whole number as its " + escaped(key))
      .at(at)
      .found(in_quotes(value));
}

}  // namespace weig
