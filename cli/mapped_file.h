// SPDX-License-Identifier: Apache-2.0
// Which file an address belongs to. For the handler of a signal: takes no memory, and
// calls open, read and close alone.
#pragma once

#include <span>
#include <string_view>

namespace weig::cli {

// The name of the file that is mapped at `address`, as /proc/self/maps has it, in
// `room`, cut if that is too small. What is not plain ASCII is printed as \xNN. Empty
// if nothing is known.
std::string_view mapped_file_at(const void* address, std::span<char> room) noexcept;

}  // namespace weig::cli
