// SPDX-License-Identifier: Apache-2.0
// safetensors: u64 N, N bytes of JSON, data. Reading its header, and writing one.
//
// Accepted and refused: docs/safetensors.md.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

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

// The format's name of an element type, or nothing.
std::optional<std::string_view> safetensors_dtype_name(Dtype dtype) noexcept;

// The reference's order of tensors: widest types first, by name within a type. Smaller
// comes first.
int safetensors_type_order(Dtype dtype) noexcept;

// Builds a header, 8 bytes of length included, tensor by tensor in the order of data.
class SafetensorsHeader {
 public:
  // `metadata`: the text of one JSON object of strings, or nothing.
  explicit SafetensorsHeader(std::optional<std::string_view> metadata);
  // Requires a dtype that has a name.
  void add(std::string_view name, Dtype dtype, std::span<const std::uint64_t> shape,
           std::uint64_t byte_count);
  // Bytes so far, the length's own included.
  std::uint64_t size() const noexcept { return text_.size(); }
  // Ends the JSON; spaces fill up to `total_bytes`, or to a multiple of 8 if that is 0
  // or less than needed.
  std::string finish(std::uint64_t total_bytes = 0);

 private:
  std::string text_;
  std::uint64_t data_end_ = 0;
  bool first_ = true;
};

}  // namespace weig
