// SPDX-License-Identifier: Apache-2.0
// Whose a file is, which decides what the kernel tells of it.
#pragma once

#include <string>

namespace weig::cli {

// Why the kernel does not tell how much of a file is in memory, as a sentence.
std::string why_unknown(const std::string& path);

}  // namespace weig::cli
