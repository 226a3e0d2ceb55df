// SPDX-License-Identifier: Apache-2.0
// What an adapter_config.json of PEFT says of the arithmetic.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <weig/error.h>

namespace weig {

// Values of single modules, in the order of the config: the first key that matches
// counts.
using LoraPattern = std::vector<std::pair<std::string, double>>;

struct LoraConfig {
  std::string path;  // empty where there is none
  std::optional<double> rank;
  std::optional<double> alpha;
  LoraPattern ranks;
  LoraPattern alphas;
  bool rank_stabilized = false;  // scale = alpha / sqrt(r)
  bool fan_in_fan_out = false;
};

// Fails with corrupt for what is no such config, with limit for one above 16 MiB, and
// with unsupported where it asks for more than the sum of weights and products.
Result<LoraConfig> read_lora_config(const std::string& path);

// The value that a pattern has for a module, if it has one. As PEFT does it, a key is a
// regular expression for the end of the name, from a dot on or all of it; of regular
// expressions, read_lora_config() leaves the '.', which is any character.
std::optional<double> pattern_value(const LoraPattern& pattern,
                                    std::string_view module);

}  // namespace weig
