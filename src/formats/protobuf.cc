// SPDX-License-Identifier: Apache-2.0
#include "formats/protobuf.h"

#include <algorithm>

#include "core/text.h"
#include "core/try.h"

namespace weig {

const char* wire_type_text(WireType type) noexcept {
  switch (type) {
    case WireType::varint:
      return "a varint";
    case WireType::fixed64:
      return "8 bytes";
    case WireType::bytes:
      return "bytes with their length";
    case WireType::fixed32:
      return "4 bytes";
  }
  return "unknown";
}

Result<std::uint64_t> ProtobufMessage::varint(const char* what) {
  WEIG_TRY_ASSIGN(bytes, cursor_->peek(std::min(kMaxVarintBytes, end_ - at_)));
  const auto number = load_varint(bytes);
  if (!number)
    return Error(Code::corrupt, std::string(what) +
                                    " does not end in its message, or "
                                    "is longer than 64 bits")
        .at(at_);
  at_ += number->size;
  cursor_->seek(at_);
  return number->value;
}

Result<bool> ProtobufMessage::next() {
  if (at_ == end_) return false;
  cursor_->seek(at_);
  field_.at = at_;
  WEIG_TRY_ASSIGN(tag, varint("a field's tag"));
  const std::uint64_t number = tag >> 3;
  if (number == 0 || number >> 29 != 0)
    return Error(Code::corrupt, "a field has a number that no message has")
        .at(field_.at)
        .found(number);
  field_.number = static_cast<std::uint32_t>(number);
  field_.type = static_cast<WireType>(tag & 7);
  field_.value = 0;
  std::uint64_t size = 0;
  switch (field_.type) {
    case WireType::varint: {
      field_.begin = at_;
      WEIG_TRY_ASSIGN(value, varint("a number"));
      field_.value = value;
      field_.end = at_;
      return true;
    }
    case WireType::bytes: {
      WEIG_TRY_ASSIGN(length, varint("a length"));
      size = length;
      break;
    }
    case WireType::fixed32:
      size = 4;
      break;
    case WireType::fixed64:
      size = 8;
      break;
    default:
      return Error(Code::corrupt, "a field is of a type that is not read")
          .at(field_.at)
          .found("wire type " + std::to_string(tag & 7));
  }
  field_.begin = at_;
  if (size > end_ - at_)
    return Error(Code::corrupt, "a field ends behind the message that it is in")
        .at(field_.at)
        .found(std::to_string(size) + " bytes")
        .expected("at most " + std::to_string(end_ - at_))
        .hint("the file was cut, or is damaged");
  if (field_.type != WireType::bytes) {
    WEIG_TRY_ASSIGN(bytes, cursor_->peek(size));
    field_.value = size == 4 ? load<std::uint32_t>(bytes.data())
                             : load<std::uint64_t>(bytes.data());
  }
  at_ += size;
  field_.end = at_;
  return true;
}

Status expect_wire_type(const ProtobufField& field, WireType type, const char* what) {
  if (field.type == type) return {};
  return Error(Code::corrupt, std::string(what) + " is of another type than it must be")
      .at(field.at)
      .found(wire_type_text(field.type))
      .expected(wire_type_text(type));
}

Result<std::string> protobuf_text(InputCursor& cursor, const ProtobufField& field,
                                  std::uint64_t most, const char* what) {
  WEIG_TRY(expect_wire_type(field, WireType::bytes, what));
  if (field.size() > most)
    return Error(Code::limit, std::string(what) + " is longer than allowed")
        .at(field.at)
        .found(std::to_string(field.size()) + " bytes")
        .expected("at most " + std::to_string(most));
  cursor.seek(field.begin);
  WEIG_TRY_ASSIGN(bytes, cursor.take(field.size()));
  return std::string(text_of(bytes));
}

}  // namespace weig
