// SPDX-License-Identifier: Apache-2.0
// The fuzz targets: each takes any bytes and ends the process where a promise is
// broken. The same functions run under libFuzzer and, over the kept inputs, as ordinary
// tests.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "core/bytes.h"
#include "random.h"

namespace weig::fuzz {

// A mutation that knows nothing of formats: changes `size` bytes at `data`, up to
// `max_size`, and returns the new size. libFuzzer's own, or plain_mutation().
using RawMutation = std::size_t (*)(std::uint8_t* data, std::size_t size,
                                    std::size_t max_size);
using Input = std::vector<std::byte>;

struct Target {
  std::string_view name;
  void (*run)(Bytes input);
  // Changes an input, with the format in mind; at most `max_size` bytes come out.
  void (*mutate)(Input& input, std::size_t max_size, Random& random, RawMutation raw);
  // Inputs to begin with, made anew each time: one for each way in which the reader
  // answers.
  std::vector<Input> (*seeds)();
};

// view, lazy, safetensors, gguf, index, big_endian, metadata, npy, onnx, pickle, plan,
// roundtrip, torch, zip.
std::span<const Target> targets();
// Null where there is none of that name.
const Target* find_target(std::string_view name);

void run_view(Bytes input);
void run_lazy(Bytes input);
void run_safetensors(Bytes input);
void run_gguf(Bytes input);
void run_index(Bytes input);
void run_big_endian(Bytes input);
void run_metadata(Bytes input);
void run_onnx(Bytes input);
void run_npy(Bytes input);
void run_pickle(Bytes input);
void run_plan(Bytes input);
void run_roundtrip(Bytes input);
void run_torch(Bytes input);
void run_zip(Bytes input);

// For builds without libFuzzer: flips, copies, inserts and removes bytes.
std::size_t plain_mutation(std::uint8_t* data, std::size_t size, std::size_t max_size);

}  // namespace weig::fuzz
