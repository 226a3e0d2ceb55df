// SPDX-License-Identifier: Apache-2.0
// The options of `weig convert` that change tensors: which, and into what.
#pragma once

#include <weig/convert.h>

#include <CLI/CLI.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace weig::cli {

struct ChangeOptions {
  std::optional<Dtype> cast;
  std::optional<Dtype> quantize;  // i8 or i4
  std::optional<Dtype> dequantize;
  Scheme scheme = Scheme::symmetric;
  std::optional<std::uint32_t> block;
  std::vector<std::string> include;
  std::vector<std::string> exclude;
  // Patterns that matched a name of which change_function()'s function was asked.
  std::shared_ptr<std::set<std::string>> matched =
      std::make_shared<std::set<std::string>>();
};

// --cast, --quantize, --dequantize, --block, --asymmetric, --include, --exclude.
void add_change_options(CLI::App& command, ChangeOptions& options);

// What is wrong with the options together, if anything.
std::optional<std::string> conflict(const ChangeOptions& options);

// Patterns that matched nothing, once all was asked.
std::vector<std::string> unmatched(const ChangeOptions& options);

// As ConvertOptions::change; empty where nothing is to be changed.
decltype(ConvertOptions::change) change_function(const ChangeOptions& options);

}  // namespace weig::cli
