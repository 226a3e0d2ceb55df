// SPDX-License-Identifier: Apache-2.0
#include "store/member_name.h"

#include <algorithm>
#include <charconv>

namespace weig {
namespace {

constexpr std::size_t kDigits = 5;
constexpr std::string_view kOf = "-of-";

std::string padded(std::uint64_t number, std::size_t width) {
  const std::string digits = std::to_string(number);
  return std::string(width - std::min(width, digits.size()), '0') + digits;
}

// A number at the end of `text`, taken off it; nothing where there is none.
std::optional<std::uint64_t> take_number(std::string_view& text) {
  const std::size_t last = text.find_last_not_of("0123456789");
  const std::string_view digits = text.substr(last == text.npos ? 0 : last + 1);
  std::uint64_t number = 0;
  const auto read =
      std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (digits.empty() || read.ec != std::errc()) return std::nullopt;
  text.remove_suffix(digits.size());
  return number;
}

}  // namespace

std::string MemberName::text() const {
  const std::size_t width = std::max(kDigits, std::to_string(count).size());
  return stem + "-" + padded(number, width) + std::string(kOf) + padded(count, width) +
         ending;
}

std::optional<MemberName> parse_member_name(std::string_view path) {
  const std::size_t slash = path.rfind('/');
  const std::size_t base = slash == path.npos ? 0 : slash + 1;
  const std::size_t dot = path.rfind('.');
  if (dot == path.npos || dot < base) return std::nullopt;
  std::string_view rest = path.substr(base, dot - base);
  const auto count = take_number(rest);
  if (!count || !rest.ends_with(kOf)) return std::nullopt;
  rest.remove_suffix(kOf.size());
  const auto number = take_number(rest);
  if (!number || !rest.ends_with('-')) return std::nullopt;
  return MemberName{.stem = std::string(path.substr(0, base + rest.size() - 1)),
                    .number = *number,
                    .count = *count,
                    .ending = std::string(path.substr(dot))};
}

}  // namespace weig
