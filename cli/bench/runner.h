// SPDX-License-Identifier: Apache-2.0
// The runner: all ways in all states, round by round, each in a fresh process.
#pragma once

#include <weig/error.h>
#include <weig/model.h>

#include <string>
#include <vector>

#include "bench/measurement.h"
#include "bench/preparation.h"

namespace weig::cli::bench {

struct Settings {
  std::string file;
  std::vector<Way> ways;  // without the raw ones, which are always measured
  std::vector<State> states{State::cold, State::warm};
  unsigned rounds = 5;
  unsigned threads = 0;  // 0: as many as suit
  bool with_fresh = false;
  OpenOptions open;
};

// What is going to be measured. Fails as Model::open() does.
Result<Subject> subject_of(const Settings& settings);

// A way that is not to be run now, and why; or what is to be told of it.
struct Fit {
  bool refused = false;
  std::string reason;  // empty where all is well
  std::uint64_t need = 0;
};
// Pure.
Fit fit_of(Way way, State state, const Subject& subject, const MemoryLimit& limit);

// Measures. A run that fails is a sample that says so. Fails with cancelled when
// someone says stop, and where nothing can be measured at all.
Result<Report> measure(const Settings& settings, const Subject& subject,
                       Preparation& prepare);

}  // namespace weig::cli::bench
