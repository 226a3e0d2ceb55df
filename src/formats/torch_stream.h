// SPDX-License-Identifier: Apache-2.0
// PyTorch's checkpoints of before version 1.6: a stream of pickles with the storages
// behind. Pure.
#pragma once

#include "formats/input.h"
#include "formats/manifest.h"
#include "formats/torch_options.h"

namespace weig {

Result<Manifest> read_torch_stream(const Input& input, const TorchOptions& options);

}  // namespace weig
