// SPDX-License-Identifier: Apache-2.0
// Arithmetic and loads for numbers that nobody vouches for. All reading of file bytes
// goes through here: by memcpy, little-endian, never through a cast pointer.
#pragma once

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

namespace weig {

using Bytes = std::span<const std::byte>;
using MutableBytes = std::span<std::byte>;

// Bytes as characters: the one cast that the language allows between them.
inline std::string_view text_of(Bytes bytes) noexcept {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// True iff [offset, offset + length) lies inside [0, size). Never overflows.
constexpr bool fits(std::uint64_t offset, std::uint64_t length,
                    std::uint64_t size) noexcept {
  return offset <= size && length <= size - offset;
}

// True iff [offset, offset + length) lies inside [begin, end). Never overflows.
constexpr bool inside(std::uint64_t offset, std::uint64_t length, std::uint64_t begin,
                      std::uint64_t end) noexcept {
  return offset >= begin && fits(offset, length, end);
}

// Requires a power of two, and a result below 2^64.
constexpr std::uint64_t align_up(std::uint64_t value,
                                 std::uint64_t alignment) noexcept {
  return (value + alignment - 1) & ~(alignment - 1);
}
constexpr std::uint64_t align_down(std::uint64_t value,
                                   std::uint64_t alignment) noexcept {
  return value & ~(alignment - 1);
}
constexpr bool is_aligned(std::uint64_t value, std::uint64_t alignment) noexcept {
  return (value & (alignment - 1)) == 0;
}

template <std::unsigned_integral T>
constexpr T byteswapped(T value) noexcept {
  if constexpr (sizeof(T) == 8) return __builtin_bswap64(value);
  if constexpr (sizeof(T) == 4) return __builtin_bswap32(value);
  if constexpr (sizeof(T) == 2) return __builtin_bswap16(value);
  return value;
}

// A value to or from little-endian: the identity on most hosts.
template <std::unsigned_integral T>
constexpr T little(T value) noexcept {
  return std::endian::native == std::endian::little ? value : byteswapped(value);
}

template <std::unsigned_integral T>
T load(const std::byte* at) noexcept {
  T value;
  std::memcpy(&value, at, sizeof value);
  return little(value);
}
// The order of a file's integers. Sealed files are little-endian on every host.
enum class ByteOrder { little, big };
inline constexpr ByteOrder kNativeOrder =
    std::endian::native == std::endian::little ? ByteOrder::little : ByteOrder::big;

template <std::unsigned_integral T>
T load_in(const std::byte* at, ByteOrder order) noexcept {
  const T value = load<T>(at);
  return order == ByteOrder::little ? value : byteswapped(value);
}

template <std::unsigned_integral T>
void store(std::byte* at, T value) noexcept {
  value = little(value);
  std::memcpy(at, &value, sizeof value);
}

// The bytes of text.
inline Bytes bytes_of(std::string_view text) noexcept {
  return std::as_bytes(std::span(text));
}

}  // namespace weig
