// SPDX-License-Identifier: Apache-2.0
// Sheets: a report's figures as cells of text, for whatever prints them.
#pragma once

#include <string>
#include <vector>

#include "bench/measurement.h"

namespace weig::cli::bench {

struct Sheet {
  std::vector<std::string> head;
  // Each as long as the head, or, of a way that was refused, its name and why.
  std::vector<std::vector<std::string>> lines;
};

// Medians of one state: where the time went; then faults, memory and bytes read.
Sheet time_sheet(const Report& report, State state);
Sheet memory_sheet(const Report& report, State state);

// What is to be told besides figures, and of which rows: "cold map, read"; of all rows
// "note".
struct Remark {
  std::string about;
  std::string text;
};
std::vector<Remark> remarks(const Report& report);

// Seconds with as many digits as are worth reading: "0.0093", "1.242", "12.34".
std::string seconds_text(double seconds);

}  // namespace weig::cli::bench
