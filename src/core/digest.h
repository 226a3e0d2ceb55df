// SPDX-License-Identifier: Apache-2.0
// XXH3 with seed 0, the one hash of the format, at once and in pieces.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include <weig/view.h>

#include "core/bytes.h"

namespace weig {

std::uint64_t xxh3_64(Bytes bytes) noexcept;

// Of what comes from files, in hash tables of this process: by a seed that no file can
// know, so that none can be made whose names all fall into one place.
struct SeededHash {
  std::size_t operator()(Bytes bytes) const noexcept;
  std::size_t operator()(std::string_view text) const noexcept;
  std::size_t operator()(std::span<const std::uint64_t> numbers) const noexcept;
};

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
