// SPDX-License-Identifier: Apache-2.0
// A report as text for a terminal, and as JSON with every sample.
#pragma once

#include <string>

#include "bench/measurement.h"
#include "output.h"

namespace weig::cli::bench {

// Sentences are as wide as the terminal, or on one line each where there is none.
void print_table(Output& output, const Report& report);

void print_json(Output& output, const Report& report);

// What a table says of where and what it measures: "4.39 GB (...), 291 tensors, ...".
std::string subject_text(const Subject& subject);
// How it was measured, in sentences; each fits a line.
std::string method_text(const Report& report);

}  // namespace weig::cli::bench
