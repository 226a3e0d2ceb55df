// SPDX-License-Identifier: Apache-2.0
#include "slice.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <string>
#include <utility>

#include "terminal.h"

namespace weig::cli {
namespace {

constexpr std::string_view kBlank = " \t";

std::string_view trimmed(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(kBlank);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlank) - begin + 1);
}

Error cannot_read(std::string_view part) {
  return Error(Code::invalid_argument, "cannot read slice part " + in_quotes(part))
      .hint("parts are as in NumPy: 3, -1, 0:10, ::2, ::-1 or ...");
}

// Cuts `text` at the first `mark`; returns what was before it.
std::string_view take_until(std::string_view& text, char mark) {
  const std::size_t end = std::min(text.find(mark), text.size());
  const std::string_view head = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return head;
}

std::optional<std::int64_t> parse_integer(std::string_view text) {
  if (text.starts_with('+')) text.remove_prefix(1);
  std::int64_t value = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), value);
  if (read.ec != std::errc() || read.ptr != text.data() + text.size())
    return std::nullopt;
  return value;
}

Result<SlicePart> parse_range(std::string_view part) {
  SlicePart range{.kind = SlicePart::Kind::range};
  if (std::count(part.begin(), part.end(), ':') > 2) return cannot_read(part);
  std::string_view rest = part;
  for (auto* bound : {&range.start, &range.stop, &range.step}) {
    const std::string_view number = trimmed(take_until(rest, ':'));
    if (number.empty()) continue;
    *bound = parse_integer(number);
    if (!*bound) return cannot_read(part);
  }
  if (range.step == 0)
    return Error(Code::invalid_argument, "the step of slice part " + in_quotes(part) +
                                             " is 0, which leads nowhere");
  return range;
}

Result<SlicePart> parse_part(std::string_view part) {
  if (part == "...") return SlicePart{.kind = SlicePart::Kind::rest};
  if (part.find(':') != std::string_view::npos) return parse_range(part);
  const auto index = parse_integer(part);
  if (!index) return cannot_read(part);
  return SlicePart{.kind = SlicePart::Kind::index, .index = *index};
}

// Where a bound of a range falls, counted from the end if negative, clamped to
// [low, high].
std::int64_t clamp_bound(std::int64_t bound, std::int64_t size, std::int64_t low,
                         std::int64_t high) {
  if (bound < 0) bound += size;
  return std::clamp(bound, low, high);
}

struct Picked {
  std::uint64_t start = 0;
  std::int64_t step = 1;
  std::uint64_t count = 0;
};

Picked pick_range(const SlicePart& part, std::uint64_t axis_size) {
  const auto size = static_cast<std::int64_t>(axis_size);
  const std::int64_t step = part.step.value_or(1);
  // Going down, positions end before 0 instead of at the size.
  const std::int64_t low = step > 0 ? 0 : -1;
  const std::int64_t high = step > 0 ? size : size - 1;
  const std::int64_t start =
      part.start ? clamp_bound(*part.start, size, low, high) : (step > 0 ? low : high);
  const std::int64_t stop =
      part.stop ? clamp_bound(*part.stop, size, low, high) : (step > 0 ? high : low);
  const std::int64_t distance = step > 0 ? stop - start : start - stop;
  if (distance <= 0) return {};
  // Unsigned, because the smallest step has no positive counterpart.
  const std::uint64_t stride =
      step > 0 ? static_cast<std::uint64_t>(step)
               : std::uint64_t{0} - static_cast<std::uint64_t>(step);
  const std::uint64_t count = (static_cast<std::uint64_t>(distance) - 1) / stride + 1;
  return {static_cast<std::uint64_t>(start), step, count};
}

Result<std::uint64_t> pick_index(const SlicePart& part, std::size_t axis,
                                 std::uint64_t axis_size) {
  const auto size = static_cast<std::int64_t>(axis_size);
  const std::int64_t index = part.index < 0 ? part.index + size : part.index;
  if (index < 0 || index >= size)
    return Error(Code::invalid_argument,
                 fmt::format("axis {}: index {} is outside its size {}", axis,
                             part.index, axis_size));
  return static_cast<std::uint64_t>(index);
}

