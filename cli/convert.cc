// SPDX-License-Identifier: Apache-2.0
// weig convert: other formats into one WEIG file.
#include <fmt/format.h>
#include <weig/convert.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "change_options.h"
#include "command.h"
#include "json.h"
#include "options.h"
#include "progress_bar.h"
#include "quantity.h"
#include "report.h"
#include "tensor_text.h"
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

std::string joined(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

void tell_more(const Arguments& arguments, const ConvertReport& report) {
  for (const std::string& warning : report.warnings) warn(warning);
  const bool copied = arguments.options.other_files == OtherFiles::copy;
  const auto& others = report.other_files;
  const auto& left = report.left_behind;
  if (copied && !others.empty()) tell("weig: copied too: " + printable(joined(others)));
  if (left.empty()) return;
  std::string hint;
  if (!copied && !others.empty())
    hint = others.size() == left.size()
               ? " (--copy-others copies them)"
               : " (--copy-others copies those without weights)";
  tell("weig: left behind: " + printable(joined(left)) + hint);
}

void print_text(Output& output, const ConvertReport& report) {
  output.print("{}\n", printable(report.output));
  output.print("  tensors  {}", grouped(report.tensors));
  if (report.aliases > 0)
    output.print(", of them {} (shared bytes, stored once)",
                 counted(report.aliases, "alias"));
  if (report.cast > 0) output.print("\n  cast     {}", counted(report.cast, "tensor"));
  if (report.quantized > 0)
    output.print("\n  quantized {}", counted(report.quantized, "tensor"));
  output.print("\n  data     {}\n", full_bytes(report.data_bytes));
  const double percent = 100.0 * static_cast<double>(report.padding_bytes) /
                         static_cast<double>(report.file_size);
  output.print("  padding  {}, {:.2f} % of the file\n",
               full_bytes(report.padding_bytes), percent);
  output.print("  file     {}\n", full_bytes(report.file_size));
  output.print("  time     {}, {}\n", duration(report.seconds),
               rate(report.file_size, report.seconds));
  output.print("  export   {}\n", report.exact_source
                                      ? "gives the source back byte for byte"
                                      : "gives the same tensors, not the same bytes");
}

void print_names(Json& json, std::string_view key,
                 const std::vector<std::string>& names) {
  json.key(key).begin_array();
  for (const std::string& name : names) json.value(name);
  json.end_array();
}

void print_json(Output& output, const ConvertReport& report) {
  Json json(output);
  json.begin_object().member("output", report.output);
  json.member("tensors", report.tensors).member("aliases", report.aliases);
  json.member("cast", report.cast).member("quantized", report.quantized);
  json.member("data_bytes", report.data_bytes);
  json.member("padding_bytes", report.padding_bytes);
  json.member("file_size", report.file_size);
  json.member("file_id", digest_text(report.file_id));
  json.member("seconds", report.seconds);
  json.member("exact_source", report.exact_source);
  print_names(json, "sources", report.sources);
  print_names(json, "other_files", report.other_files);
  print_names(json, "left_behind", report.left_behind);
  print_names(json, "warnings", report.warnings);
  json.end_object();
}

Result<ConvertReport> convert_with_bar(const Arguments& arguments) {
  ProgressBar bar("converting");
  ConvertOptions options = arguments.options;
  options.change = change_function(arguments.changes);
  options.progress = bar.callback();
  return convert(arguments.sources, arguments.target, options);
}

// A name that says safetensors was most likely meant.
void warn_of_name(ConvertReport& report) {
  if (std::filesystem::path(report.output).extension() != ".safetensors") return;
  report.warnings.push_back(
      fmt::format("{} is a WEIG file, whatever its name says: 'weig export' writes "
                  "safetensors files",
                  report.output));
}

// Patterns that match nothing, or nothing of a type that can be changed.
void warn_of_no_change(const Arguments& arguments, ConvertReport& report) {
  const bool wanted = arguments.changes.cast || arguments.changes.quantize;
  if (wanted && report.cast + report.quantized == 0)
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
  tell_more(arguments, *report);
  // The file is there: whoever says stop now is too late.
  Output output(stdout, "standard output", OnSignal::finish);
  arguments.form == Form::json ? print_json(output, *report)
                               : print_text(output, *report);
  return close_output(output, 0);
}

void add_convert_options(CLI::App& command, ConvertOptions& options) {
  command.add_flag_callback(
      "--lenient", [&options] { options.strictness = Strictness::lenient; },
      "Accept, with a warning, what readers disagree on:\n"
      "holes, bytes after the last tensor, names that\n"
      "share bytes, metadata that is not text");
  command.add_flag_callback(
      "--copy-others", [&options] { options.other_files = OtherFiles::copy; },
      "Copy a folder's other files (config.json,\ntokenizer, ...) beside the output; "
      "no weights and\nno folders in it");
  command.add_flag_callback(
      "--sha256", [&options] { options.source_hash = SourceHash::sha256; },
      "Record the SHA-256 of each source file in the\nmetadata");
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
      app.add_subcommand("convert", "Turn safetensors files into a WEIG file");
  command
      ->add_option("SRC", arguments->sources,
                   "safetensors or WEIG files, or a folder with a model")
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
      "  weig convert --copy-others folder -o other/model.weig\n"
      "  weig convert model.safetensors --quantize int8 --exclude '*embed*'");
  return {command, [arguments] { return run_convert(*arguments); }};
}

}  // namespace weig::cli
