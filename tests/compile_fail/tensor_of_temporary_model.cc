// SPDX-License-Identifier: Apache-2.0
// A tensor points into its Model, which here is gone at the semicolon.
// expect: use of deleted function|call to deleted member function
#include <weig/weig.h>

std::uint64_t bytes_of_w(const std::string& path) {
#ifdef WEIG_CONTROL
  const weig::Model model = weig::Model::open(path).value();
  const auto tensor = model.tensor("w");
#else
  const auto tensor = weig::Model::open(path).value().tensor("w");
#endif
  return tensor.value().byte_count();
}
