// SPDX-License-Identifier: Apache-2.0
// Globs as fnmatch() has them, on UTF-8 and in bounded time: * ? [a-z] [!a-z] and \ .
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>
#include <vector>

namespace weig::cli {

// Whether all of `text` matches. A '[' that nothing closes stands for itself.
bool glob_matches(std::string_view pattern, std::string_view text);

// How many '*' of the pattern stand for text.
std::size_t glob_stars(std::string_view pattern);

// What each '*' of the pattern stands for, in order, or nothing where it does not
// match: the last one takes what is left, those before as little as may be.
std::optional<std::vector<std::string_view>> glob_captures(std::string_view pattern,
                                                           std::string_view text);

}  // namespace weig::cli
