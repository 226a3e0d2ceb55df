// SPDX-License-Identifier: Apache-2.0
// What tests of loading share: a number that depends on every byte of a model's
// weights.
#pragma once

#include <weig/model.h>

#include <cstddef>
#include <cstdint>

namespace weig::test {

inline std::uint64_t sum_of(const Model& model) {
  std::uint64_t sum = 0;
  for (const auto& tensor : model.tensors())
    for (const std::byte byte : tensor->bytes())
      sum = sum * 31 + static_cast<unsigned>(byte);
  return sum;
}

}  // namespace weig::test
