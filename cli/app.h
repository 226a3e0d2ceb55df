// SPDX-License-Identifier: Apache-2.0
// The whole command line: parses it, runs the sub-command, returns the exit status.
#pragma once

namespace weig::cli {

int run(int argc, const char* const* argv);

}  // namespace weig::cli
