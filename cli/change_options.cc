// SPDX-License-Identifier: Apache-2.0
#include "change_options.h"

#include <fmt/format.h>

#include <string_view>

#include "glob.h"
#include "options.h"
#include "terminal.h"

namespace weig::cli {
namespace {

// Blocks of 4-bit integers where --block says nothing: of one scale for a whole channel
// too little is left.
constexpr std::uint32_t kDefaultNibbleBlock = 32;

// Tries all, so that those are known that match nothing.
bool matches_any(const std::vector<std::string>& patterns, std::string_view name,
                 std::set<std::string>& matched) {
  bool any = false;
  for (const std::string& pattern : patterns) {
    if (!glob_matches(pattern, name)) continue;
    matched.insert(pattern);
    any = true;
  }
  return any;
}

bool is_chosen(const ChangeOptions& options, std::string_view name) {
  const bool included = matches_any(options.include, name, *options.matched);
  const bool excluded = matches_any(options.exclude, name, *options.matched);
  return (options.include.empty() || included) && !excluded;
}

QuantizeOptions quantize_options(const ChangeOptions& options, std::size_t rank) {
  const bool nibbles = options.quantize == Dtype::i4;
  QuantizeOptions how{.to = *options.quantize, .scheme = options.scheme};
  if (options.scheme == Scheme::asymmetric) how.to = nibbles ? Dtype::u4 : Dtype::u8;
  how.block = options.block.value_or(nibbles ? kDefaultNibbleBlock : 0);
  // A row of a vector would be an element.
  if (how.block == 0 && rank > 1) how.axis = 0;
  return how;
}

bool is_quantizable(const ChangeOptions& options, Dtype dtype,
                    std::span<const std::uint64_t> shape) {
  const bool floating =
      dtype == Dtype::f32 || dtype == Dtype::f16 || dtype == Dtype::bf16;
  // Vectors are small, and models are sensitive to them.
  const std::size_t least_rank = options.include.empty() ? 2 : 1;
  return floating && shape.size() >= least_rank;
}

Dtype quantized_type(const std::string& name) {
  if (name == "int8") return Dtype::i8;
  if (name == "int4") return Dtype::i4;
  throw CLI::ValidationError(
      "--quantize",
      fmt::format("no type is called {}; there are int8, int4", printable(name)));
}

Dtype floating_type(const std::string& option, const std::string& name) {
  const auto dtype = dtype_from_name(name);
  if (dtype && is_castable(*dtype)) return *dtype;
  throw CLI::ValidationError(
      option, fmt::format("no floating type is called {}; there are f32, f16, bf16, "
                          "f8_e4m3fn",
                          printable(name)));
}

}  // namespace

void add_change_options(CLI::App& command, ChangeOptions& options) {
  command
      .add_option_function<std::string>(
          "--cast",
          [&options](const std::string& name) {
            options.cast = floating_type("--cast", name);
          },
          "Cast floating tensors to f32, f16, bf16 or\nf8_e4m3fn")
      ->type_name("TYPE");
  command
      .add_option_function<std::string>(
          "--quantize",
          [&options](const std::string& name) {
            options.quantize = quantized_type(name);
          },
          "Quantize floating tensors of rank 2 and more to\n"
          "int8, one scale a row, or int4, one scale for 32\nneighbours")
      ->type_name("TYPE");
  command
      .add_option_function<std::string>(
          "--dequantize",
          [&options](const std::string& name) {
            options.dequantize = floating_type("--dequantize", name);
          },
          "Turn quantized tensors back into f32, f16, bf16\nor f8_e4m3fn")
      ->type_name("TYPE");
  command
      .add_option("--block", options.block,
                  "With --quantize: one scale for N neighbours along\nthe last axis")
      ->check(whole_number(UINT32_MAX, 1))
      ->type_name("N");
  command.add_flag_callback(
      "--asymmetric", [&options] { options.scheme = Scheme::asymmetric; },
      "With --quantize: unsigned integers, with zero\npoints");
  command
      .add_option("--include", options.include,
                  "Take only tensors whose names match, as in ls;\n"
                  "with --cast, --quantize or --dequantize: change\n"
                  "only those. May be repeated")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->type_name("PATTERN");
  command
      .add_option("--exclude", options.exclude,
                  "Leave out tensors whose names match; with --cast\n"
                  "and so on: leave them as they are. May be repeated")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->type_name("PATTERN");
  command
      .add_option_function<std::vector<std::string>>(
          "--rename",
          [&options](const std::vector<std::string>& rules) {
            for (const std::string& rule : rules) {
              auto parsed = parse_rename(rule);
              if (!parsed)
                throw CLI::ValidationError(
                    "--rename",
                    fmt::format("{} is no rule; 'model.*=*' is, with at most as many "
                                "'*' on the right",
                                in_quotes(rule)));
              options.rename.push_back(*std::move(parsed));
            }
          },
          "Rename tensors: FROM is a pattern, and a * in TO\n"
          "what that of FROM stands for. The first rule that\n"
          "matches counts. May be repeated")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->type_name("FROM=TO");
}

std::optional<std::string> conflict(const ChangeOptions& options) {
  const int kinds = int{options.cast.has_value()} + int{options.quantize.has_value()} +
                    int{options.dequantize.has_value()};
  if (kinds > 1) return "only one of --cast, --quantize and --dequantize";
  if (!options.quantize && options.block) return "--block goes with --quantize";
  if (!options.quantize && options.scheme == Scheme::asymmetric)
    return "--asymmetric goes with --quantize";
  return std::nullopt;
}

std::vector<std::string> unmatched(const ChangeOptions& options) {
  std::vector<std::string> patterns;
  for (const auto* some : {&options.include, &options.exclude})
    for (const std::string& pattern : *some)
      if (!options.matched->contains(pattern)) patterns.push_back(pattern);
  for (const RenameRule& rule : options.rename)
    if (!options.matched->contains(rule.text)) patterns.push_back(rule.text);
  return patterns;
}

bool changes_any(const ChangeOptions& options) {
  return options.cast || options.quantize || options.dequantize;
}

decltype(ConvertOptions::rename) name_function(const ChangeOptions& options) {
  const bool chooses =
      !changes_any(options) && !(options.include.empty() && options.exclude.empty());
  if (!chooses && options.rename.empty()) return {};
  return [options, chooses](std::string_view name) -> std::optional<std::string> {
    if (chooses && !is_chosen(options, name)) return std::nullopt;
    std::optional<std::string> found;
    // Tries all, so that those are known that match nothing.
    for (const RenameRule& rule : options.rename) {
      auto other = renamed(rule, name);
      if (!other) continue;
      options.matched->insert(rule.text);
      if (!found) found = std::move(other);
    }
    return found ? found : std::string(name);
  };
}

decltype(ConvertOptions::change) change_function(const ChangeOptions& options) {
  if (!changes_any(options)) return {};
  return [options](std::string_view name, Dtype dtype,
                   std::span<const std::uint64_t> shape) -> TensorChange {
    if (!is_chosen(options, name)) return Keep{};
    if (options.dequantize) return Dequantize{*options.dequantize};
    if (options.cast) {
      if (is_castable(dtype)) return *options.cast;
      return Keep{};
    }
    if (is_quantizable(options, dtype, shape))
      return quantize_options(options, shape.size());
    return Keep{};
  };
}

}  // namespace weig::cli
