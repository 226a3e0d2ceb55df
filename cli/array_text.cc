// SPDX-License-Identifier: Apache-2.0
#include "array_text.h"

#include <algorithm>

namespace weig::cli {
namespace {

// Alignment takes a pass over all elements before the first is printed. Beyond so many
// nobody looks at columns any more.
constexpr std::uint64_t kMaxAligned = 100'000;

}  // namespace

ArrayText::ArrayText(Output& output, const Elements& elements,
                     const Selection& selection, const ArrayStyle& style)
    : output_(output), elements_(elements), selection_(selection), style_(style) {}

void ArrayText::write() {
  if (selection_.element_count == 0) return output_.write("[]");
  const bool few = style_.edge_items > 0 || selection_.element_count <= kMaxAligned;
  if (style_.columns > 0 && few) measure(0, selection_.first);
  write_axis(0, selection_.first);
}

// Whether the middle of an axis is left out.
bool ArrayText::is_cut(std::size_t axis) const {
  return style_.edge_items > 0 && selection_.shape[axis] > 2 * style_.edge_items;
}

void ArrayText::measure(std::size_t axis, std::uint64_t first) {
  if (axis == selection_.shape.size()) {
    text_.clear();
    elements_.append(text_, first, style_.spelling, style_.syntax);
    width_ = std::max(width_, text_.size());
    return;
  }
  const std::uint64_t count = selection_.shape[axis];
  const auto stride = static_cast<std::uint64_t>(selection_.strides[axis]);
  for (std::uint64_t i = 0; i < count; ++i) {
    if (is_cut(axis) && i == style_.edge_items) i = count - style_.edge_items;
    measure(axis + 1, first + i * stride);
  }
}

void ArrayText::write_axis(std::size_t axis, std::uint64_t first) {
  if (axis == selection_.shape.size()) return write_element(first);
  const std::uint64_t count = selection_.shape[axis];
  const auto stride = static_cast<std::uint64_t>(selection_.strides[axis]);
  output_.write("[");
  ++column_;
  for (std::uint64_t i = 0; i < count && !output_.stopped(); ++i) {
    if (i > 0) separate(axis);
    if (is_cut(axis) && i == style_.edge_items) {
      output_.write("...");
      column_ += 3;
      separate(axis);
      i = count - style_.edge_items;
    }
    write_axis(axis + 1, first + i * stride);
  }
  output_.write("]");
  ++column_;
}

void ArrayText::write_element(std::uint64_t element) {
  text_.clear();
  elements_.append(text_, element, style_.spelling, style_.syntax);
  if (text_.size() < width_) text_.insert(0, width_ - text_.size(), ' ');
  const std::size_t indent = selection_.shape.size();
  // Two for what follows: a comma, or the bracket that ends the row.
  if (style_.columns > 0 && column_ > indent &&
      column_ + text_.size() + 2 > style_.columns) {
    output_.write("\n");
    for (std::size_t i = 0; i < indent; ++i) output_.write(" ");
    column_ = indent;
  }
  output_.write(text_);
  column_ += text_.size();
}

// Elements of a row by a space; rows by a line end, and one more for each axis above,
// as NumPy does.
void ArrayText::separate(std::size_t axis) {
  const std::size_t below = selection_.shape.size() - 1 - axis;
  if (below == 0) {
    output_.write(", ");
    column_ += 2;
    return;
  }
  output_.write(",");
  for (std::size_t i = 0; i < below; ++i) output_.write("\n");
  for (std::size_t i = 0; i <= axis; ++i) output_.write(" ");
  column_ = axis + 1;
}

}  // namespace weig::cli
