// SPDX-License-Identifier: Apache-2.0
// The integers that stand for elements, as they lie in a file.
#pragma once

#include <cstdint>

#include <weig/dtype.h>

namespace weig {

// Two of them share a byte.
constexpr bool is_nibble(Dtype dtype) noexcept {
  return dtype == Dtype::i4 || dtype == Dtype::u4;
}

// Bytes of so many of them.
constexpr std::uint64_t code_bytes(Dtype dtype, std::uint64_t count) noexcept {
  return is_nibble(dtype) ? count / 2 + count % 2 : count;
}

}  // namespace weig
