// SPDX-License-Identifier: Apache-2.0
// An Input over bytes in memory, for tests of readers.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include "core/bytes.h"
#include "formats/input.h"

namespace weig::test {

// Borrows the bytes, of which every read must lie inside.
inline Input input_over(Bytes bytes) {
  return {.size = bytes.size(),
          .read = [bytes](std::uint64_t offset, MutableBytes out) -> Status {
            if (!fits(offset, out.size(), bytes.size()))
              return Error(Code::io, "read outside");
            std::ranges::copy(bytes.subspan(offset, out.size()), out.begin());
            return {};
          }};
}
inline Input input_over(const std::vector<std::byte>& bytes) {
  return input_over(Bytes(bytes));
}
inline Input input_over(const std::string& bytes) {
  return input_over(bytes_of(bytes));
}

// Whatever read of the bytes fails, so does what is done with them.
template <typename Do>
void fail_each_read(const std::string& bytes, Do act) {
  for (int failing = 0;; ++failing) {
    int reads = 0;
    Input input = input_over(bytes);
    input.read = [&, read = input.read](std::uint64_t at, MutableBytes out) -> Status {
      if (reads++ == failing) return Error(Code::io, "a read that fails");
      return read(at, out);
    };
    const auto done = act(input);
    if (reads <= failing) return;
    ASSERT_FALSE(done) << failing;
    EXPECT_EQ(done.error().code(), Code::io) << failing;
  }
}

}  // namespace weig::test
