// SPDX-License-Identifier: Apache-2.0
// What readers of PyTorch's checkpoints are told: docs/pytorch.md says what is accepted
// and refused.
#pragma once

#include <cstdint>
#include <string>

#include <weig/convert.h>

#include "formats/pickle.h"

namespace weig {

struct TorchOptions {
  Strictness strictness = Strictness::strict;
  // A pickle may be a sixteenth of it, and what that describes an eighth.
  std::uint64_t max_header_bytes = std::uint64_t{1} << 30;
  // A tensor may be so many times its storage, and all so many times all storages.
  std::uint64_t max_expansion = 64;
  // The path of the only part that is wanted; all if empty.
  std::string select;

  PickleOptions for_pickles() const {
    return {.max_bytes = max_header_bytes / 16,
            .max_memory_bytes = max_header_bytes / 8};
  }
};

}  // namespace weig
