// SPDX-License-Identifier: Apache-2.0
// Each width in the way that measured fastest where vectors cannot shuffle bytes, which
// SSE2 cannot: compilers make vector code of a loop over 2 bytes, and a swap of 8 bytes
// is one instruction that keeps up with memory (25 GB/s both). One of 4 bytes has a
// quarter of that; so those are swapped in two steps that every vector unit has.
#include "core/byteswap.h"

#include <array>

namespace weig {
namespace {

template <typename T>
void swap_each(MutableBytes bytes) noexcept {
  for (std::size_t at = 0; at + sizeof(T) <= bytes.size(); at += sizeof(T)) {
    T value;
    std::memcpy(&value, bytes.data() + at, sizeof value);
    value = byteswapped(value);
    std::memcpy(bytes.data() + at, &value, sizeof value);
  }
}

// What the smallest vectors hold.
constexpr std::size_t kBlock = 16;

// Changes the places of the halves of each T.
template <typename T>
void swap_halves(std::byte* block) noexcept {
  std::array<T, kBlock / sizeof(T)> words;
  std::memcpy(words.data(), block, kBlock);
  for (T& word : words)
    word = static_cast<T>(word << (4 * sizeof(T)) | word >> (4 * sizeof(T)));
  std::memcpy(block, words.data(), kBlock);
}

void swap_fours(MutableBytes bytes) noexcept {
  for (; bytes.size() >= kBlock; bytes = bytes.subspan(kBlock)) {
    swap_halves<std::uint16_t>(bytes.data());
    swap_halves<std::uint32_t>(bytes.data());
  }
  swap_each<std::uint32_t>(bytes);
}

}  // namespace

void swap_in_place(MutableBytes bytes, std::uint32_t unit) noexcept {
  switch (unit) {
    case 2:
      return swap_each<std::uint16_t>(bytes);
    case 4:
      return swap_fours(bytes);
    case 8:
      return swap_each<std::uint64_t>(bytes);
    default:
      return;
  }
}

}  // namespace weig
