// SPDX-License-Identifier: Apache-2.0
// Owners: which tensor's bytes a tensor shares, for all tensors of a file in linear
// time.
#pragma once

#include <weig/model.h>

#include <cstdint>
#include <vector>

namespace weig::cli {

class Owners {
 public:
  explicit Owners(const Model& model);

  // The first tensor with the very same bytes; the tensor itself where it is the first.
  // To be asked in the order of the file.
  std::uint32_t of(const Tensor& tensor);

 private:
  bool sealed_;
  // Sealed files: the last owner. Aliases follow it directly.
  std::uint64_t offset_ = 0;
  std::uint64_t size_ = 0;
  std::uint32_t owner_ = 0;
  // Others, where tensors come in any order: by ordinal.
  std::vector<std::uint32_t> owners_;
};

}  // namespace weig::cli
