// SPDX-License-Identifier: Apache-2.0
// Text as one word of a command for a shell.
#pragma once

#include <string>
#include <string_view>

namespace weig::cli {

// Quoted where it has to be; a path that begins with a dash gets "./" before it. What
// could do something to a terminal is written as $'\x1b' has it, which bash, zsh and
// busybox read.
std::string shell_word(std::string_view text);

}  // namespace weig::cli
