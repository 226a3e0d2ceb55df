// SPDX-License-Identifier: Apache-2.0
// PyTorch's checkpoints of before version 1.6: a stream of pickles with the storages
// behind. Pure.
#pragma once

#include "core/bytes.h"
#include "formats/input.h"
#include "formats/manifest.h"
#include "formats/torch_options.h"

namespace weig {

// Whether a file that begins so is one.
bool is_torch_stream(Bytes first);

Result<Manifest> read_torch_stream(const Input& input, const TorchOptions& options);

}  // namespace weig
