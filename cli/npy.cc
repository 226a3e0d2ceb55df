// SPDX-License-Identifier: Apache-2.0
#include "npy.h"

#include <fmt/format.h>

namespace weig::cli {

std::string_view npy_type(Dtype dtype) noexcept {
  switch (dtype) {
    case Dtype::f16:
      return "<f2";
    case Dtype::f32:
      return "<f4";
    case Dtype::f64:
      return "<f8";
    case Dtype::i8:
      return "|i1";
    case Dtype::i16:
      return "<i2";
    case Dtype::i32:
      return "<i4";
    case Dtype::i64:
      return "<i8";
    case Dtype::u8:
      return "|u1";
    case Dtype::u16:
      return "<u2";
    case Dtype::u32:
      return "<u4";
    case Dtype::u64:
      return "<u8";
    case Dtype::boolean:
      return "|b1";
    case Dtype::complex64:
      return "<c8";
    case Dtype::complex128:
      return "<c16";
    default:
      return {};
  }
}

std::string npy_header(std::string_view type, std::span<const std::uint64_t> shape) {
  constexpr std::size_t kPrefix = 10;  // magic, version, length
  constexpr std::size_t kAlignment = 64;
  std::string sizes;
  for (const std::uint64_t size : shape)
    fmt::format_to(std::back_inserter(sizes), "{}, ", size);
  // A Python tuple of one needs its comma; longer ones are written without the last.
  if (shape.size() > 1) sizes.resize(sizes.size() - 2);
  if (shape.size() == 1) sizes.pop_back();
  std::string text = fmt::format(
      "{{'descr': '{}', 'fortran_order': False, 'shape': ({}), }}", type, sizes);
  while ((kPrefix + text.size() + 1) % kAlignment != 0) text += ' ';
  text += '\n';
  // Sixty-four dimensions of twenty digits fit the two bytes of version 1.0 by far.
  const auto length = static_cast<unsigned>(text.size());
  std::string header = "\x93NUMPY";
  header += '\x01';
  header += '\0';
  header += static_cast<char>(length & 0xFF);
  header += static_cast<char>(length >> 8);
  return header += text;
}

}  // namespace weig::cli
