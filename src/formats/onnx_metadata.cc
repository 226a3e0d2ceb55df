// SPDX-License-Identifier: Apache-2.0
#include "formats/onnx_metadata.h"

#include "core/text.h"

namespace weig {
namespace {

std::string hex_digits(std::string_view bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string out;
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    out += kDigits[byte >> 4];
    out += kDigits[byte & 15];
  }
  return out;
}

}  // namespace

Status OnnxMetadata::add(std::string_view key, std::string_view value,
                         std::uint64_t at) {
  const std::string full = "onnx." + std::string(key);
  if (!is_utf8(full))
    return Error(Code::corrupt, "a key of the model's metadata is not UTF-8").at(at);
  if (full.size() + value.size() > kMaxBytes - bytes_)
    return Error(Code::limit, "the model's metadata are larger than allowed")
        .at(at)
        .expected("at most " + std::to_string(kMaxBytes) + " bytes");
  bytes_ += full.size() + value.size();
  if (!keys_.insert(full).second)
    return Error(Code::corrupt, "the model's metadata have a key twice")
        .at(at)
        .found(in_quotes(full));
  text_ += text_.empty() ? '{' : ',';
  append_json_string(text_, full);
  text_ += ':';
  if (is_utf8(value)) {
    append_json_string(text_, value);
  } else {
    text_ += R"({"hex":")" + hex_digits(value) + "\"}";
  }
  return {};
}

std::optional<std::string> OnnxMetadata::text() const {
  if (text_.empty()) return std::nullopt;
  return text_ + "}";
}

}  // namespace weig
