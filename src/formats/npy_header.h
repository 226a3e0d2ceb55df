// SPDX-License-Identifier: Apache-2.0
// npy_header: what a .npy file says of its one array before the elements, read and
// written. The header's text is a Python literal, of which only what arrays need is
// understood; nothing is evaluated. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <weig/dtype.h>
#include <weig/error.h>

#include "core/bytes.h"

namespace weig {

inline constexpr std::string_view kNpyMark = "\x93NUMPY";
// How many bytes tell how long the header is, in every version.
inline constexpr std::uint64_t kNpyFrontBytes = 12;
// As much as version 1 can say; NumPy reads no more than 10,000 bytes.
inline constexpr std::uint64_t kMaxNpyTextBytes = 65535;

enum class ElementOrder : std::uint8_t { row_major, column_major };

struct NpyHeader {
  Dtype dtype{};
  bool is_big_endian = false;
  ElementOrder order = ElementOrder::row_major;
  std::vector<std::uint64_t> shape;
  std::uint64_t bytes = 0;  // of the elements
};

// Where the elements begin. `front`: the first bytes of the file, kNpyFrontBytes or all
// of a shorter one. Fails with corrupt, unsupported (another version) and limit.
Result<std::uint64_t> npy_data_begin(Bytes front);

// All bytes before the elements. Fails with corrupt, and with unsupported for element
// types that are no numbers.
Result<NpyHeader> read_npy_header(Bytes header);

// How NumPy calls a little-endian element type, "<f4"; nothing for those that it lacks.
std::optional<std::string_view> npy_dtype_name(Dtype dtype) noexcept;

// All that comes before the elements of a row-major array, a multiple of 64 bytes long,
// as NumPy writes it. NumPy has the type.
std::string make_npy_header(Dtype dtype, std::span<const std::uint64_t> shape);

}  // namespace weig
