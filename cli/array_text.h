// SPDX-License-Identifier: Apache-2.0
// Arrays as nested text, the way NumPy prints them, streamed element by element.
#pragma once

#include <cstdint>
#include <string>

#include "elements.h"
#include "output.h"
#include "slice.h"

namespace weig::cli {

struct ArrayStyle {
  Spelling spelling = Spelling::shortest;
  Syntax syntax = Syntax::python;
  // Of each axis longer than twice this only so many at both ends; 0: all.
  std::uint64_t edge_items = 0;
  // Rows wider than this are continued on the next line, and elements are aligned; 0:
  // rows are lines, whatever their length.
  std::size_t columns = 0;
};

class ArrayText {
 public:
  ArrayText(Output& output, const Elements& elements, const Selection& selection,
            const ArrayStyle& style);
  void write();  // without a line end behind it

 private:
  void write_axis(std::size_t axis, std::uint64_t first);
  void write_element(std::uint64_t element);
  void separate(std::size_t axis);
  bool is_cut(std::size_t axis) const;
  void measure(std::size_t axis, std::uint64_t first);

  Output& output_;
  const Elements& elements_;
  const Selection& selection_;
  ArrayStyle style_;
  std::string text_;        // of one element
  std::size_t width_ = 0;   // of the widest element, where they are aligned
  std::size_t column_ = 0;  // where the next character goes
};

}  // namespace weig::cli
