// SPDX-License-Identifier: Apache-2.0
#include "formats/protobuf_numbers.h"

#include <algorithm>
#include <array>

#include "core/try.h"

namespace weig {
namespace {

constexpr std::uint64_t kWindow = std::uint64_t{16} << 10;

}  // namespace

// A number by itself, or the begin of packed ones.
Result<bool> ProtobufNumbers::next_field() {
  for (;;) {
    WEIG_TRY_ASSIGN(more, message_.next());
    if (!more) return false;
    const ProtobufField& field = message_.field();
    if (field.number != field_.number) continue;
    if (field.type == WireType::bytes) {
      at_ = field.begin;
      end_ = field.end;
      window_ = {};
      if (at_ < end_) return true;
      continue;
    }
    WEIG_TRY(expect_wire_type(field, field_.type, "a number of the tensor's data"));
    at_ = end_ = field.end;
    value_ = field.value;
    return true;
  }
}

Status ProtobufNumbers::fit() {
  if (field_.type != WireType::varint || field_.bits == 64) return {};
  // Writers differ in the sign: the bits are what counts, if all others say nothing.
  const std::uint64_t limit = std::uint64_t{1} << field_.bits;
  const std::uint64_t lowest = field_.bits < 8 ? 0 : 0 - limit / 2;
  if (value_ < limit || (lowest != 0 && value_ >= lowest)) {
    value_ &= limit - 1;
    return {};
  }
  return Error(Code::corrupt, "a number of the tensor's data does not fit its type")
      .at(at_)
      .found(std::to_string(static_cast<std::int64_t>(value_)))
      .expected(std::to_string(field_.bits) + " bits");
}

Result<bool> ProtobufNumbers::next() {
  if (at_ == end_) {
    WEIG_TRY_ASSIGN(more, next_field());
    if (!more) return false;
    if (at_ == end_) {
      WEIG_TRY(fit());
      return true;
    }
  }
  if (window_.size() < std::min(kMaxVarintBytes, end_ - at_)) {
    cursor_.seek(at_);
    WEIG_TRY_ASSIGN(bytes, cursor_.peek(std::min(kWindow, end_ - at_)));
    window_ = bytes;
  }
  std::uint32_t size = field_.type == WireType::fixed32 ? 4 : 8;
  if (field_.type == WireType::varint) {
    const auto number = load_varint(window_);
    if (!number)
      return Error(Code::corrupt,
                   "a number of the tensor's data does not end, or is longer than 64 "
                   "bits")
          .at(at_);
    value_ = number->value;
    size = number->size;
    WEIG_TRY(fit());
  } else {
    if (window_.size() < size)
      return Error(Code::corrupt, "the tensor's packed data are no whole numbers")
          .at(at_)
          .found(std::to_string(window_.size()) + " bytes left")
          .expected(std::to_string(size));
    value_ = size == 4 ? load<std::uint32_t>(window_.data())
                       : load<std::uint64_t>(window_.data());
  }
  window_ = window_.subspan(size);
  at_ += size;
  return true;
}

Status ProtobufNumbers::read(MutableBytes out) {
  while (!out.empty()) {
    if (held_bits_ < 8) {
      WEIG_TRY_ASSIGN(more, next());
      if (!more && held_bits_ == 0)
        return Error(Code::corrupt, "the tensor's data end before the tensor does")
            .at(at_);
      held_ |= more ? value_ << held_bits_ : 0;
      held_bits_ = more ? held_bits_ + field_.bits : 8;
      continue;
    }
    const std::size_t count = std::min<std::size_t>(out.size(), held_bits_ / 8);
    std::array<std::byte, 8> bytes{};
    store(bytes.data(), held_);
    std::copy_n(bytes.begin(), count, out.begin());
    held_ = count == 8 ? 0 : held_ >> (8 * count);
    held_bits_ -= static_cast<std::uint32_t>(8 * count);
    out = out.subspan(count);
  }
  return {};
}

Result<std::uint64_t> ProtobufNumbers::count() {
  for (std::uint64_t numbers = 0;; ++numbers) {
    WEIG_TRY_ASSIGN(more, next());
    if (!more) return numbers;
  }
}

}  // namespace weig
