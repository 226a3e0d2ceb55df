// SPDX-License-Identifier: Apache-2.0
// The ways that are not weig's: three classical loaders, and two raw readings of a
// file. Written to be fast and fair: the best that each way can do, without tricks.
#pragma once

#include <weig/error.h>

#include "bench/measurement.h"
#include "bench/timeline.h"

namespace weig::cli::bench {

struct Job;

// Requires a way that is not the library's.
Status load_classically(const Job& job, Way way, Timeline& times);

}  // namespace weig::cli::bench
