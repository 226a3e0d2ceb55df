// SPDX-License-Identifier: Apache-2.0
// Numbers that look random and are the same everywhere: SplitMix64.
#pragma once

#include <cstdint>
#include <iterator>

namespace weig::fuzz {

class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}

  std::uint64_t next() noexcept {
    std::uint64_t z = state_ += 0x9E3779B97F4A7C15;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
    return z ^ (z >> 31);
  }
  // Below `limit`, which must not be 0. Slightly uneven.
  std::uint64_t below(std::uint64_t limit) noexcept { return next() % limit; }
  bool one_in(std::uint64_t n) noexcept { return below(n) == 0; }
  // One of several, which must not be none.
  template <typename Range>
  const auto& pick(const Range& all) noexcept {
    return all[below(std::size(all))];
  }

 private:
  std::uint64_t state_;
};

}  // namespace weig::fuzz
