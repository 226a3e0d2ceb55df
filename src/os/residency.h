// SPDX-License-Identifier: Apache-2.0
// Which pages are in memory, which are mapped huge, and mapping those that are there.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/bytes.h"
#include "os/os.h"

namespace weig::os {

std::uint64_t page_size() noexcept;

// Bytes of a file that are in the page cache; nothing where the kernel does not tell.
std::optional<std::uint64_t> resident_bytes(const InputFile& file);
// At how many places of a file, spread over it, pages were looked for and all found. 0
// where one is missing, and where counting all takes no time: short files, and those
// in large folios.
unsigned places_all_resident(const InputFile& file);
// The same as the first, sooner, where a mapping of all of it has most of its pages
// mapped.
std::optional<std::uint64_t> resident_bytes(const InputFile& file,
                                            const Mapping& mapping);

// Which bytes of a file are in the page cache, page by page, in order.
std::optional<std::vector<FileRange>> resident_ranges(const InputFile& file);

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
Faults faults_of_this_thread() noexcept;

// Maps what is in memory in small folios, in half the time that populating takes: of
// each 64 KiB it reads a byte, since a fault maps the pages around it as well (as many
// by the kernel's default, fault_around_bytes). The kernel does the reading, so that a
// page that is gone is no signal. For one thread.
class FaultAround {
 public:
  FaultAround() noexcept;
  // Whether all pages of a range in a mapping are mapped then. False also where the
  // kernel cannot tell (before Linux 6.7).
  bool map(Bytes range) const noexcept;

 private:
  Descriptor sink_;
  Descriptor pagemap_;
};

}  // namespace weig::os
