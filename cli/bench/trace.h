// SPDX-License-Identifier: Apache-2.0
// Traces: what memory and page cache do while a file loads, looked at every few
// milliseconds from outside. Looking costs time, so that these runs are not timed for
// the tables.
#pragma once

#include <weig/error.h>

#include <cstdint>
#include <string>
#include <vector>

#include "bench/measurement.h"
#include "bench/preparation.h"
#include "bench/runner.h"

namespace weig::cli::bench {

struct MemoryPoint {
  double seconds = 0;  // since before the process existed
  std::uint64_t anonymous = 0;
  std::uint64_t file_backed = 0;
};

// The file, cut into equal parts: how much of each is in the page cache.
struct ResidencyPoint {
  double seconds = 0;
  std::vector<std::uint8_t> percent;
};

struct Trace {
  Way way{};
  double loaded = 0;  // seconds
  std::vector<MemoryPoint> memory;
  std::vector<ResidencyPoint> residency;  // empty where not known
  std::string failure;                    // empty where all went well
};

struct Traces {
  State state{};
  std::vector<Trace> ways;
};

// One trace of each row of the first state that was not refused.
Result<Traces> trace_all(const Settings& settings, const Report& report,
                         Preparation& prepare);

}  // namespace weig::cli::bench
