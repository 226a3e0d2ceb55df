// SPDX-License-Identifier: Apache-2.0
// What a stretch of this process's addresses takes of memory, by its page table.
#pragma once

#include <cstdint>
#include <vector>

#include "core/bytes.h"
#include "os/residency.h"

namespace weig::os {

struct PageUse {
  std::uint64_t present = 0;  // bytes
  std::uint64_t shared = 0;   // present, and mapped by others as well
  std::uint64_t own = 0;      // present, and private to this process
};
// Zeros where the kernel does not tell.
PageUse page_use(Bytes range);

// The parts of a range, in bytes from its start and in order, that are locked (mlock).
// Nothing where the kernel does not tell.
std::vector<ByteRange> locked_ranges(Bytes range);

}  // namespace weig::os
