// SPDX-License-Identifier: Apache-2.0
// safetensors: u64 N, N bytes of JSON, data. Reading its header.
//
// Accepted and refused: docs/safetensors.md.
#pragma once

#include <cstdint>

#include <weig/convert.h>

#include "core/bytes.h"
#include "formats/manifest.h"

namespace weig {

// Readers give the JSON this much room behind its end: simdjson looks ahead.
inline constexpr std::size_t kJsonPadding = 64;

struct SafetensorsOptions {
  Strictness strictness = Strictness::strict;
  std::uint64_t max_header_bytes = std::uint64_t{1} << 30;
};

// The length of the JSON, from the first 8 bytes (or as many as the file has), checked
// against the file's size and the limit.
Result<std::uint64_t> safetensors_json_bytes(Bytes first, std::uint64_t file_size,
                                             const SafetensorsOptions& options);

// The tensors of a file whose JSON is the first `json_bytes` of `padded`, which has
// kJsonPadding more. Entries come in order of their data.
Result<Manifest> read_safetensors(Bytes padded, std::uint64_t json_bytes,
                                  std::uint64_t file_size,
                                  const SafetensorsOptions& options);

}  // namespace weig
