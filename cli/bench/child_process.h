// SPDX-License-Identifier: Apache-2.0
// ChildProcess: this very program once more, in a fresh process that does one thing.
// Its calls to the operating system are all in child_process.cc.
#pragma once

#include <weig/error.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace weig::cli::bench {

// Both processes read the same clock.
using Clock = std::chrono::steady_clock;

// The first argument of such a process. Not a command: --help knows nothing of it.
inline constexpr const char* kWorkerMark = "__bench_worker";

struct Ending {
  int status = 0;      // exit status
  int signal = 0;      // that ended it, or 0
  std::string output;  // all it has written, messages too
  // Of the process from its start to its end, as the kernel tells its parent.
  std::uint64_t major_faults = 0;
  std::uint64_t minor_faults = 0;
  Clock::time_point started;  // just before it came into being
  bool ok() const { return status == 0 && signal == 0; }
  // "ended by signal 9 (Killed)", or the message that it left.
  std::string failure() const;
};

// Called every few milliseconds with the process's number while it runs.
using Watch = std::function<void(int process)>;

// Runs this program with the arguments of `command` to its end. When someone says stop
// (stop_signal()), ends it and fails with cancelled. Fails with io where no process can
// be started.
Result<Ending> run_worker_process(const std::vector<std::string>& command,
                                  const Watch& watch = {},
                                  std::chrono::milliseconds period = {});

// To be called first by such a process: Ctrl-C ends it at once, and so does the end of
// the process that started it.
void die_with_parent();

}  // namespace weig::cli::bench
