// SPDX-License-Identifier: Apache-2.0
// Asking a caller's progress callback whether to go on.
#pragma once

#include <weig/progress.h>

namespace weig {

// One that throws says stop: it may run on a thread where nobody could catch.
inline bool goes_on(const Progress& progress, std::uint64_t done,
                    std::uint64_t total) noexcept {
  try {
    return !progress || progress(done, total);
  } catch (...) {
    return false;
  }
}

}  // namespace weig
