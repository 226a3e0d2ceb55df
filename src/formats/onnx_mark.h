// SPDX-License-Identifier: Apache-2.0
// Whether a file looks like an ONNX model, which has no mark of its own.
#pragma once

#include <cstdint>

#include "core/bytes.h"

namespace weig {

// By the fields that begin it: the version of the format first, as every writer has it,
// then fields of a model, up to the graph or as far as `first` reaches. A file that was
// cut is one still, if it names what made it.
bool looks_like_onnx(Bytes first, std::uint64_t file_size) noexcept;

}  // namespace weig
