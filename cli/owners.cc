// SPDX-License-Identifier: Apache-2.0
#include "owners.h"

#include <algorithm>
#include <tuple>

namespace weig::cli {

Owners::Owners(const Model& model) : sealed_(model.sealed()) {
  if (sealed_) return;
  std::vector<std::tuple<std::uint64_t, std::uint64_t, std::uint32_t>> ranges;
  ranges.reserve(model.size());
  owners_.resize(model.size());
  for (const auto& tensor : model.tensors())
    if (tensor)
      ranges.emplace_back(tensor->data_offset(), tensor->byte_count(),
                          tensor->ordinal());
  std::ranges::sort(ranges);
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    const auto& [offset, size, ordinal] = ranges[i];
    const bool shares = i > 0 && size > 0 && offset == std::get<0>(ranges[i - 1]) &&
                        size == std::get<1>(ranges[i - 1]);
    owners_[ordinal] = shares ? owners_[std::get<2>(ranges[i - 1])] : ordinal;
  }
}

std::uint32_t Owners::of(const Tensor& tensor) {
  if (!sealed_) return owners_[tensor.ordinal()];
  if (tensor.byte_count() == 0) return tensor.ordinal();
  const bool shares = tensor.data_offset() == offset_ && tensor.byte_count() == size_;
  if (!shares) owner_ = tensor.ordinal();
  offset_ = tensor.data_offset();
  size_ = tensor.byte_count();
  return owner_;
}

}  // namespace weig::cli
