// SPDX-License-Identifier: Apache-2.0
// A shape points into its Tensor, which here is gone at the semicolon.
// expect: use of deleted function|call to deleted member function
#include <weig/weig.h>

std::uint64_t first_dimension(const weig::Model& model) {
#ifdef WEIG_CONTROL
  const weig::Tensor tensor = model.tensor("w").value();
  const auto shape = tensor.shape();
#else
  const auto shape = model.tensor("w").value().shape();
#endif
  return shape[0];
}
