// SPDX-License-Identifier: Apache-2.0
// Writing the header of a safetensors file, and the format's names of element types.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include <weig/dtype.h>

namespace weig {

// The JSON's length comes first.
inline constexpr std::uint64_t kSafetensorsLengthBytes = 8;

// The format's name of an element type, or nothing; and back.
std::optional<std::string_view> safetensors_dtype_name(Dtype dtype) noexcept;
std::optional<Dtype> safetensors_dtype_named(std::string_view name) noexcept;

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
