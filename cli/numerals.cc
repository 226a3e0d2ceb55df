// SPDX-License-Identifier: Apache-2.0
#include "numerals.h"

#include <charconv>
#include <cmath>
#include <string_view>

namespace weig::cli {
namespace {

// "d.ddde+xx", as std::to_chars gives it, in Python's layout.
void append_scientific(std::string& out, std::string_view text) {
  if (text.front() == '-') {
    out += '-';
    text.remove_prefix(1);
  }
  const std::size_t mark = text.find('e');
  std::string digits(text.substr(0, mark));
  if (digits.size() > 1) digits.erase(1, 1);  // the point
  int exponent = 0;
  const std::string_view power = text.substr(mark + (text[mark + 1] == '+' ? 2 : 1));
  std::from_chars(power.data(), power.data() + power.size(), exponent);
  const auto count = static_cast<int>(digits.size());
  if (exponent < -4 || exponent >= 16) {
    out += text;
  } else if (exponent < 0) {
    out.append("0.").append(static_cast<std::size_t>(-exponent - 1), '0') += digits;
  } else if (exponent + 1 >= count) {
    out += digits.append(static_cast<std::size_t>(exponent + 1 - count), '0') += ".0";
  } else {
    out += digits.insert(static_cast<std::size_t>(exponent) + 1, 1, '.');
  }
}

template <typename Float>
void append_float(std::string& out, Float value) {
  if (std::isnan(value)) {
    out += "nan";
  } else if (std::isinf(value)) {
    out += value < 0 ? "-inf" : "inf";
  } else {
    char text[48];
    const auto end =
        std::to_chars(text, text + sizeof text, value, std::chars_format::scientific);
    append_scientific(out, {text, static_cast<std::size_t>(end.ptr - text)});
  }
}

// The reals that a format rounds to one code of positive magnitude.
struct Interval {
  double low;
  double high;
  bool closed;  // ties go to even codes

  bool holds(double value) const {
    return closed ? low <= value && value <= high : low < value && value < high;
  }
};

Interval rounding_interval(const SmallFloat& format, std::uint32_t magnitude) {
  const double value = decode(format, magnitude);
  const double below = decode(format, magnitude - 1);
  // The largest number's interval is as wide as if there were a next one.
  const double above = magnitude + 1 < format.magnitude_end()
                           ? decode(format, magnitude + 1)
                           : value + (value - below);
  return {(below + value) / 2, (value + above) / 2, magnitude % 2 == 0};
}

}  // namespace

void append_number(std::string& out, double value) { append_float(out, value); }
void append_number(std::string& out, float value) { append_float(out, value); }

void append_shortest(std::string& out, const SmallFloat& format, std::uint32_t code) {
  const std::uint32_t magnitude = code & (format.sign_bit() - 1);
  const double value = decode(format, code);
  if (magnitude == 0 || !std::isfinite(value)) return append_number(out, value);
  const Interval interval = rounding_interval(format, magnitude);
  constexpr int kEnoughDigits = 9;  // for a float, hence for anything narrower
  char text[48];
  for (int precision = 0; precision < kEnoughDigits; ++precision) {
    const auto end = std::to_chars(text, text + sizeof text, value,
                                   std::chars_format::scientific, precision);
    double read = 0;
    std::from_chars(text, end.ptr, read);
    if (interval.holds(std::fabs(read)) || precision + 1 == kEnoughDigits)
      return append_scientific(out, {text, static_cast<std::size_t>(end.ptr - text)});
  }
}

}  // namespace weig::cli
