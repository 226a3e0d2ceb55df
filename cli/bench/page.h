// SPDX-License-Identifier: Apache-2.0
// The report as one web page that needs nothing else: no network, no other file.
#pragma once

#include "bench/measurement.h"
#include "bench/trace.h"
#include "output.h"

namespace weig::cli::bench {

void print_page(Output& output, const Report& report, const Traces& traces);

}  // namespace weig::cli::bench
