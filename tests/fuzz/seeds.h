// SPDX-License-Identifier: Apache-2.0
// The inputs that every target begins with, made anew each time: sound files, and one
// file for each way in which a reader refuses, found by putting edges into fields and
// tokens into text.
#pragma once

#include "target.h"

namespace weig::fuzz {

std::vector<Input> weig_seeds();
std::vector<Input> safetensors_seeds();
std::vector<Input> gguf_seeds();
std::vector<Input> index_seeds();
std::vector<Input> big_endian_seeds();
std::vector<Input> metadata_seeds();
std::vector<Input> onnx_seeds();
std::vector<Input> npy_seeds();
std::vector<Input> pickle_seeds();
std::vector<Input> plan_seeds();
std::vector<Input> roundtrip_seeds();
std::vector<Input> torch_seeds();
std::vector<Input> zip_seeds();

}  // namespace weig::fuzz
