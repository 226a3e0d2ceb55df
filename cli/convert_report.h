// SPDX-License-Identifier: Apache-2.0
// What a conversion did, told to people and to programs: of convert,
// merge and apply.
#pragma once

#include <weig/convert.h>

#include "report.h"

namespace weig::cli {

// Adds a warning where the output's name says that it is of another format.
void warn_of_name(ConvertReport& report);

// On standard error: warnings, and what became of a folder's other files.
void tell_more(const ConvertReport& report, OtherFiles others_were);

// On standard output; returns the exit status.
int print_report(const ConvertReport& report, Form form);

}  // namespace weig::cli
