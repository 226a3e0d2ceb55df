// SPDX-License-Identifier: Apache-2.0
// The system calls that make an output file, put before the system's own: counted,
// made to fail, to write less than they were given, or to be the last that the process
// makes. Linked into tests, or preloaded into the command; the latter reads what to do
// from WEIG_OUTPUT_CALLS, as in "at=3 error=28 then=always fallocate=95 log=FILE".
#pragma once

#include <string>

namespace weig::test {

enum class Fate {
  fail,            // that call fails
  fail_for_good,   // and so do all after it
  write_half,      // if it writes: only half of what it was given
  half_then_fail,  // the same, and the call after it fails
  die,             // the process is killed before it
  die_half_way     // if it writes: after half of what it was given
};

struct OutputCalls {
  int at = 0;  // which call is meant, from 1; 0: none
  int error = 0;
  Fate fate = Fate::fail;
  // Not 0: what a file system that lacks something answers always, uncounted.
  int fallocate_error = 0;
  int no_replace_error = 0;  // to a rename that must not replace
  int folder_error = 0;      // to opening a folder
  // A line for each call that has succeeded: what tests/python/power_cut.py reads.
  std::string log = {};
};

// Counts from 0 again.
void interfere(const OutputCalls& calls);
// Calls since then, and the name of the last.
int output_calls_made();
const char* last_output_call();

}  // namespace weig::test
