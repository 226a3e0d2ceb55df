// SPDX-License-Identifier: Apache-2.0
// NumberField: how the numbers of a tensor lie in a protobuf message.
#pragma once

#include <cstdint>

namespace weig {

enum class WireType : std::uint8_t { varint = 0, fixed64 = 1, bytes = 2, fixed32 = 5 };

// Which field, how its numbers are written, and how many bits of each an element is:
// 6, 8, 16, 32 or 64; as many as are written where they are no varints.
struct NumberField {
  std::uint32_t number = 0;
  WireType type = WireType::varint;
  std::uint32_t bits = 0;
};

}  // namespace weig
