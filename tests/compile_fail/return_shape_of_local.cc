// SPDX-License-Identifier: Apache-2.0
// A shape points into its Tensor, which is gone when the function returns.
// expect: address of stack memory associated with local variable
// clang: -Werror=dangling
#include <weig/weig.h>

#ifdef WEIG_CONTROL
weig::Shape shape(const weig::Model& model) {
  const weig::Tensor tensor = model.tensor("w").value();
  return tensor.strides();
}
#else
std::span<const std::uint64_t> shape(const weig::Model& model) {
  const weig::Tensor tensor = model.tensor("w").value();
  return tensor.shape();
}
#endif
