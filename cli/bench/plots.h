// SPDX-License-Identifier: Apache-2.0
// The plots of a report's page. Widths are shares of the page's, so that text keeps its
// size on a phone.
#pragma once

#include "bench/measurement.h"
#include "bench/trace.h"
#include "output.h"

namespace weig::cli::bench {

// Bars: time by way, split into what it went into, with the raw reading marked.
void print_bars(Output& output, const Report& report, State state);

// What raw_limit() is called: warm, a loader that maps can be faster than a reading
// that copies.
inline constexpr const char* kRawName = "raw reading";

// For each way: memory over time, and below it what of the file is in the page cache.
void print_traces(Output& output, const Traces& traces);

}  // namespace weig::cli::bench
