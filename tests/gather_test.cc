// SPDX-License-Identifier: Apache-2.0
// Strided tensors brought into row-major order, compared with a loop over all indices;
// and what is read for it.
#include "convert/gather.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <random>

namespace weig::test {
namespace {

struct Layout {
  std::vector<std::uint64_t> shape;
  std::vector<std::uint64_t> strides;
  std::uint64_t element_bytes = 1;

  std::uint64_t element_count() const {
    return std::accumulate(shape.begin(), shape.end(), std::uint64_t{1},
                           std::multiplies<>());
  }
  std::uint64_t storage_bytes() const {
    std::uint64_t last = 0;
    for (std::size_t d = 0; d < shape.size(); ++d) last += (shape[d] - 1) * strides[d];
    return (last + 1) * element_bytes;
  }
};

std::vector<std::byte> numbered(std::uint64_t bytes) {
  std::vector<std::byte> out(bytes);
  std::minstd_rand random(7);
  for (std::byte& byte : out) byte = static_cast<std::byte>(random());
  return out;
}

std::vector<std::byte> by_index(const Layout& layout, Bytes storage) {
  std::vector<std::byte> out(layout.element_count() * layout.element_bytes);
  std::vector<std::uint64_t> index(layout.shape.size());
  for (std::uint64_t i = 0; i < layout.element_count(); ++i) {
    std::uint64_t at = 0;
    for (std::size_t d = 0; d < index.size(); ++d) at += index[d] * layout.strides[d];
    std::memcpy(out.data() + i * layout.element_bytes,
                storage.data() + at * layout.element_bytes, layout.element_bytes);
    for (std::size_t d = index.size(); d-- > 0;) {
      if (++index[d] < layout.shape[d]) break;
      index[d] = 0;
    }
  }
  return out;
}

struct Reading {
  std::uint64_t calls = 0;
  std::uint64_t bytes = 0;
  bool ascends = true;  // inside each slab
};

std::vector<std::byte> gathered(const Layout& layout, Bytes storage,
                                std::uint64_t slab_bytes, std::uint64_t buffer_bytes,
                                Reading& reading) {
  const GatherPlan plan(layout.shape, layout.strides, layout.element_bytes, slab_bytes,
                        buffer_bytes);
  std::vector<std::byte> out;
  std::vector<std::byte> buffer;
  const std::uint64_t size = layout.element_count() * layout.element_bytes;
  while (out.size() < size) {
    const GatherPlan::Slab slab = plan.slab_at(out.size());
    EXPECT_EQ(slab.begin, out.size());
    EXPECT_LE(slab.size, std::max(slab_bytes, layout.element_bytes));
    EXPECT_EQ(plan.slab_at(slab.begin + slab.size - 1).begin, slab.begin);
    out.resize(slab.begin + slab.size);
    std::uint64_t last = 0;
    const auto status = plan.gather(
        slab,
        [&](std::uint64_t at, MutableBytes bytes) -> Status {
          EXPECT_TRUE(inside(at, bytes.size(), 0, storage.size()));
          reading.ascends = reading.ascends && at >= last;
          last = at;
          ++reading.calls;
          reading.bytes += bytes.size();
          std::ranges::copy(storage.subspan(at, bytes.size()), bytes.begin());
          return {};
        },
        MutableBytes(out).subspan(slab.begin), buffer);
    EXPECT_TRUE(status);
    EXPECT_LE(buffer.size(), std::max(buffer_bytes, layout.element_bytes));
  }
  return out;
}

void expect_same(const Layout& layout) {
  const auto storage = numbered(layout.storage_bytes());
  const auto expected = by_index(layout, storage);
  for (const std::uint64_t slab : {1u, 24u, 100u, 4096u, 1u << 20})
    for (const std::uint64_t buffer : {16u, 64u, 1000u, 1u << 20}) {
      Reading reading;
      const auto got = gathered(layout, storage, slab, buffer, reading);
      ASSERT_TRUE(got == expected) << "slabs of " << slab << ", a buffer of " << buffer;
    }
}

TEST(Gather, brings_any_order_of_dimensions) {
  std::minstd_rand random(1);
  for (int round = 0; round < 200; ++round) {
    Layout layout;
    layout.element_bytes = std::uint64_t{1} << (random() % 5);
    const std::size_t rank = random() % 5;
    for (std::size_t d = 0; d < rank; ++d) layout.shape.push_back(1 + random() % 7);
    layout.strides.resize(rank);
    std::vector<std::size_t> order(rank);
    std::iota(order.begin(), order.end(), 0);
    std::ranges::shuffle(order, random);
    std::uint64_t step = 1 + random() % 2;  // a step over every other element
    for (const std::size_t d : order) {
      layout.strides[d] = step;
      step *= layout.shape[d];
      if (random() % 3 == 0) step += random() % 6000;  // rows that are cut out of more
    }
    expect_same(layout);
  }
}

TEST(Gather, brings_overlapping_and_repeated_elements) {
  expect_same({.shape = {5, 3}, .strides = {0, 1}, .element_bytes = 4});
  expect_same({.shape = {5, 3}, .strides = {1, 0}, .element_bytes = 4});
  expect_same({.shape = {4, 4}, .strides = {0, 0}, .element_bytes = 2});
  expect_same({.shape = {6, 3}, .strides = {1, 1}, .element_bytes = 8});
  expect_same({.shape = {3, 1, 5}, .strides = {2, 99, 3}, .element_bytes = 1});
}

TEST(Gather, reads_a_transposed_matrix_in_runs) {
  // Column by column: 64 rows of 1,024 bytes fill a slab, which is 1,024 runs of 64.
  const Layout layout{.shape = {1024, 1024}, .strides = {1, 1024}, .element_bytes = 1};
  const auto storage = numbered(layout.storage_bytes());
  Reading reading;
  const auto got = gathered(layout, storage, 64 << 10, 1 << 20, reading);
  EXPECT_TRUE(got == by_index(layout, storage));
  // Gaps as short as these are read along: a call a slab.
  EXPECT_EQ(reading.calls, 16u);
  EXPECT_TRUE(reading.ascends);
}

TEST(Gather, skips_what_lies_far_between) {
  const Layout layout{.shape = {4, 8}, .strides = {1, 100'000}, .element_bytes = 4};
  const auto storage = numbered(layout.storage_bytes());
  Reading reading;
  const auto got = gathered(layout, storage, 1 << 20, 1 << 20, reading);
  EXPECT_TRUE(got == by_index(layout, storage));
  EXPECT_EQ(reading.calls, 8u);
  EXPECT_EQ(reading.bytes, 8u * 16);
  EXPECT_TRUE(reading.ascends);
}

TEST(Gather, passes_a_failure_on) {
  const GatherPlan plan(std::vector<std::uint64_t>{2, 2},
                        std::vector<std::uint64_t>{1, 2}, 4);
  std::vector<std::byte> out(16);
  std::vector<std::byte> buffer;
  const auto status = plan.gather(
      plan.slab_at(0),
      [](std::uint64_t, MutableBytes) -> Status { return Error(Code::io, "no"); }, out,
      buffer);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code(), Code::io);
}

}  // namespace
}  // namespace weig::test
