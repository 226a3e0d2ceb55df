// SPDX-License-Identifier: Apache-2.0
// SetId: what the id of a sharded set is made of (docs/format.md, kind 7): name, NUL
// and digest of every tensor, in the order of the members and of their tables.
#pragma once

#include <array>
#include <string_view>

#include "core/bytes.h"
#include "core/digest.h"

namespace weig {

class SetId {
 public:
  void add(std::string_view name, const Digest& digest) {
    std::array<std::byte, 1 + sizeof(Digest)> end{};
    store(end.data() + 1, digest.low);
    store(end.data() + 9, digest.high);
    hasher_.update(bytes_of(name));
    hasher_.update(end);
  }
  Digest digest() const noexcept { return hasher_.digest(); }

 private:
  Hasher hasher_;
};

}  // namespace weig
