// SPDX-License-Identifier: Apache-2.0
// StatusLine: one line on standard error that says what is being measured, where that
// is a terminal; nothing anywhere else.
#pragma once

#include <cstddef>
#include <string_view>

#include "bench/child_process.h"

namespace weig::cli::bench {

class StatusLine {
 public:
  StatusLine();
  ~StatusLine();  // wipes the line
  StatusLine(const StatusLine&) = delete;
  StatusLine& operator=(const StatusLine&) = delete;

  // `done` of `total` runs are over.
  void show(std::string_view text, std::size_t done, std::size_t total);

 private:
  bool visible_;
  Clock::time_point start_;
};

}  // namespace weig::cli::bench
