// SPDX-License-Identifier: Apache-2.0
// ProgressBar: one line on standard error that shows how far long work is, where that
// is a terminal; nothing anywhere else. Also how long work learns of Ctrl-C.
#pragma once

#include <weig/progress.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

namespace weig::cli {

class ProgressBar {
 public:
  // `verb` is what is being done: "converting".
  explicit ProgressBar(std::string_view verb);
  ~ProgressBar();  // wipes the line
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  // To be given to the work; must not outlive the bar.
  Progress callback();

  // Draws if it is time to. False where the work should stop.
  bool advance(std::uint64_t done, std::uint64_t total);

 private:
  using Clock = std::chrono::steady_clock;

  std::string line(std::uint64_t done, std::uint64_t total, double seconds) const;

  std::string verb_;
  bool visible_;
  bool drawn_ = false;
  std::uint64_t done_ = 0;
  Clock::time_point start_;
  Clock::time_point next_;
};

}  // namespace weig::cli
