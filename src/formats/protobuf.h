// SPDX-License-Identifier: Apache-2.0
// Protocol buffers, as far as their wire format goes: the fields of a message one after
// the other, read through an InputCursor, so that no message has to be in memory.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>

#include <weig/error.h>

#include "formats/input.h"
#include "formats/number_field.h"

namespace weig {

// "a varint", "8 bytes", ...: for messages.
const char* wire_type_text(WireType type) noexcept;

// A varint at the begin of `bytes`, and how many of them it takes.
struct Varint {
  std::uint64_t value = 0;
  std::uint32_t size = 0;
};
inline constexpr std::uint64_t kMaxVarintBytes = 10;
// Nothing where it does not end within `bytes`, or is no number of 64 bits.
inline std::optional<Varint> load_varint(Bytes bytes) noexcept {
  Varint out;
  for (const std::byte byte :
       bytes.first(std::min<std::size_t>(bytes.size(), kMaxVarintBytes))) {
    const auto seven = static_cast<std::uint64_t>(byte & std::byte{0x7F});
    const std::uint32_t shift = 7 * out.size++;
    if (shift == 63 && seven > 1) return std::nullopt;
    out.value |= seven << shift;
    if ((byte & std::byte{0x80}) == std::byte{0}) return out;
  }
  return std::nullopt;
}

// A field: its number, and its value where that is one number.
struct ProtobufField {
  std::uint32_t number = 0;
  WireType type = WireType::varint;
  std::uint64_t value = 0;  // not of WireType::bytes
  std::uint64_t at = 0;     // where the field begins, with its tag
  // Where its bytes lie: a text, a message, or what holds the number.
  std::uint64_t begin = 0;
  std::uint64_t end = 0;

  std::uint64_t size() const noexcept { return end - begin; }
};

// The fields of the message that lies in [begin, end). Many of them may share a cursor.
class ProtobufMessage {
 public:
  ProtobufMessage(InputCursor& cursor, std::uint64_t begin, std::uint64_t end)
      : cursor_(&cursor), at_(begin), end_(end) {}
  // That a field holds.
  ProtobufMessage(InputCursor& cursor, const ProtobufField& field)
      : ProtobufMessage(cursor, field.begin, field.end) {}

  // The next field; false where there is none. Fails with corrupt, and as the input
  // does.
  Result<bool> next();
  const ProtobufField& field() const noexcept { return field_; }

 private:
  Result<std::uint64_t> varint(const char* what);

  InputCursor* cursor_;
  std::uint64_t at_;
  std::uint64_t end_;
  ProtobufField field_;
};

// That a field is of the wire type that its number has. Fails with corrupt.
Status expect_wire_type(const ProtobufField& field, WireType type, const char* what);

// The text of a field. Fails with limit where it is longer than `most` bytes.
Result<std::string> protobuf_text(InputCursor& cursor, const ProtobufField& field,
                                  std::uint64_t most, const char* what);

}  // namespace weig
