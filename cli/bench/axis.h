// SPDX-License-Identifier: Apache-2.0
// Axis: a scale from 0 with marks at round numbers; and text that is safe in a page.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace weig::cli::bench {

class Axis {
 public:
  enum class Top {
    number,  // the scale ends with `most`
    mark,    // it goes on to the next mark
  };
  // From 0, with about `marks` marks besides that at 0.
  Axis(double most, unsigned marks, Top top = Top::number);

  // Where a number lies: 0 to 100, the first two decimals.
  double percent(double number) const;
  const std::vector<double>& marks() const { return marks_; }
  double step() const { return step_; }

 private:
  double most_;
  double step_;
  std::vector<double> marks_;
};

// What stands at the marks, with the digits that their distance asks for: "0", "0.5",
// "1.0 s", the unit only once, since marks of time stand close together.
std::vector<std::string> second_marks(const Axis& axis);
std::string bytes_mark(double bytes, double step);

// Text between tags or in a quoted attribute.
std::string html(std::string_view text);
// The same of text of our own that has several lines.
std::string html_lines(std::string_view text);

}  // namespace weig::cli::bench
