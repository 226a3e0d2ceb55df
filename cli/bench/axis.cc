// SPDX-License-Identifier: Apache-2.0
#include "bench/axis.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "terminal.h"

namespace weig::cli::bench {
namespace {

// The least of 1, 2, 2.5, 5 times a power of ten that is no less.
double round_step(double least) {
  const double power = std::pow(10, std::floor(std::log10(least)));
  for (const double factor : {1.0, 2.0, 2.5, 5.0})
    if (factor * power >= least * 0.999) return factor * power;
  return 10 * power;
}

// Decimals that tell multiples of `step` apart.
int decimals(double step) {
  int count = 0;
  for (double left = step; count < 6 && std::abs(left - std::round(left)) > 1e-6;
       left *= 10)
    ++count;
  return count;
}

}  // namespace

Axis::Axis(double most, unsigned marks, Top top)
    : most_(std::max(most, 1e-9)), step_(round_step(most_ / marks)) {
  if (top == Top::mark) most_ = step_ * std::ceil(most_ / step_ - 1e-6);
  for (unsigned i = 0; step_ * i <= most_ * 1.0001; ++i) marks_.push_back(step_ * i);
}

double Axis::percent(double number) const {
  return std::clamp(100 * number / most_, 0.0, 100.0);
}

std::vector<std::string> second_marks(const Axis& axis) {
  const bool in_ms = axis.step() < 0.01;
  const double factor = in_ms ? 1000 : 1;
  const int digits = decimals(factor * axis.step());
  std::vector<std::string> texts{"0"};
  texts.reserve(axis.marks().size());
  for (std::size_t i = 1; i < axis.marks().size(); ++i)
    texts.push_back(fmt::format("{:.{}f}", factor * axis.marks()[i], digits));
  texts.back() += in_ms ? " ms" : " s";
  return texts;
}

std::string bytes_mark(double bytes, double step) {
  if (bytes == 0) return "0";
  double unit = 1;
  const char* name = "bytes";
  for (const char* larger : {"kB", "MB", "GB", "TB"}) {
    if (bytes < 1000 * unit * 0.9999) break;
    unit *= 1000;
    name = larger;
  }
  return fmt::format("{:.{}f} {}", bytes / unit, std::min(decimals(step / unit), 2),
                     name);
}

std::string html(std::string_view text) {
  std::string safe;
  for (const char c : printable(text)) {
    switch (c) {
      case '&':
        safe += "&amp;";
        break;
      case '<':
        safe += "&lt;";
        break;
      case '>':
        safe += "&gt;";
        break;
      case '"':
        safe += "&quot;";
        break;
      case '\'':
        safe += "&#39;";
        break;
      default:
        safe += c;
    }
  }
  return safe;
}

std::string html_lines(std::string_view text) {
  std::string safe;
  for (;;) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    safe += html(text.substr(0, end));
    if (end == text.size()) return safe;
    safe += "&#10;";
    text.remove_prefix(end + 1);
  }
}

}  // namespace weig::cli::bench
