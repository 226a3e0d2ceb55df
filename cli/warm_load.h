// SPDX-License-Identifier: Apache-2.0
// Bringing a file, or parts of it, into memory, on request in 2 MiB pages whatever it
// was in before.
#pragma once

#include <weig/model.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "warm_plan.h"

namespace weig::cli {

enum class FolioWish { leave, huge };

struct WarmOptions {
  std::string file;
  FolioWish folios = FolioWish::leave;
  unsigned threads = 0;  // 0: one a CPU
};

struct Warmed {
  WarmPlan plan;
  LoadReport load;
  bool was_there = false;             // nothing had to be read
  std::uint64_t dropped = 0;          // bytes in small folios that were let go
  std::uint64_t stayed = 0;           // of what was to be dropped
  std::optional<double> huge_before;  // share of the ranges in 2 MiB pages
  std::optional<double> huge_after;
  std::optional<std::uint64_t> locked;
  std::vector<std::string> warnings;  // those that have been told
};

// Loads the plan's ranges, and fills the rest of `warmed`. Fails as Model::open does,
// and with cancelled after a signal that asks the process to stop.
Result<Model> load_into_memory(const WarmOptions& options, Warmed& warmed);

// Whether more came in small pages than the two ends of a file.
bool has_small_pages(const LoadReport& load);

}  // namespace weig::cli
