// SPDX-License-Identifier: Apache-2.0
// GatherPlan: a strided tensor brought into row-major order, slab by slab, with reads
// that are few and in ascending order, and in bounded memory. Pure.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include <weig/error.h>

#include "core/bytes.h"

namespace weig {

class GatherPlan {
 public:
  // What is brought into order at once, and what is read for it at once.
  static constexpr std::uint64_t kSlabBytes = std::uint64_t{64} << 20;
  static constexpr std::uint64_t kBufferBytes = std::uint64_t{8} << 20;

  // `strides` in elements, of `element_bytes` each. No dimension is 0, and the tensor's
  // bytes do not wrap. Other limits are for tests.
  GatherPlan(std::span<const std::uint64_t> shape,
             std::span<const std::uint64_t> strides, std::uint64_t element_bytes,
             std::uint64_t slab_bytes = kSlabBytes,
             std::uint64_t buffer_bytes = kBufferBytes);

  // A run of the tensor's bytes in row-major order.
  struct Slab {
    std::uint64_t begin = 0;
    std::uint64_t size = 0;
  };
  // The one that holds a byte.
  Slab slab_at(std::uint64_t offset) const;

  // Bytes of the storage, counted from element 0.
  using Read = std::function<Status(std::uint64_t offset, MutableBytes out)>;
  // Fills `out`, as large as the slab. `buffer` is room that is used again and again.
  Status gather(const Slab& slab, const Read& read, MutableBytes out,
                std::vector<std::byte>& buffer) const;

 private:
  struct Dimension {
    std::uint64_t count = 1;
    std::uint64_t in = 0;   // bytes between neighbours, in the storage
    std::uint64_t out = 0;  // in the slab
  };
  struct Box;

  std::vector<Dimension> dimensions_;  // as the tensor has them, without those of 1
  std::uint64_t element_bytes_;
  std::uint64_t buffer_bytes_;
  std::size_t split_ = 0;             // the dimension of which a slab is some indices
  std::uint64_t indices_a_slab_ = 1;  // of it
};

}  // namespace weig
