// SPDX-License-Identifier: Apache-2.0
#include "quantity.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <iterator>

namespace weig::cli {
namespace {

// Three significant digits: 1.23, 12.3, 123.
std::string three_digits(double value) {
  return fmt::format("{:.{}f}", value, value < 9.995 ? 2 : value < 99.95 ? 1 : 0);
}

std::string scaled_bytes(double bytes) {
  constexpr std::string_view kUnits[] = {"bytes", "kB", "MB", "GB", "TB", "PB", "EB"};
  std::size_t unit = 0;
  while (bytes >= 999.5 && unit + 1 < std::size(kUnits)) {
    bytes /= 1000;
    ++unit;
  }
  return fmt::format("{} {}", three_digits(bytes), kUnits[unit]);
}

// Bytes in a unit ("MB", "gib"; none is a byte), or nothing for other text.
std::optional<std::uint64_t> unit_bytes(std::string_view text) {
  std::string unit(text);
  std::ranges::transform(unit, unit.begin(),
                         [](unsigned char c) { return std::tolower(c); });
  if (unit.empty() || unit == "b") return 1;
  const std::size_t power = std::string_view("kmgtp").find(unit[0]) + 1;
  const bool binary = unit.substr(1) == "ib";
  if (power == 0 || (!binary && unit.substr(1) != "b")) return std::nullopt;
  std::uint64_t bytes = 1;
  for (std::size_t i = 0; i < power; ++i) bytes *= binary ? 1024 : 1000;
  return bytes;
}

}  // namespace

std::optional<std::uint64_t> parse_bytes(std::string_view text) {
  constexpr std::size_t kMaxDecimals = 3;
  std::uint64_t whole = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), whole);
  if (read.ec != std::errc()) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(read.ptr - text.data()));
  std::string_view decimals;
  if (text.starts_with('.')) {
    text.remove_prefix(1);
    decimals = text.substr(0, text.find_first_not_of("0123456789"));
    text.remove_prefix(decimals.size());
    if (decimals.empty() || decimals.size() > kMaxDecimals) return std::nullopt;
  }
  if (text.starts_with(' ')) text.remove_prefix(1);
  const auto unit = unit_bytes(text);
  if (!unit) return std::nullopt;
  std::uint64_t part = 0;  // below 1000 units, of which the largest is 2^50
  std::uint64_t divisor = 1;
  for (const char digit : decimals) {
    part = 10 * part + static_cast<std::uint64_t>(digit - '0');
    divisor *= 10;
  }
  part = part * *unit / divisor;
  if (whole > (UINT64_MAX - part) / *unit) return std::nullopt;
  return whole * *unit + part;
}

std::string grouped(std::uint64_t number) {
  std::string text = std::to_string(number);
  for (std::size_t at = text.size(); at > 3;) text.insert(at -= 3, 1, ',');
  return text;
}

std::string short_bytes(std::uint64_t bytes) {
  if (bytes == 1) return "1 byte";
  if (bytes < 1000) return fmt::format("{} bytes", bytes);
  return scaled_bytes(static_cast<double>(bytes));
}

std::string full_bytes(std::uint64_t bytes) {
  if (bytes < 1000) return short_bytes(bytes);
  return fmt::format("{} ({} bytes)", short_bytes(bytes), grouped(bytes));
}

std::string short_count(std::uint64_t count) {
  const auto value = static_cast<double>(count);
  if (value < 1e6) return {};
  if (value < 999.5e6) return three_digits(value / 1e6) + " million";
  if (value < 999.5e9) return three_digits(value / 1e9) + " billion";
  return three_digits(value / 1e12) + " trillion";
}

std::string rate(std::uint64_t bytes, double seconds) {
  if (seconds <= 0) return "-";
  return scaled_bytes(static_cast<double>(bytes) / seconds) + "/s";
}

std::string duration(double seconds) {
  if (seconds < 1) return fmt::format("{:.3f} s", seconds);
  if (seconds < 59.95) return fmt::format("{:.1f} s", seconds);
  const auto whole = static_cast<std::uint64_t>(seconds + 0.5);
  return fmt::format("{} min {:02} s", whole / 60, whole % 60);
}

std::string counted(std::uint64_t count, std::string_view noun) {
  const std::string_view ending = count == 1 ? "" : noun.ends_with('s') ? "es" : "s";
  return fmt::format("{} {}{}", grouped(count), noun, ending);
}

}  // namespace weig::cli
