// SPDX-License-Identifier: Apache-2.0
#include "convert/gather.h"

#include <algorithm>
#include <cstring>

#include "core/try.h"

namespace weig {
namespace {

// What lies between two parts is read along, up to this: no more than a call costs.
constexpr std::uint64_t kGap = std::uint64_t{16} << 10;
// Rows and columns of a tile: its lines of both sides stay in the first cache.
constexpr std::uint64_t kTile = 32;

// One plane: `n` x `m` elements.
struct Plane {
  std::uint64_t n = 1, from_n = 0, to_n = 0;
  std::uint64_t m = 1, from_m = 0, to_m = 0;
};

// The element's size is known to the compiler.
template <std::size_t kBytes>
void copy_plane(const std::byte* from, std::byte* to, const Plane& plane) {
  for (std::uint64_t i = 0; i < plane.n; i += kTile)
    for (std::uint64_t j = 0; j < plane.m; j += kTile) {
      const std::uint64_t i_end = std::min(plane.n, i + kTile);
      const std::uint64_t j_end = std::min(plane.m, j + kTile);
      for (std::uint64_t y = i; y < i_end; ++y)
        for (std::uint64_t x = j; x < j_end; ++x)
          std::memcpy(to + y * plane.to_n + x * plane.to_m,
                      from + y * plane.from_n + x * plane.from_m, kBytes);
    }
}

void copy_plane(const std::byte* from, std::byte* to, const Plane& plane,
                std::uint64_t element_bytes) {
  if (plane.from_m == element_bytes && plane.to_m == element_bytes) {
    for (std::uint64_t y = 0; y < plane.n; ++y)
      std::memcpy(to + y * plane.to_n, from + y * plane.from_n,
                  plane.m * element_bytes);
    return;
  }
  switch (element_bytes) {
    case 1:
      return copy_plane<1>(from, to, plane);
    case 2:
      return copy_plane<2>(from, to, plane);
    case 4:
      return copy_plane<4>(from, to, plane);
    case 8:
      return copy_plane<8>(from, to, plane);
    default:
      return copy_plane<16>(from, to, plane);
  }
}

}  // namespace

// A part of a slab: what is read into the buffer at once, and how it lies there.
// Dimensions are in order of their steps in the storage, the largest first.
struct GatherPlan::Box {
  struct Axis {
    Dimension of;
    std::uint64_t in_buffer = 0;  // bytes between neighbours
    std::uint64_t at_once = 1;    // indices in the buffer
  };
  std::vector<Axis> axes;
  std::size_t first = 0;     // axes before it: one index at a time
  std::size_t together = 0;  // axes from here on: one read for all
  std::uint64_t element_bytes = 1;

  Box(std::vector<Dimension> dimensions, std::uint64_t bytes, std::uint64_t room)
      : element_bytes(bytes) {
    std::ranges::stable_sort(dimensions, std::ranges::greater{}, &Dimension::in);
    for (const Dimension& dimension : dimensions) axes.push_back({.of = dimension});
    together = first = axes.size();
    bool is_one_read = true;
    std::uint64_t used = bytes;  // of the buffer, by the axes behind
    while (first > 0) {
      Axis& axis = axes[--first];
      const bool joins = is_one_read && axis.of.in <= used + kGap;
      if (joins) {
        together = first;
      } else {
        is_one_read = false;
      }
      axis.in_buffer = joins ? axis.of.in : used;
      const std::uint64_t more = axis.in_buffer == 0
                                     ? axis.of.count
                                     : (std::max(room, used) - used) / axis.in_buffer;
      axis.at_once = std::min(axis.of.count, more + 1);
      if (axis.at_once < axis.of.count) return;
      used += (axis.of.count - 1) * axis.in_buffer;
    }
  }

  std::uint64_t count_now(std::size_t axis, std::uint64_t begin) const {
    return axis == first ? std::min(axes[axis].at_once, axes[axis].of.count - begin)
                         : axes[axis].of.count;
  }

  // The buffer's bytes for `count` indices of the first axis, from `axis` on.
  std::uint64_t span_from(std::size_t axis, std::uint64_t count) const {
    std::uint64_t bytes = element_bytes;
    for (std::size_t a = axis; a < axes.size(); ++a)
      bytes += ((a == first ? count : axes[a].of.count) - 1) * axes[a].in_buffer;
    return bytes;
  }

  // Reads what `count` indices of the first axis need.
  Status fill(const Read& read, std::size_t axis, std::uint64_t count,
              std::uint64_t offset, MutableBytes buffer) const {
    if (axis >= together) return read(offset, buffer.first(span_from(axis, count)));
    const std::uint64_t here = axis == first ? count : axes[axis].of.count;
    for (std::uint64_t i = 0; i < here; ++i)
      WEIG_TRY(fill(read, axis + 1, count, offset + i * axes[axis].of.in,
                    buffer.subspan(i * axes[axis].in_buffer)));
    return {};
  }

