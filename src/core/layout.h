// SPDX-License-Identifier: Apache-2.0
// The front of a file, [0, data_offset), made from a Plan; and its seal. No I/O.
#pragma once

#include <array>
#include <vector>

#include <weig/writer.h>

#include "core/bytes.h"

namespace weig {

// A(size): the alignment that a piece of `size` bytes deserves (docs/format.md).
std::uint64_t layout_alignment(std::uint64_t size) noexcept;

// The length of the group's name at the start of a tensor's name; 0 if it is loose.
std::size_t group_name_length(std::string_view name) noexcept;

struct Front {
  std::vector<std::byte> bytes;  // [0, data_offset); digests still missing
  std::uint64_t data_offset = 0;
  std::uint64_t file_size = 0;
  std::uint64_t digests_offset = 0;
};

// Fails with invalid_argument (sections out of order, of a kind that is not the
// caller's) and limit (the file would reach 2^63 bytes).
Result<Front> build_front(std::span<const TensorSpec> specs, const Plan& plan,
                          std::span<const SectionBytes> sections);

// Fills in the tensors' digests, by ordinal, and all that depends on them; returns the
// trailer.
std::array<std::byte, sizeof(disk::Trailer)> seal(Front& front,
                                                  std::span<const Digest> digests);

}  // namespace weig
