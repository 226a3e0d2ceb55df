// SPDX-License-Identifier: Apache-2.0
// Making the source section, which keeps a foreign file's header.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include <weig/writer.h>

namespace weig {

// More spaces at a header's end than this are kept as they are, not by their number.
inline constexpr std::uint64_t kMostSourceSpaces = std::uint64_t{64} << 10;

// The section for a file converted from safetensors: `header` is that file's header,
// its length included; `header_specs` are its tensors, as indices into `specs`, in
// order of their data. Chooses the shorter encoding if it gives the same bytes.
std::vector<std::byte> make_source_section(std::string_view header,
                                           std::uint64_t file_size,
                                           std::span<const std::uint32_t> header_specs,
                                           std::span<const TensorSpec> specs,
                                           const Plan& plan,
                                           std::optional<std::string_view> metadata);

// The same for a GGUF file: `header` is all before its data.
std::vector<std::byte> make_gguf_source_section(std::string_view header,
                                                std::uint64_t file_size);

}  // namespace weig
