// SPDX-License-Identifier: Apache-2.0
// Timeline: a worker's clock. It is told what has been reached, and writes down when,
// at what cost and with how much memory; figures_of() reads that back.
#pragma once

#include <weig/error.h>
#include <weig/load.h>

#include "bench/child_process.h"
#include "bench/measurement.h"

namespace weig::cli::bench {

class Timeline {
 public:
  Timeline() : begun_(Clock::now()), open_end_(begun_), resident_end_(begun_) {}

  void set_threads(unsigned threads) noexcept { threads_ = threads; }
  unsigned threads() const noexcept { return threads_; }  // that touch

  // To be called in this order, as soon as it is so, with all memory still held.
  void opened() { open_end_ = resident_end_ = Clock::now(); }
  void resident() { resident_end_ = Clock::now(); }
  // Instead of the two: both are over, and becoming resident took so long.
  void opened_and_resident(double resident_seconds);
  void loaded();

  // What the library says of it.
  void tell(const LoadReport& report) const;

 private:
  Clock::time_point begun_;
  Clock::time_point open_end_;
  Clock::time_point resident_end_;
  unsigned threads_ = 1;
};

// What a worker that succeeded has written. Fails with io where that makes no sense.
Result<Figures> figures_of(const Ending& ending);

}  // namespace weig::cli::bench
