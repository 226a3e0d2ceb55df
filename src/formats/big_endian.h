// SPDX-License-Identifier: Apache-2.0
// A big-endian file: a minimal WEIG file whose integers and elements are all swapped
// (docs/format.md, "Byte order").
#pragma once

#include "core/bytes.h"
#include "formats/manifest.h"

namespace weig {

// The tensors of a big-endian file. `front` holds [0, data_offset) at least. Fails as a
// minimal file does, and with unsupported for flags and GGML blocks.
Result<Manifest> read_big_endian(Bytes front, std::uint64_t file_size,
                                 const ViewOptions& options);

}  // namespace weig
