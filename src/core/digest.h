// SPDX-License-Identifier: Apache-2.0
// XXH3 with seed 0, the one hash of the format, at once and in pieces.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include <weig/view.h>

#include "core/bytes.h"

namespace weig {

std::uint64_t xxh3_64(Bytes bytes) noexcept;
Digest xxh3_128(Bytes bytes) noexcept;

// XXH3-128 of bytes that come in pieces. Reusable; one state for any number of digests.
class Hasher {
 public:
  Hasher();
  Hasher(Hasher&&) noexcept;
  Hasher& operator=(Hasher&&) noexcept;
  ~Hasher();

  void reset() noexcept;
  void update(Bytes bytes) noexcept;
  Digest digest() const noexcept;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// "d41d8cd9...": 32 hexadecimal digits, high half first (xxhsum's order).
std::string to_hex(const Digest& digest);
// 16 hexadecimal digits.
std::string to_hex(std::uint64_t digest);

}  // namespace weig
