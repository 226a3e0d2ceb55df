// SPDX-License-Identifier: Apache-2.0
// Globs as fnmatch() has them, on UTF-8 and in bounded time: * ? [a-z] [!a-z] and \ .
#pragma once

#include <string_view>

namespace weig::cli {

// Whether all of `text` matches. A '[' that nothing closes stands for itself.
bool glob_matches(std::string_view pattern, std::string_view text);

}  // namespace weig::cli
