// SPDX-License-Identifier: Apache-2.0
// What PyTorch's checkpoints of before version 1.6 begin with: a number, pickled.
#pragma once

#include <string_view>

#include "core/bytes.h"

namespace weig {

// The number as protocols 1 and later spell it, and as protocol 0 does.
inline constexpr std::string_view kTorchMark =
    "\x6C\xFC\x9C\x46\xF9\x20\x6A\xA8\x50\x19";
inline constexpr std::string_view kTorchMarkInDecimal = "119547037146038801333356";

// Whether a file that begins so is one.
bool is_torch_stream(Bytes first);

}  // namespace weig
