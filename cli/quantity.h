// SPDX-License-Identifier: Apache-2.0
// Sizes, rates and times as people read them. Decimal units: 1 GB is 10^9 bytes, as on
// the label of a disk.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace weig::cli {

// 13476925163 -> "13,476,925,163".
std::string grouped(std::uint64_t number);

// 13476925163 -> "13.5 GB"; below 1000 "512 bytes".
std::string short_bytes(std::uint64_t bytes);

// "13.5 GB (13,476,925,163 bytes)"; below 1000 "512 bytes".
std::string full_bytes(std::uint64_t bytes);

// "5GB", "1.5 TB", "500MiB", "4096" -> bytes: a number with a unit, or without one, in
// upper or lower case; a part of a byte is cut off. Nothing where it is no such text,
// or 2^64 bytes and more.
std::optional<std::uint64_t> parse_bytes(std::string_view text);

// 6738415616 -> "6.74 billion"; nothing below a million.
std::string short_count(std::uint64_t count);

// "4.32 GB/s"; "-" where no time has passed.
std::string rate(std::uint64_t bytes, double seconds);

// "0.042 s", "12.3 s", "3 min 04 s".
std::string duration(double seconds);

// "1 tensor", "2 tensors", "3 aliases".
std::string counted(std::uint64_t count, std::string_view noun);

}  // namespace weig::cli
