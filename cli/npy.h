// SPDX-License-Identifier: Apache-2.0
// The .npy format, version 1.0: what NumPy calls each type, and the header.
#pragma once

#include <weig/dtype.h>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace weig::cli {

// NumPy's name for the little-endian type ("<f4"); empty where NumPy has no such type.
std::string_view npy_type(Dtype dtype) noexcept;

// Everything before the data, a multiple of 64 bytes.
std::string npy_header(std::string_view type, std::span<const std::uint64_t> shape);

}  // namespace weig::cli
