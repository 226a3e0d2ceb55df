// SPDX-License-Identifier: Apache-2.0
// Mutations that know the formats: most of what they make gets past digests and
// lengths, so that fuzzing reaches what lies behind.
#pragma once

#include "target.h"

namespace weig::fuzz {

void mutate_weig(Input& input, std::size_t max_size, Random& random, RawMutation raw);
void mutate_safetensors(Input& input, std::size_t max_size, Random& random,
                        RawMutation raw);
void mutate_gguf(Input& input, std::size_t max_size, Random& random, RawMutation raw);
void mutate_json(Input& input, std::size_t max_size, Random& random, RawMutation raw);
void mutate_protobuf(Input& input, std::size_t max_size, Random& random,
                     RawMutation raw);
void mutate_raw(Input& input, std::size_t max_size, Random& random, RawMutation raw);
// By what pickles are made of.
void mutate_pickle(Input& input, std::size_t max_size, Random& random, RawMutation raw);
// By what the input looks like.
void mutate_any(Input& input, std::size_t max_size, Random& random, RawMutation raw);

// JSON cut into tokens: strings, numbers, words, single marks.
std::vector<std::string_view> tokens_of(std::string_view json);
// What may stand where a token stands.
std::span<const std::string_view> token_values();

// A message with each of its fields in turn left out, doubled and replaced.
std::vector<Input> bent_messages(const Input& input);

// A header's length made right, and as much data as its largest offset asks for.
void repair_safetensors(Input& file, std::size_t max_size);

}  // namespace weig::fuzz
