// SPDX-License-Identifier: Apache-2.0
// Moving the View out of a Model would leave it without the mapping that it reads.
// expect: inaccessible base|private base class
#include <weig/weig.h>

std::uint64_t count(weig::Model&& model) {
#ifdef WEIG_CONTROL
  const weig::View& view = model.view();
#else
  const weig::View view = std::move(model);
#endif
  return view.size();
}
