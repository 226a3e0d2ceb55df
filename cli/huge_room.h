// SPDX-License-Identifier: Apache-2.0
// Making the kernel put free memory together into pieces of 2 MiB.
#pragma once

#include <cstdint>

namespace weig::cli {

// Takes so much memory in huge pages, for which the kernel moves and drops others, and
// gives it back. What is read next finds pieces of 2 MiB. Ends early on a signal that
// asks the process to stop.
void make_huge_room(std::uint64_t bytes);

}  // namespace weig::cli
