// SPDX-License-Identifier: Apache-2.0
// A failure cannot be overlooked.
// expect: unused-result
#include <weig/weig.h>

void check(const weig::View& view) {
#ifdef WEIG_CONTROL
  if (!view.check_structure()) throw "damaged";
#else
  view.check_structure();
#endif
}
