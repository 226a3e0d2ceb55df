// SPDX-License-Identifier: Apache-2.0
// libFuzzer's entry points, for the target that this is compiled for.
#include <cstdlib>
#include <cstring>

#include "target.h"

// As libFuzzer has them.
extern "C" {
int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);
std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size,
                             std::size_t max_size);
std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size,
                                    std::size_t max_size, unsigned seed);
}

namespace {

const weig::fuzz::Target& target() {
  static const weig::fuzz::Target* found = weig::fuzz::find_target(WEIG_FUZZ_TARGET);
  return *found;
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  target().run(std::as_bytes(std::span(data, size)));
  return 0;
}

std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size,
                                    std::size_t max_size, unsigned seed) {
  const auto bytes = std::as_bytes(std::span(data, size));
  weig::fuzz::Input input(bytes.begin(), bytes.end());
  weig::fuzz::Random random(seed);
  target().mutate(input, max_size, random, LLVMFuzzerMutate);
  const std::size_t left = input.size() < max_size ? input.size() : max_size;
  if (left > 0) std::memcpy(data, input.data(), left);
  return left;
}
