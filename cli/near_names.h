// SPDX-License-Identifier: Apache-2.0
// Names that someone who mistyped may have meant.
#pragma once

#include <weig/model_set.h>

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace weig::cli {

// Insertions, deletions, changes and swaps of neighbours that turn one into the other;
// nothing where they are more than `limit`.
std::optional<std::size_t> edit_distance(std::string_view a, std::string_view b,
                                         std::size_t limit);

// Up to three, nearest first; those that differ in upper and lower case only, then
// those that end alike, then by edit distance.
std::vector<std::string> near_names(const ModelSet& model, std::string_view name);

// The nearest of a few words, if any is near.
std::optional<std::string> nearest(const std::vector<std::string>& words,
                                   std::string_view word);

}  // namespace weig::cli
