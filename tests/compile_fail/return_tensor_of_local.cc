// SPDX-License-Identifier: Apache-2.0
// A tensor points into its Model, which is gone when the function returns.
// expect: address of stack memory associated with parameter
// clang: -Werror=dangling
#include <weig/weig.h>

#ifdef WEIG_CONTROL
weig::Result<weig::Tensor> w(const weig::Model& model) {
#else
weig::Result<weig::Tensor> w(weig::Model model) {
#endif
  return model.tensor("w");
}
