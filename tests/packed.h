// SPDX-License-Identifier: Apache-2.0
// Bytes to pack, and packed ones.
#pragma once

#include <zlib.h>

#include <algorithm>
#include <cstddef>
#include <new>
#include <vector>

#include "core/bytes.h"

namespace weig::test {

inline std::vector<std::byte> count_up(std::size_t bytes) {
  std::vector<std::byte> out(bytes);
  for (std::size_t i = 0; i < bytes; ++i) out[i] = static_cast<std::byte>(i * 37 >> 3);
  return out;
}

inline std::vector<std::byte> deflated(Bytes bytes) {
  z_stream stream{};
  if (deflateInit2(&stream, 6, Z_DEFLATED, -15, 8, Z_DEFAULT_STRATEGY) != Z_OK)
    throw std::bad_alloc();
  std::vector<std::byte> out(deflateBound(&stream, bytes.size()));
  std::vector<std::byte> in(bytes.begin(), bytes.end());
  stream.next_in = reinterpret_cast<Bytef*>(in.data());
  stream.avail_in = static_cast<uInt>(in.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

}  // namespace weig::test
