// SPDX-License-Identifier: Apache-2.0
// weig convert: other formats into one WEIG file, or a set of several.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <weig/convert.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "change_options.h"
#include "command.h"
#include "convert_report.h"
#include "options.h"
#include "progress_bar.h"
#include "report.h"
#include "terminal.h"

namespace weig::cli {
namespace {

struct Arguments {
  std::vector<std::string> sources;
  std::string target;
  ConvertOptions options;
  ChangeOptions changes;
  Form form = Form::text;
};

// Several sources without a target: most likely the last one was meant to be it.
int ask_for_target(const Arguments& arguments) {
  const std::string& last = arguments.sources.back();
  std::error_code ignored;
  std::string message = "several sources need -o OUTPUT";
  if (last.ends_with(".weig") || !std::filesystem::exists(last, ignored))
    message +=
        fmt::format("; {} looks like the output: put -o before it", in_quotes(last));
  return fail_usage("weig convert", message, arguments.form);
}

Result<ConvertReport> convert_with_bar(const Arguments& arguments) {
  ProgressBar bar("converting");
  ConvertOptions options = arguments.options;
  options.rename = name_function(arguments.changes);
  options.change = change_function(arguments.changes);
  options.progress = bar.callback();
  return convert(arguments.sources, arguments.target, options);
}

// Patterns that match nothing, or nothing that can be changed.
void warn_of_no_change(const Arguments& arguments, ConvertReport& report) {
  const bool wanted = changes_any(arguments.changes);
  for (const std::string& pattern : unmatched(arguments.changes))
    report.warnings.push_back(fmt::format(
        "{} matches no tensor{}", in_quotes(pattern),
        wanted && pattern.find('=') == pattern.npos ? " that can be changed" : ""));
  if (wanted && report.cast + report.quantized + report.dequantized == 0)
    report.warnings.push_back("no tensor was changed");
}

int run_convert(const Arguments& arguments) {
  if (const auto wrong = conflict(arguments.changes))
    return fail_usage("weig convert", *wrong, arguments.form);
  if (arguments.sources.size() > 1 && arguments.target.empty())
    return ask_for_target(arguments);
  auto report = convert_with_bar(arguments);
  if (!report) return fail(with_force_hint(report.error()), arguments.form);
  warn_of_name(*report);
  warn_of_no_change(arguments, *report);
  tell_more(*report, arguments.options.other_files);
  return print_report(*report, arguments.form);
}

void add_convert_options(CLI::App& command, ConvertOptions& options) {
  command.add_flag_callback(
      "--lenient", [&options] { options.strictness = Strictness::lenient; },
      "Accept, with a warning, what readers disagree on:\n"
      "holes, bytes after the last tensor, names that\n"
      "share bytes, metadata that is not text");
  command
      .add_option_function<std::string>(
          "--from",
          [&options](const std::string& name) {
            options.from = source_format_named(name);
            if (!options.from)
              throw CLI::ValidationError(
                  "--from",
                  fmt::format("no format is called {}; there are {}", in_quotes(name),
                              fmt::join(source_format_names(), ", ")));
          },
          "Take the source files for this format, whatever\n"
          "their content looks like: weig, safetensors, gguf,\n"
          "torch, npy, npz or onnx")
      ->type_name("FORMAT");
  command.add_flag_callback(
      "--copy-others", [&options] { options.other_files = OtherFiles::copy; },
      "Copy a folder's other files (config.json,\ntokenizer, ...) beside the output; "
      "no weights and\nno folders in it");
  command.add_flag_callback(
      "--sha256", [&options] { options.source_hash = SourceHash::sha256; },
      "Record the SHA-256 of each source file in the\nmetadata");
  add_shard_size(command, options.shard_bytes,
                 "Write a set of files, DST-00001-of-00005.weig and\n"
                 "so on. None is larger, but for a tensor (with its\n"
                 "scales) that is; layers that fit stay whole");
  command
      .add_option("--select", options.select,
                  "Of a PyTorch checkpoint, only the dict or list of\n"
                  "this path, such as state_dict")
      ->type_name("PATH");
  command
      .add_option("--max-expansion", options.max_expansion,
                  "Refuse tensors of PyTorch that repeat what is\n"
                  "stored more often; without it, 64 times")
      ->check(whole_number(UINT64_MAX))
      ->type_name("N");
  command
      .add_option("--max-header-bytes", options.max_header_bytes,
                  "Refuse longer headers of source files; without\n"
                  "it, those above 1073741824 bytes")
      ->check(whole_number(UINT64_MAX))
      ->type_name("N");
}

}  // namespace

Command add_convert(CLI::App& app) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* command =
      app.add_subcommand("convert", "Turn files of other formats into a WEIG file");
  command
      ->add_option("SRC", arguments->sources,
                   "safetensors, GGUF, ONNX or WEIG files, PyTorch\n"
                   "checkpoints, NumPy's .npy and .npz, or a folder with\n"
                   "a model; a member of a set stands for all of it")
      ->required()
      ->type_name("");
  command
      ->add_option("-o,--output", arguments->target,
                   "What to write; without it, SRC with the ending\n.weig")
      ->check(file_name())
      ->type_name("DST");
  add_force(*command, arguments->options.existing);
  add_convert_options(*command, arguments->options);
  add_change_options(*command, arguments->changes);
  add_json(*command, arguments->form);
  command->footer(
      "Examples:\n"
      "  weig convert model.safetensors\n"
      "  weig convert part-1.safetensors part-2.safetensors -o model.weig\n"
      "  weig convert checkpoint.pt --select state_dict\n"
      "  weig convert --copy-others folder -o other/model.weig\n"
      "  weig convert model.safetensors --shard-size 5GB -o model.weig\n"
      "  weig convert model.safetensors --quantize int8 --exclude '*embed*'\n"
      "  weig convert bert.pt --exclude 'cls.*' --rename 'bert.*=*'");
  return {command, [arguments] { return run_convert(*arguments); }};
}

}  // namespace weig::cli
