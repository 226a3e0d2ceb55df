// SPDX-License-Identifier: Apache-2.0
// What all peers' tensors are touched with: the same code, on as many threads, as in
// the programs in C++. A library, for ctypes.
#include "loaded.h"

extern "C" void touch_all(const std::byte* const* data, const std::size_t* sizes,
                          std::size_t count, unsigned threads);

void touch_all(const std::byte* const* data, const std::size_t* sizes,
               std::size_t count, unsigned threads) {
  std::vector<std::span<const std::byte>> ranges;
  ranges.reserve(count);
  for (std::size_t i = 0; i < count; ++i) ranges.emplace_back(data[i], sizes[i]);
  bench::touch_pages(ranges, threads);
}
