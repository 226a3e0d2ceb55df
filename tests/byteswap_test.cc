// SPDX-License-Identifier: Apache-2.0
#include "core/byteswap.h"

#include <gtest/gtest.h>

#include <vector>

namespace weig::test {
namespace {

TEST(Byteswap, reverses_every_width_at_any_alignment_and_length) {
  for (const std::uint32_t unit : {1u, 2u, 4u, 8u})
    for (const std::size_t from : {0u, 1u, 2u, 5u})
      for (std::size_t count = 0; count < 70; ++count) {
        std::vector<std::byte> bytes(from + count * unit + 9);
        for (std::size_t i = 0; i < bytes.size(); ++i)
          bytes[i] = static_cast<std::byte>(i * 7 + 1);
        std::vector<std::byte> expected = bytes;
        for (std::size_t i = 0; i < count * unit; ++i)
          expected[from + i] = bytes[from + i / unit * unit + (unit - 1 - i % unit)];
        swap_in_place(std::span(bytes).subspan(from, count * unit), unit);
        ASSERT_EQ(bytes, expected) << unit << " bytes, " << count << " times";
      }
}

}  // namespace
}  // namespace weig::test
