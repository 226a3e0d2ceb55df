// SPDX-License-Identifier: Apache-2.0
// Which pages are in memory, and which are mapped huge.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/bytes.h"
#include "os/os.h"

namespace weig::os {

// Bytes of a file that are in the page cache; nothing where the kernel does not tell.
std::optional<std::uint64_t> resident_bytes(const InputFile& file);

// Bytes of [begin, end) that are mapped in huge pages of any kind; nothing where the
// kernel does not tell.
std::optional<std::uint64_t> huge_mapped_bytes(Bytes range);

// The ranges of a mapping, in bytes from its start, that huge pages map. Nothing where
// the kernel does not tell them apart (before Linux 6.7).
struct ByteRange {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};
std::optional<std::vector<ByteRange>> huge_mapped_ranges(Bytes range);

// Page faults of the calling process until now.
struct Faults {
  std::uint64_t major = 0;
  std::uint64_t minor = 0;
};
Faults faults() noexcept;
// Those of the calling thread that waited for a disk.
std::uint64_t own_major_faults() noexcept;

}  // namespace weig::os
