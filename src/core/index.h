// SPDX-License-Identifier: Apache-2.0
// The name index, section 1: from a name to its ordinal in a few loads; and the linear
// pass that proves it along with every record (rules R, F3, F4).
#pragma once

#include <string_view>
#include <vector>

#include <weig/view.h>

#include "core/bytes.h"
#include "core/record.h"

namespace weig {

std::uint64_t name_hash(std::string_view name, std::uint64_t seed) noexcept;

// The slots that a hash may lead to, in order: ordinals whose fingerprint fits.
// Never reads outside the slots, whatever they hold.
class Probe {
 public:
  Probe(const detail::Claim& claim, std::uint64_t hash) noexcept
      : slots_(claim.core + claim.index_offset + sizeof(disk::IndexHead)),
        mask_(claim.index_slots - 1),
        at_(hash & mask_),
        fingerprint_(static_cast<std::uint32_t>(hash >> 32)) {}

  void prefetch() const noexcept {
    __builtin_prefetch(slots_ + at_ * sizeof(disk::IndexSlot));
  }

  // The next candidate's ordinal, or kNone where the probe ends. An ordinal may be out
  // of range in a damaged file.
  std::uint32_t next() noexcept {
    while (step_ < disk::kMaxProbe) {
      const std::byte* slot = slots_ + at_ * sizeof(disk::IndexSlot);
      const auto fingerprint = load<std::uint32_t>(slot);
      const auto ordinal = load<std::uint32_t>(slot + 4);
      if (fingerprint == 0 && ordinal == 0) return disk::kNone;
      at_ = (at_ + 1) & mask_;
      ++step_;
      if (fingerprint == fingerprint_ && ordinal != 0) return ordinal - 1;
    }
    return disk::kNone;
  }

 private:
  const std::byte* slots_;
  std::uint64_t mask_;
  std::uint64_t at_;
  std::uint32_t fingerprint_;
  std::uint32_t step_ = 0;
};

// Records [first, last) of a sealed file, in one linear pass without allocation:
// R1-R10; F3, the order of the data, also against the record before `first`; F4, every
// name, looked up, leads to its own record before any equal name. What holds of
// adjoining ranges holds of both together; `names` adds up their names. Requires a
// proven index head if there are tensors.
Status check_records(const detail::Claim& claim, UnknownDtypes unknown_dtypes,
                     std::uint64_t first, std::uint64_t last, NameBytes& names);

// The bytes of the index section for names in table order: smallest `slots`, smallest
// seed that keeps all within kMaxProbe slots. Fails with invalid_argument where two
// names are equal, with limit where no seed will do.
Result<std::vector<std::byte>> build_index(std::span<const std::string_view> names);

}  // namespace weig
