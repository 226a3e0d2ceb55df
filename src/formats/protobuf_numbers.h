// SPDX-License-Identifier: Apache-2.0
// The numbers of one field of a protobuf message as elements of a tensor: however the
// writer split them (one by one, packed, or both), in bounded memory.
#pragma once

#include <cstdint>

#include <weig/error.h>

#include "formats/protobuf.h"

namespace weig {

class ProtobufNumbers {
 public:
  // Of the fields that lie in [begin, end). The input must outlive this.
  ProtobufNumbers(const Input& input, std::uint64_t begin, std::uint64_t end,
                  NumberField field)
      : cursor_(input, begin, end), message_(cursor_, begin, end), field_(field) {}
  ProtobufNumbers(const ProtobufNumbers&) = delete;
  ProtobufNumbers& operator=(const ProtobufNumbers&) = delete;

  // The next bytes of the elements, which follow each other without gaps, little-endian
  // and from the least significant bit up; the last byte is filled with zeros. Fails
  // with corrupt where there are fewer, or a number that does not fit its element.
  Status read(MutableBytes out);

  // How many numbers are left, each of which fits its element.
  Result<std::uint64_t> count();

 private:
  Result<bool> next();  // into value_
  Result<bool> next_field();
  Status fit();

  InputCursor cursor_;
  ProtobufMessage message_;
  NumberField field_;
  std::uint64_t value_ = 0;
  std::uint64_t at_ = 0;    // where that number lies
  std::uint64_t end_ = 0;   // of the packed numbers that are being read, behind at_
  Bytes window_;            // of them, from at_ on
  std::uint64_t held_ = 0;  // bits that did not fill a byte or the memory to be filled
  std::uint32_t held_bits_ = 0;
};

}  // namespace weig
