// SPDX-License-Identifier: Apache-2.0
// Mutations of GGUF files: numbers where the format has them, and whole runs of bytes.
#include <algorithm>
#include <array>

#include "mutate.h"

namespace weig::fuzz {
namespace {

constexpr std::size_t kHeaderBytes = 24;

constexpr auto kEdges = std::to_array<std::uint64_t>({0,
                                                      1,
                                                      2,
                                                      3,
                                                      4,
                                                      8,
                                                      9,
                                                      12,
                                                      31,
                                                      32,
                                                      33,
                                                      64,
                                                      255,
                                                      256,
                                                      1 << 16,
                                                      std::uint64_t{1} << 32,
                                                      std::uint64_t{1} << 40,
                                                      std::uint64_t{1} << 63,
                                                      UINT64_MAX - 31,
                                                      UINT64_MAX});

// A number of 4 or 8 bytes, in either order: near what is there, or an edge.
void change_number(Input& file, Random& random) {
  const std::size_t width = random.one_in(2) ? 4 : 8;
  if (file.size() < width) return;
  const std::uint64_t at = random.below(file.size() - width + 1);
  std::array<std::byte, 8> number{};
  const std::uint64_t value =
      random.one_in(2) ? random.below(48) : random.pick(std::span(kEdges));
  const bool is_big = file.size() > 4 && file[4] == std::byte{0};
  store(number.data(), is_big ? byteswapped(value) >> (64 - 8 * width) : value);
  std::copy_n(number.begin(), width, file.begin() + static_cast<std::ptrdiff_t>(at));
}

// A run of bytes once more, such as a key or a tensor, and the count that it is of.
void repeat_run(Input& file, std::size_t max_size, Random& random) {
  if (file.size() <= kHeaderBytes) return;
  const std::uint64_t from = kHeaderBytes + random.below(file.size() - kHeaderBytes);
  const std::uint64_t count =
      1 + random.below(std::min<std::uint64_t>(file.size() - from, 64));
  if (file.size() + count > max_size) return;
  const auto begin = file.begin() + static_cast<std::ptrdiff_t>(from);
  const Input run(begin, begin + static_cast<std::ptrdiff_t>(count));
  const std::uint64_t to = kHeaderBytes + random.below(file.size() - kHeaderBytes);
  file.insert(file.begin() + static_cast<std::ptrdiff_t>(to), run.begin(), run.end());
  const std::size_t counter = random.one_in(2) ? 8 : 16;
  const auto old = load<std::uint64_t>(file.data() + counter);
  store(file.data() + counter, old + 1);
}

}  // namespace

void mutate_gguf(Input& input, std::size_t max_size, Random& random, RawMutation raw) {
  switch (random.below(4)) {
    case 0:
      return mutate_raw(input, max_size, random, raw);
    case 1:
      return repeat_run(input, max_size, random);
    case 2:  // data that fits a grown or shrunk tensor
      input.resize(std::min(max_size, input.size() + random.below(65)));
      return;
    default:
      for (std::uint64_t n = 1 + random.below(3); n > 0; --n)
        change_number(input, random);
  }
}

}  // namespace weig::fuzz