// One part an axis: "..." and what is missing become full ranges.
Result<std::vector<SlicePart>> parts_per_axis(std::span<const SlicePart> parts,
                                              std::size_t rank) {
  const auto is_rest = [](const SlicePart& part) {
    return part.kind == SlicePart::Kind::rest;
  };
  const auto rests =
      static_cast<std::size_t>(std::count_if(parts.begin(), parts.end(), is_rest));
  if (rests > 1)
    return Error(Code::invalid_argument, "a slice can have '...' once only");
  if (parts.size() - rests > rank)
    return Error(Code::invalid_argument, "the slice has more parts than axes")
        .found(parts.size() - rests)
        .expected(fmt::format("at most {}", rank));
  const std::size_t missing = rank - (parts.size() - rests);
  const SlicePart full{.kind = SlicePart::Kind::range};
  std::vector<SlicePart> out;
  for (const SlicePart& part : parts)
    out.insert(out.end(), is_rest(part) ? missing : 1, is_rest(part) ? full : part);
  out.resize(rank, full);
  return out;
}

std::vector<std::uint64_t> row_major_strides(std::span<const std::uint64_t> shape) {
  std::vector<std::uint64_t> strides(shape.size());
  std::uint64_t product = 1;
  for (std::size_t axis = shape.size(); axis-- > 0;) {
    strides[axis] = product;
    product *= shape[axis];
  }
  return strides;
}

}  // namespace

Result<std::vector<SlicePart>> parse_slice(std::string_view text) {
  text = trimmed(text);
  if (text.starts_with('[') && text.ends_with(']'))
    text = trimmed(text.substr(1, text.size() - 2));
  if (text.ends_with(',')) text.remove_suffix(1);
  std::vector<SlicePart> parts;
  if (text.empty()) return cannot_read(text);
  for (bool more = true; more;) {
    more = text.find(',') != std::string_view::npos;
    auto part = parse_part(trimmed(take_until(text, ',')));
    if (!part) return std::move(part).error();
    parts.push_back(*part);
  }
  return parts;
}

Result<Selection> select(std::span<const std::uint64_t> shape,
                         std::span<const SlicePart> parts) {
  const auto all = parts_per_axis(parts, shape.size());
  if (!all) return all.error();
  const auto strides = row_major_strides(shape);
  Selection selection;
  for (std::size_t axis = 0; axis < shape.size(); ++axis) {
    const SlicePart& part = (*all)[axis];
    if (part.kind == SlicePart::Kind::index) {
      const auto index = pick_index(part, axis, shape[axis]);
      if (!index) return index.error();
      selection.first += *index * strides[axis];
      continue;
    }
    const Picked picked = pick_range(part, shape[axis]);
    selection.first += picked.start * strides[axis];
    selection.shape.push_back(picked.count);
    // A step that is taken is smaller than the axis, so that this cannot overflow.
    selection.strides.push_back(
        picked.count < 2 ? 0 : picked.step * static_cast<std::int64_t>(strides[axis]));
  }
  if (std::count(selection.shape.begin(), selection.shape.end(), 0u) > 0)
    selection.element_count = 0;
  else
    for (const std::uint64_t count : selection.shape) selection.element_count *= count;
  return selection;
}

Runs::Runs(const Selection& selection) : at_end_(selection.element_count == 0) {
  run_ = {selection.first, 1, 1};
  for (std::size_t axis = selection.shape.size(); axis-- > 0;) {
    const std::uint64_t count = selection.shape[axis];
    const std::int64_t stride = selection.strides[axis];
    if (count < 2) continue;
    const bool continues =
        outer_.empty() &&
        (run_.count == 1 ||
         stride == run_.stride * static_cast<std::int64_t>(run_.count));
    if (!continues) {
      outer_.insert(outer_.begin(), {count, stride, 0});
      continue;
    }
    if (run_.count == 1) run_.stride = stride;
    run_.count *= count;
  }
}

std::optional<Run> Runs::next() {
  if (at_end_) return std::nullopt;
  const Run run = run_;
  std::size_t axis = outer_.size();
  while (axis > 0) {
    Axis& current = outer_[--axis];
    if (++current.position < current.count) {
      run_.first += static_cast<std::uint64_t>(current.stride);
      return run;
    }
    // Back to its start, and on along the next slower axis. Unsigned wrap is exact.
    run_.first -= static_cast<std::uint64_t>(current.stride) * (current.count - 1);
    current.position = 0;
  }
  at_end_ = true;
  return run;
}

}  // namespace weig::cli
