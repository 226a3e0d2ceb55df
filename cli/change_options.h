// SPDX-License-Identifier: Apache-2.0
// The options of `weig convert` that choose, rename and change tensors: which, and into
// what.
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

#include "rename.h"

namespace weig::cli {

struct ChangeOptions {
  std::optional<Dtype> cast;
  std::optional<Dtype> quantize;  // i8 or i4
  std::optional<Dtype> dequantize;
  Scheme scheme = Scheme::symmetric;
  std::optional<std::uint32_t> block;
  std::vector<std::string> include;
  std::vector<std::string> exclude;
  std::vector<RenameRule> rename;
  // Patterns that matched a name of which one of the functions below was asked.
  std::shared_ptr<std::set<std::string>> matched =
      std::make_shared<std::set<std::string>>();
};

// --cast, --quantize, --dequantize, --block, --asymmetric, --include, --exclude,
// --rename.
void add_change_options(CLI::App& command, ChangeOptions& options);

// What is wrong with the options together, if anything.
std::optional<std::string> conflict(const ChangeOptions& options);

// Patterns that matched nothing, once all was asked.
std::vector<std::string> unmatched(const ChangeOptions& options);

// Whether tensors are changed, so that --include and --exclude say which; otherwise
// they say which come along.
bool changes_any(const ChangeOptions& options);

// As ConvertOptions::rename; empty where all come by their own names.
decltype(ConvertOptions::rename) name_function(const ChangeOptions& options);

// As ConvertOptions::change; empty where nothing is to be changed.
decltype(ConvertOptions::change) change_function(const ChangeOptions& options);

}  // namespace weig::cli
