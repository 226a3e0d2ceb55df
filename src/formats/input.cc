// SPDX-License-Identifier: Apache-2.0
#include "formats/input.h"

#include <algorithm>

#include "core/try.h"

namespace weig {
namespace {

constexpr std::uint64_t kBlock = std::uint64_t{64} << 10;

}  // namespace

Result<Bytes> InputCursor::peek(std::uint64_t count) {
  if (at_ < block_begin_ || !fits(at_ - block_begin_, count, block_.size())) {
    block_begin_ = at_;
    block_.resize(std::min(left(), std::max(count, kBlock)));
    WEIG_TRY(input_->read(at_, block_));
  }
  return Bytes(block_).subspan(at_ - block_begin_, count);
}

Result<Bytes> InputCursor::take(std::uint64_t count) {
  auto bytes = peek(count);
  if (bytes) at_ += count;
  return bytes;
}

}  // namespace weig
