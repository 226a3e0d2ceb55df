// SPDX-License-Identifier: Apache-2.0
// partition: which tensors of a plan go into which member of a set. Pure.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <weig/writer.h>

namespace weig {

// Ordinals [first, first + count) of a plan.
struct OrdinalRun {
  std::uint32_t first = 0;
  std::uint32_t count = 0;
  std::uint32_t end() const noexcept { return first + count; }
};

struct PartitionRules {
  // No member's file becomes larger, but for one that holds a single tensor (with its
  // aliases, and what must be together with it).
  std::uint64_t file_bytes = 0;
  // Of sections that the first member has alone.
  std::uint64_t first_section_bytes = 0;
  // Of sections that grow with a member's tensors, beside those of every file.
  std::uint64_t section_bytes_a_tensor = 0;
  // What must not be divided, such as a tensor and its scales; in any order.
  std::span<const OrdinalRun> together = {};
};

// The members of a set, in order: every tensor is in one, each has at least one (of a
// plan without tensors, there is one member without). A group is divided only where it
// is too large for a member of its own. The layout of a member starts anew, so that its
// file is the one that Plan::make() makes of its tensors.
std::vector<OrdinalRun> partition(std::span<const TensorSpec> specs, const Plan& plan,
                                  const PartitionRules& rules);

}  // namespace weig
