// SPDX-License-Identifier: Apache-2.0
// A model is read-only: its pages are shared with every process that has it open.
// expect: read-only location|returns a const value
#include <weig/weig.h>

std::byte touch(const weig::Tensor& tensor) {
#ifdef WEIG_CONTROL
  return tensor.bytes()[0];
#else
  return tensor.bytes()[0] = std::byte{1};
#endif
}
