// SPDX-License-Identifier: Apache-2.0
// Changing the byte order of many elements at once.
#pragma once

#include "core/bytes.h"

namespace weig {

// Reverses the bytes of each element of `unit` bytes: 1 (nothing to do), 2, 4 or 8. The
// length must be a multiple of it; any alignment will do.
void swap_in_place(MutableBytes bytes, std::uint32_t unit) noexcept;

}  // namespace weig
