// SPDX-License-Identifier: Apache-2.0
#include "target.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "mutate.h"
#include "seeds.h"

namespace weig::fuzz {
namespace {

constexpr auto kTargets = std::to_array<Target>({
    {"view", run_view, mutate_weig, weig_seeds},
    {"lazy", run_lazy, mutate_weig, weig_seeds},
    {"safetensors", run_safetensors, mutate_safetensors, safetensors_seeds},
    {"gguf", run_gguf, mutate_gguf, gguf_seeds},
    {"index", run_index, mutate_json, index_seeds},
    {"big_endian", run_big_endian, mutate_weig, big_endian_seeds},
    {"metadata", run_metadata, mutate_json, metadata_seeds},
    {"onnx", run_onnx, mutate_protobuf, onnx_seeds},
    {"npy", run_npy, mutate_raw, npy_seeds},
    {"pickle", run_pickle, mutate_pickle, pickle_seeds},
    {"plan", run_plan, mutate_raw, plan_seeds},
    {"roundtrip", run_roundtrip, mutate_any, roundtrip_seeds},
    {"torch", run_torch, mutate_raw, torch_seeds},
    {"zip", run_zip, mutate_raw, zip_seeds},
});

}  // namespace

std::span<const Target> targets() { return kTargets; }

const Target* find_target(std::string_view name) {
  const auto* found = std::ranges::find(kTargets, name, &Target::name);
  return found == kTargets.end() ? nullptr : found;
}

std::size_t plain_mutation(std::uint8_t* data, std::size_t size, std::size_t max_size) {
  static Random random(1);
  const auto value = static_cast<std::uint8_t>(random.next());
  if (size == 0 || (size < max_size && random.one_in(4))) {
    if (max_size == 0) return 0;
    const std::uint64_t at = random.below(size + 1);
    std::memmove(data + at + 1, data + at, size - at);
    data[at] = value;
    return size + 1;
  }
  const std::uint64_t at = random.below(size);
  if (random.one_in(4)) {
    std::memmove(data + at, data + at + 1, size - at - 1);
    return size - 1;
  }
  data[at] = random.one_in(2) ? value
                              : static_cast<std::uint8_t>(data[at] ^ 1u << (value % 8));
  return size;
}

}  // namespace weig::fuzz
