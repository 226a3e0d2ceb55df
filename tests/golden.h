// SPDX-License-Identifier: Apache-2.0
// Comparing with the files in tests/golden. With WEIG_WRITE_GOLDEN set in the
// environment, writes them instead.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include "image.h"

namespace weig::test {

inline void expect_golden(const std::string& name, const Image& image) {
  const std::string path = std::string(WEIG_GOLDEN_FOLDER) + "/" + name;
  if (std::getenv("WEIG_WRITE_GOLDEN")) write_file(path, image.bytes);
  const auto golden = read_file(path);
  ASSERT_EQ(golden.size(), image.size());
  const auto [a, b] = std::ranges::mismatch(golden, image.bytes);
  EXPECT_TRUE(a == golden.end()) << name << " differs at byte " << a - golden.begin();
}

}  // namespace weig::test