  // Brings the buffer's elements to their places: the two axes that are closest in
  // either place make a plane.
  void scatter(std::uint64_t count, const std::byte* buffer, std::byte* out) const {
    std::vector<Axis> in(axes.begin() + static_cast<std::ptrdiff_t>(first), axes.end());
    if (!in.empty()) in.front().of.count = count;
    Plane plane;
    const auto take = [&](auto nearest, std::uint64_t& n, std::uint64_t& from,
                          std::uint64_t& to) {
      if (in.empty()) return;
      const auto axis = std::ranges::min_element(in, {}, nearest);
      n = axis->of.count;
      from = axis->in_buffer;
      to = axis->of.out;
      in.erase(axis);
    };
    take([](const Axis& axis) { return axis.of.out; }, plane.m, plane.from_m,
         plane.to_m);
    take([](const Axis& axis) { return axis.in_buffer; }, plane.n, plane.from_n,
         plane.to_n);
    scatter_planes(in, plane, buffer, out);
  }

  void scatter_planes(std::span<const Axis> outer, const Plane& plane,
                      const std::byte* from, std::byte* to) const {
    if (outer.empty()) return copy_plane(from, to, plane, element_bytes);
    const Axis& axis = outer.front();
    for (std::uint64_t i = 0; i < axis.of.count; ++i)
      scatter_planes(outer.subspan(1), plane, from + i * axis.in_buffer,
                     to + i * axis.of.out);
  }

  // All boxes of the slab, one after the other.
  Status walk(const Read& read, std::size_t axis, std::uint64_t offset,
              MutableBytes buffer, std::byte* out) const {
    if (axis == first || axes.empty()) return walk_first(read, offset, buffer, out);
    for (std::uint64_t i = 0; i < axes[axis].of.count; ++i)
      WEIG_TRY(walk(read, axis + 1, offset + i * axes[axis].of.in, buffer,
                    out + i * axes[axis].of.out));
    return {};
  }

  Status walk_first(const Read& read, std::uint64_t offset, MutableBytes buffer,
                    std::byte* out) const {
    const std::uint64_t all = axes.empty() ? 1 : axes[first].of.count;
    for (std::uint64_t begin = 0; begin < all;) {
      const std::uint64_t count = axes.empty() ? 1 : count_now(first, begin);
      const std::uint64_t in = axes.empty() ? 0 : begin * axes[first].of.in;
      WEIG_TRY(fill(read, first, count, offset + in, buffer));
      scatter(count, buffer.data(),
              out + (axes.empty() ? 0 : begin * axes[first].of.out));
      begin += count;
    }
    return {};
  }
};

GatherPlan::GatherPlan(std::span<const std::uint64_t> shape,
                       std::span<const std::uint64_t> strides,
                       std::uint64_t element_bytes, std::uint64_t slab_bytes,
                       std::uint64_t buffer_bytes)
    : element_bytes_(element_bytes), buffer_bytes_(buffer_bytes) {
  for (std::size_t d = 0; d < shape.size(); ++d)
    if (shape[d] > 1)
      dimensions_.push_back({.count = shape[d], .in = strides[d] * element_bytes});
  std::uint64_t bytes = element_bytes;
  for (std::size_t d = dimensions_.size(); d-- > 0;) {
    dimensions_[d].out = bytes;
    bytes *= dimensions_[d].count;
  }
  // As many whole dimensions from the last on as a slab takes, and part of the next.
  split_ = dimensions_.size();
  std::uint64_t inside = element_bytes;
  while (split_ > 0) {
    --split_;
    indices_a_slab_ =
        std::clamp<std::uint64_t>(slab_bytes / inside, 1, dimensions_[split_].count);
    if (indices_a_slab_ < dimensions_[split_].count) return;
    inside *= dimensions_[split_].count;
  }
}

GatherPlan::Slab GatherPlan::slab_at(std::uint64_t offset) const {
  if (dimensions_.empty()) return {.begin = 0, .size = element_bytes_};
  const Dimension& split = dimensions_[split_];
  const std::uint64_t row = split.out * split.count;  // all indices of the dimension
  const std::uint64_t slab = split.out * indices_a_slab_;
  const std::uint64_t before = offset / row * row;
  const std::uint64_t begin = before + (offset - before) / slab * slab;
  return {.begin = begin, .size = std::min(slab, before + row - begin)};
}

Status GatherPlan::gather(const Slab& slab, const Read& read, MutableBytes out,
                          std::vector<std::byte>& buffer) const {
  std::vector<Dimension> inside;
  std::uint64_t offset = 0;
  std::uint64_t rest = slab.begin;
  for (std::size_t d = 0; d < dimensions_.size(); ++d) {
    const Dimension& dimension = dimensions_[d];
    offset += rest / dimension.out * dimension.in;
    rest %= dimension.out;
    if (d < split_) continue;
    inside.push_back(dimension);
    if (d == split_) inside.back().count = slab.size / dimension.out;
  }
  const Box box(std::move(inside), element_bytes_, buffer_bytes_);
  buffer.resize(
      box.span_from(box.first, box.axes.empty() ? 1 : box.axes[box.first].at_once));
  return box.walk(read, 0, offset, buffer, out.data());
}

}  // namespace weig
