// SPDX-License-Identifier: Apache-2.0
#include "formats/onnx_mark.h"

#include <algorithm>
#include <string_view>

#include "formats/protobuf.h"

namespace weig {
namespace {

constexpr std::uint64_t kMaxIrVersion = 1000;

enum class Kind { number, text, message, graph, none };

// A field of a model, by its tag.
Kind kind_of(std::uint64_t tag) {
  const auto of_type = [&](WireType type, Kind kind) {
    return (tag & 7) == static_cast<std::uint64_t>(type) ? kind : Kind::none;
  };
  switch (tag >> 3) {
    case 2:  // what made it, its domain, what it is for
    case 3:
    case 4:
    case 6:
      return of_type(WireType::bytes, Kind::text);
    case 5:
      return of_type(WireType::varint, Kind::number);
    case 7:
      return of_type(WireType::bytes, Kind::graph);
    case 8:  // operator sets, metadata, training, functions, devices
    case 14:
    case 20:
    case 25:
    case 26:
      return of_type(WireType::bytes, Kind::message);
    default:
      return Kind::none;
  }
}

bool is_text(Bytes bytes) {
  return std::ranges::all_of(text_of(bytes), [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return (byte >= 0x20 && byte != 0x7F) || c == '\n' || c == '\r' || c == '\t';
  });
}

// The first field of a graph: one of those that hold bytes.
bool begins_graph(Bytes bytes) {
  return bytes.empty() ||
         std::string_view("\x0A\x12\x2A\x52\x5A\x62\x6A\x72\x7A\x82")
                 .find(static_cast<char>(bytes[0])) != std::string_view::npos;
}

}  // namespace

bool looks_like_onnx(Bytes first, std::uint64_t file_size) noexcept {
  if (first.empty() || first[0] != std::byte{0x08}) return false;
  const auto version = load_varint(first.subspan(1));
  if (!version || version->value == 0 || version->value > kMaxIrVersion) return false;
  std::uint64_t at = 1 + version->size;
  bool has_text = false;
  // A field whose head is cut by the end of `first` is one like those before it.
  while (at < first.size()) {
    const auto tag = load_varint(first.subspan(at));
    if (!tag) return has_text;
    const Kind kind = kind_of(tag->value);
    if (kind == Kind::none) return false;
    at += tag->size;
    const auto number = load_varint(first.subspan(at));
    if (!number) return has_text;
    at += number->size;
    if (kind == Kind::number) continue;
    const bool is_whole = number->value <= file_size - at;
    const Bytes content = first.subspan(at).first(static_cast<std::size_t>(
        std::min<std::uint64_t>(number->value, first.size() - at)));
    if (kind == Kind::graph) return begins_graph(content) && (is_whole || has_text);
    if (!is_whole) return false;
    if (kind == Kind::text) {
      if (!is_text(content)) return false;
      has_text = has_text || number->value > 0;
    }
    at += number->value;
  }
  return has_text;
}

}  // namespace weig
