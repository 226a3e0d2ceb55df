// SPDX-License-Identifier: Apache-2.0
// What `weig warm` is going to do: which bytes, how many of them memory can hold, and
// which small folios stand in the way of huge ones.
#pragma once

#include <weig/file_range.h>
#include <weig/host.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "strip.h"

namespace weig::cli {

struct WarmPlan {
  std::vector<FileRange> wanted;  // in order
  std::vector<FileRange> ranges;  // of these, what memory can hold
  std::vector<std::string>
      left_out;  // names of the parts that are not wholly in `ranges`
  std::uint64_t bytes_left_out = 0;
  MemoryLimit memory;
};

// Fails where the file cannot be opened, and with not_found for an unknown group.
Result<WarmPlan> warm_plan(const std::string& file,
                           const std::vector<std::string>& groups);

// The pieces of 2 MiB in `ranges` that are in memory as small folios, but not those
// that are so whatever is done: the first, which opening a file reads page by page, and
// a last one that is not whole.
std::vector<FileRange> small_pieces(const Residency& residency,
                                    const std::vector<FileRange>& ranges);

}  // namespace weig::cli
