// SPDX-License-Identifier: Apache-2.0
#include "core/byteswap.h"

namespace weig {
namespace {

// Compilers make vector shuffles of this loop.
template <typename T>
void swap_each(MutableBytes bytes) noexcept {
  for (std::size_t at = 0; at + sizeof(T) <= bytes.size(); at += sizeof(T)) {
    T value;
    std::memcpy(&value, bytes.data() + at, sizeof value);
    value = byteswapped(value);
    std::memcpy(bytes.data() + at, &value, sizeof value);
  }
}

}  // namespace

void swap_in_place(MutableBytes bytes, std::uint32_t unit) noexcept {
  switch (unit) {
    case 2:
      return swap_each<std::uint16_t>(bytes);
    case 4:
      return swap_each<std::uint32_t>(bytes);
    case 8:
      return swap_each<std::uint64_t>(bytes);
    default:
      return;
  }
}

}  // namespace weig
