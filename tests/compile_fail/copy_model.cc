// SPDX-License-Identifier: Apache-2.0
// A Model owns a mapping; two owners would unmap it twice.
// expect: use of deleted function|implicitly-deleted copy constructor|call to deleted
#include <weig/weig.h>

weig::Model take(weig::Model&& model) {
#ifdef WEIG_CONTROL
  weig::Model taken = std::move(model);
#else
  weig::Model taken = model;
#endif
  return taken;
}
