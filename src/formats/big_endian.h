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

// Bytes that several tensors share are elements of one width: of two widths they have
// no one right order. Entries are in order of their data. Fails with unsupported.
Status check_swap_units(const Manifest& manifest);

}  // namespace weig
