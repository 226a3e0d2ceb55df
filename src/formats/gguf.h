// SPDX-License-Identifier: Apache-2.0
// GGUF, versions 2 and 3: typed keys and values, tensors, data. Reading its header.
//
// Accepted and refused: docs/gguf.md.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include <weig/convert.h>

#include "formats/input.h"
#include "formats/manifest.h"

namespace weig {

inline constexpr std::string_view kGgufMark = "GGUF";
inline constexpr std::uint64_t kGgufAlignment = 32;  // where no key says otherwise
inline constexpr std::string_view kGgufAlignmentKey = "general.alignment";
inline constexpr std::uint32_t kGgufMaxRank = 4;

struct GgufOptions {
  Strictness strictness = Strictness::strict;
  std::uint64_t max_header_bytes = std::uint64_t{1} << 30;
  std::uint64_t max_metadata_bytes = std::uint64_t{256} << 20;  // as text
};

// Of a file that is one of several: what the keys split.no, split.count and
// split.tensors.count say.
struct GgufSplit {
  std::uint64_t number = 0;  // from 0
  std::uint64_t count = 0;
  std::uint64_t tensors = 0;  // of all files
};

struct GgufHeader {
  Manifest manifest;  // entries in order of their data; metadata is there
  std::uint64_t alignment = kGgufAlignment;
  std::optional<GgufSplit> split;
};

// Reads nothing but the header, which ends where the manifest's data begins.
Result<GgufHeader> read_gguf(const Input& input, const GgufOptions& options = {});

// Whether all that lies between tensors and behind them is zeros, so that header and
// tensors are the whole file.
Result<bool> has_zero_padding(const Input& input, const Manifest& manifest);

// GGML's number of an element type, and the type of a number that is known.
std::optional<std::uint32_t> ggml_type_number(Dtype dtype) noexcept;
std::optional<Dtype> ggml_type_numbered(std::uint32_t number) noexcept;

}  // namespace weig
