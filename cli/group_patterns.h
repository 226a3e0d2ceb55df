// SPDX-License-Identifier: Apache-2.0
// Groups that a command's user has named by patterns.
#pragma once

#include <weig/parts.h>

#include <string>
#include <vector>

namespace weig::cli {

// The ranges of the groups whose names match one of `patterns` (as `weig ls` has them),
// in order. Fails with not_found for a pattern that matches none.
Result<std::vector<FileRange>> group_ranges(const std::vector<FilePart>& parts,
                                            const std::vector<std::string>& patterns);

}  // namespace weig::cli
