// SPDX-License-Identifier: Apache-2.0
// FileRange: a stretch of a file.
#pragma once

#include <cstdint>

namespace weig {

// The bytes [begin, end) of a file.
struct FileRange {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  std::uint64_t size() const noexcept { return end - begin; }
  friend bool operator==(const FileRange&, const FileRange&) = default;
};

}  // namespace weig
