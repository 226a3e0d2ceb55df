// SPDX-License-Identifier: Apache-2.0
// weig diff: what two models differ in.
#include <fmt/format.h>
#include <weig/diff.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "command.h"
#include "glob.h"
#include "json.h"
#include "options.h"
#include "progress_bar.h"
#include "quantity.h"
#include "report.h"
#include "tensor_text.h"
#include "terminal.h"

namespace weig::cli {
namespace {

constexpr int kDifferent = 1;
constexpr std::size_t kShown = 20;         // of each list, without --all
constexpr std::size_t kMaxNameWidth = 60;  // longer names push their line to the right

struct Arguments {
  std::string a;
  std::string b;
  std::vector<std::string> include;
  std::vector<std::string> exclude;
  DiffOptions options;
  bool all = false;
  Form form = Form::text;
};

bool matches_one(const std::vector<std::string>& patterns, std::string_view name) {
  return std::ranges::any_of(patterns, [&](const std::string& pattern) {
    return glob_matches(pattern, name);
  });
}

std::string described(const DiffSide& side) {
  return dtype_text(side.dtype) + " " + shape_text(side.shape);
}

std::string described(const NumberDiff& numbers) {
  std::string text = fmt::format("{} of {} differ", grouped(numbers.differing),
                                 counted(numbers.elements, "element"));
  if (numbers.differing == 0) return "equal numbers";
  if (numbers.differing > numbers.nan)
    text += fmt::format(", by {:.4g} at most, {:.4g} on average", numbers.max,
                        numbers.mean);
  if (numbers.nan > 0)
    text += fmt::format(", {} NaN on one side", grouped(numbers.nan));
  return text;
}

// Of tensors that both models have.
std::string change(const TensorDiff& tensor) {
  const bool same_shape = tensor.a->shape == tensor.b->shape;
  const bool same_dtype = tensor.a->dtype == tensor.b->dtype;
  std::string text = described(*tensor.a);
  if (!same_shape) return text + " became " + described(*tensor.b);
  if (!same_dtype)
    text = dtype_text(tensor.a->dtype) + " became " + described(*tensor.b);
  if (tensor.numbers) return text + ": " + described(*tensor.numbers);
  return same_dtype ? text + ": other bytes" : text;
}

// The lists that are printed: of tensors, by what happened to them.
struct Lists {
  std::vector<const TensorDiff*> removed;
  std::vector<const TensorDiff*> added;
  std::vector<const TensorDiff*> changed;
};

Lists lists_of(const DiffReport& report) {
  Lists lists;
  for (const TensorDiff& tensor : report.tensors)
    (!tensor.b   ? lists.removed
     : !tensor.a ? lists.added
                 : lists.changed)
        .push_back(&tensor);
  return lists;
}

void print_list(Output& output, std::string_view what,
                const std::vector<const TensorDiff*>& tensors, bool all) {
  const std::size_t count = all ? tensors.size() : std::min(tensors.size(), kShown);
  std::size_t width = 0;
  for (std::size_t i = 0; i < count; ++i)
    width = std::max(width, display_width(printable(tensors[i]->name)));
  width = std::min(width, kMaxNameWidth);
  for (std::size_t i = 0; i < count; ++i) {
    const TensorDiff& tensor = *tensors[i];
    std::string name = printable(tensor.name);
    const std::size_t used = display_width(name);
    if (used < width) name.append(width - used, ' ');
    output.print("{:<8} {}  {}\n", what, name,
                 tensor.a && tensor.b ? change(tensor)
                                      : described(tensor.a ? *tensor.a : *tensor.b));
  }
  if (count < tensors.size())
    output.print("{:<8} and {} more (--all lists them)\n", what,
                 grouped(tensors.size() - count));
}

void print_metadata(Output& output, const DiffReport& report, bool all) {
  const std::size_t count =
      all ? report.metadata.size() : std::min(report.metadata.size(), kShown);
  for (std::size_t i = 0; i < count; ++i) {
    const MetadataDiff& entry = report.metadata[i];
    output.print("{:<8} metadata {}\n",
                 !entry.in_b  ? "removed"
                 : entry.in_a ? "changed"
                              : "added",
                 printable(in_quotes(entry.key)));
  }
  if (count < report.metadata.size())
    output.print("metadata and {} more (--all lists them)\n",
                 grouped(report.metadata.size() - count));
}

void print_text(Output& output, const Arguments& arguments, const DiffReport& report) {
  output.print("a  {}: {}, {}\n", printable(arguments.a),
               counted(report.tensors_a, "tensor"), short_bytes(report.bytes_a));
  output.print("b  {}: {}, {}\n", printable(arguments.b),
               counted(report.tensors_b, "tensor"), short_bytes(report.bytes_b));
  const Lists lists = lists_of(report);
  print_list(output, "removed", lists.removed, arguments.all);
  print_list(output, "added", lists.added, arguments.all);
  print_list(output, "changed", lists.changed, arguments.all);
  print_metadata(output, report, arguments.all);
  std::string summary = fmt::format("{} equal", grouped(report.equal));
  if (report.equal_by_digest > 0)
    summary += fmt::format(" ({} by digest)", report.equal_by_digest == report.equal
                                                  ? "all"
                                                  : grouped(report.equal_by_digest));
  for (const auto& [list, what] : {std::pair(&lists.changed, "changed"),
                                   {&lists.removed, "removed"},
                                   {&lists.added, "added"}})
    if (!list->empty()) summary += fmt::format(", {} {}", grouped(list->size()), what);
  output.print("{}{}; {}\n", summary, report.metadata.empty() ? "" : ", other metadata",
               duration(report.seconds));
}

void print_side(Json& json, const DiffSide& side) {
  json.begin_object().member("dtype", dtype_text(side.dtype));
  json.key("shape").begin_array();
  for (const std::uint64_t size : side.shape) json.value(size);
  json.end_array().member("bytes", side.bytes).end_object();
}

// JSON has no infinity.
void print_number(Json& json, std::string_view key, double number) {
  if (std::isfinite(number)) {
    json.member(key, number);
  } else {
    json.member(key, "inf");
  }
}

void print_tensors(Json& json, std::string_view key,
                   const std::vector<const TensorDiff*>& tensors) {
  json.key(key).begin_array();
  for (const TensorDiff* tensor : tensors) {
    json.begin_object().member("name", tensor->name);
    if (tensor->a) print_side(json.key("a"), *tensor->a);
    if (tensor->b) print_side(json.key("b"), *tensor->b);
    if (const auto& numbers = tensor->numbers) {
      json.member("elements", numbers->elements)
          .member("differing", numbers->differing);
      json.member("nan", numbers->nan);
      print_number(json, "max", numbers->max);
      print_number(json, "mean", numbers->mean);
    }
    json.end_object();
  }
  json.end_array();
}

void print_json(Output& output, const Arguments& arguments, const DiffReport& report) {
  Json json(output);
  json.begin_object().member("same", report.same());
  json.key("a").begin_object().member("file", arguments.a);
  json.member("tensors", report.tensors_a).member("bytes", report.bytes_a).end_object();
  json.key("b").begin_object().member("file", arguments.b);
  json.member("tensors", report.tensors_b).member("bytes", report.bytes_b).end_object();
  json.member("equal", report.equal).member("equal_by_digest", report.equal_by_digest);
  const Lists lists = lists_of(report);
  print_tensors(json, "removed", lists.removed);
  print_tensors(json, "added", lists.added);
  print_tensors(json, "changed", lists.changed);
  json.key("metadata").begin_array();
  for (const MetadataDiff& entry : report.metadata) {
    json.begin_object().member("key", entry.key).member("in_a", entry.in_a);
    json.member("in_b", entry.in_b).end_object();
  }
  json.end_array().member("seconds", report.seconds).end_object();
}

int run_diff(const Arguments& arguments) {
  DiffOptions options = arguments.options;
  bool included = arguments.include.empty();
  if (!arguments.include.empty() || !arguments.exclude.empty())
    options.choose = [&](std::string_view name) {
      if (!arguments.include.empty() && !matches_one(arguments.include, name))
        return false;
      included = true;
      return !matches_one(arguments.exclude, name);
    };
  const auto report = [&] {
    ProgressBar bar("comparing");
    options.progress = bar.callback();
    return diff(arguments.a, arguments.b, options);
  }();
  if (!report) return fail(report.error(), arguments.form);
  // A mistyped pattern must not read as two equal models.
  if (!included)
    return fail(Error(Code::not_found, "no tensor of either model matches --include"),
                arguments.form);
  Output output(stdout, "standard output");
  arguments.form == Form::json ? print_json(output, arguments, *report)
                               : print_text(output, arguments, *report);
  return close_output(output, report->same() ? 0 : kDifferent);
}

void add_patterns(CLI::App& command, const char* name,
                  std::vector<std::string>& patterns, const char* what) {
  command.add_option(name, patterns, what)
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->type_name("PATTERN");
}

}  // namespace

Command add_diff(CLI::App& app) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* command =
      app.add_subcommand("diff", "Show what two models of any formats differ in");
  command->add_option("A", arguments->a, "A file or folder that convert takes")
      ->required()
      ->type_name("");
  command->add_option("B", arguments->b, "Another one, of any format")
      ->required()
      ->type_name("");
  add_patterns(*command, "--include", arguments->include,
               "Compare only tensors whose names match, as in\nls; may be repeated");
  add_patterns(*command, "--exclude", arguments->exclude,
               "Leave out tensors whose names match; may be\nrepeated");
  command->add_flag("--bytes", arguments->options.read_all,
                    "Read all bytes, also where digests are equal");
  command->add_flag_callback(
      "--lenient", [arguments] { arguments->options.strictness = Strictness::lenient; },
      "Accept what convert --lenient accepts");
  command->add_flag("--all", arguments->all,
                    "List all differences, not the first 20 of a kind");
  add_json(*command, arguments->form);
  command->footer(
      "Tensors of WEIG files are compared by their digests, in milliseconds whatever\n"
      "the size. Of numbers that differ: how many, and by how much. The exit status "
      "is\n"
      "0 if the models are equal, metadata included, and 1 if they differ.\n\n"
      "Examples:\n"
      "  weig diff model.safetensors model.weig\n"
      "  weig diff base.weig tuned.weig --include '*.weight'");
  return {command, [arguments] { return run_diff(*arguments); }};
}

}  // namespace weig::cli
