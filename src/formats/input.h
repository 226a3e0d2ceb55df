// SPDX-License-Identifier: Apache-2.0
// Input: a file's bytes at any place, for readers of formats that do not begin with all
// that they say of themselves.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include <weig/error.h>

#include "core/bytes.h"

namespace weig {

struct Input {
  std::uint64_t size = 0;
  // Fills `out` from `offset`, which lies within `size` with all of `out`. Fails as
  // whatever is behind it does.
  std::function<Status(std::uint64_t offset, MutableBytes out)> read;
};

// The bytes of an Input one after the other, read in blocks.
class InputCursor {
 public:
  InputCursor(const Input& input, std::uint64_t offset, std::uint64_t end)
      : input_(&input), at_(offset), end_(end) {}

  std::uint64_t offset() const noexcept { return at_; }
  std::uint64_t left() const noexcept { return end_ - at_; }

  // The next `count` bytes, at most left(): valid until the next call. More than a
  // block at once takes that much memory.
  Result<Bytes> take(std::uint64_t count);
  // The same without going on.
  Result<Bytes> peek(std::uint64_t count);
  void skip(std::uint64_t count) noexcept { at_ += count; }  // at most left()
  // Goes on from any place, at most the end. Going back within a block costs nothing.
  void seek(std::uint64_t offset) noexcept { at_ = offset; }

 private:
  const Input* input_;
  std::uint64_t at_;
  std::uint64_t end_;
  std::uint64_t block_begin_ = 0;
  std::vector<std::byte> block_;
};

}  // namespace weig
