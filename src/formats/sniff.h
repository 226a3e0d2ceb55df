// SPDX-License-Identifier: Apache-2.0
// What a file is, by its first bytes: ours, one we read, or something that people take
// for weights by mistake.
#pragma once

#include <cstdint>
#include <optional>

#include <weig/error.h>

#include "core/bytes.h"

namespace weig {

// How many bytes sniffing wants to see (or the whole file, if that is shorter).
inline constexpr std::size_t kSniffBytes = 512;

enum class Content {
  weig,
  weig_big_endian,
  safetensors,
  gguf,
  onnx,
  torch_stream,
  zip,
  npy
};

// What the file is, or the error that says what it looks like and what to do about it.
Result<Content> sniff(Bytes first, std::uint64_t file_size);

}  // namespace weig
