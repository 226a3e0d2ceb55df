// SPDX-License-Identifier: Apache-2.0
// The worker: what `weig bench` starts in a fresh process for each run. It loads the
// file one way, touches all of it, and writes what that took (bench/timeline.h).
#pragma once

#include <weig/error.h>
#include <weig/model.h>

#include <string>
#include <string_view>
#include <vector>

#include "bench/timeline.h"

namespace weig::cli::bench {

// What a worker is to do.
struct Job {
  std::string task;         // a way's name, "warm" or "back"
  std::string file;         // of "back" none
  std::uint64_t bytes = 0;  // of "back": memory to touch
  unsigned threads = 0;     // 0: as many as suit
  OpenOptions open;
};

// The command that says so, which can be given again by hand: this program, kWorkerMark
// and its arguments.
std::vector<std::string> command_of(const Job& job);
bool is_worker(int argc, const char* const* argv) noexcept;

// The whole process; returns its exit status.
int work(int argc, const char* const* argv);

}  // namespace weig::cli::bench
