// SPDX-License-Identifier: Apache-2.0
// weig export: a WEIG file into a file of another format.
#include <fmt/ranges.h>
#include <weig/convert.h>

#include <memory>
#include <optional>
#include <string>

#include "command.h"
#include "json.h"
#include "options.h"
#include "progress_bar.h"
#include "quantity.h"
#include "report.h"
#include "terminal.h"

namespace weig::cli {
namespace {

struct Arguments {
  std::string file;
  std::string target;
  ExportOptions options;
  Form form = Form::text;
};

void print_text(Output& output, const ExportReport& report) {
  output.print("{}\n", printable(report.output));
  output.print("  tensors  {}\n", grouped(report.tensors));
  if (!report.members.empty())
    output.print("  members  {}, {} to {}\n", grouped(report.members.size()),
                 printable(report.members.front()), printable(report.members.back()));
  output.print("  {}    {}\n", report.members.empty() ? "file " : "files",
               full_bytes(report.file_size));
  output.print("  time     {}, {}\n", duration(report.seconds),
               rate(report.file_size, report.seconds));
  output.print("  bytes    {}\n",
               report.exact ? "those of the file that was converted, byte for byte"
                            : "not those of an earlier file: a canonical one");
}

void print_json(Output& output, const ExportReport& report) {
  Json json(output);
  json.begin_object().member("output", report.output);
  json.member("tensors", report.tensors).member("file_size", report.file_size);
  json.member("exact", report.exact).member("seconds", report.seconds);
  json.key("members").begin_array();
  for (const std::string& member : report.members) json.value(member);
  json.end_array().key("warnings").begin_array();
  for (const std::string& warning : report.warnings) json.value(warning);
  json.end_array().end_object();
}

Result<ExportReport> export_with_bar(const Arguments& arguments) {
  ProgressBar bar("exporting");
  ExportOptions options = arguments.options;
  options.progress = bar.callback();
  return export_file(arguments.file, arguments.target, options);
}

int run_export(const Arguments& arguments) {
  const auto report = export_with_bar(arguments);
  if (!report) return fail(with_force_hint(report.error()), arguments.form);
  for (const std::string& warning : report->warnings) warn(warning);
  // The file is there: whoever says stop now is too late.
  Output output(stdout, "standard output", OnSignal::finish);
  arguments.form == Form::json ? print_json(output, *report)
                               : print_text(output, *report);
  return close_output(output, 0);
}

void add_format(CLI::App& command, std::optional<ExportFormat>& out) {
  const std::string names = fmt::format("{}", fmt::join(export_format_names(), ", "));
  command
      .add_option_function<std::string>(
          "--to",
          [names, &out](const std::string& name) {
            out = export_format_named(name);
            if (!out)
              throw CLI::ValidationError(
                  "--to", fmt::format("no format is called {}; there are {}",
                                      printable(name), names));
          },
          "Format to write, by default the one that DST's\nending says: " + names)
      ->type_name("FORMAT");
}

}  // namespace

Command add_export(CLI::App& app) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* command =
      app.add_subcommand("export", "Turn a WEIG file into one of another format");
  add_model(*command, arguments->file);
  command->add_option("DST", arguments->target, "What to write")
      ->required()
      ->check(file_name())
      ->type_name("");
  add_format(*command, arguments->options.format);
  add_shard_size(*command, arguments->options.shard_bytes,
                 "Write safetensors in several files, none larger\n"
                 "but where one tensor is, with their index");
  command
      ->add_option("--architecture", arguments->options.architecture,
                   "GGUF's general.architecture, where the\n"
                   "metadata has none or another is wanted")
      ->type_name("NAME");
  add_force(*command, arguments->options.existing);
  add_json(*command, arguments->form);
  command->footer(
      "Digests are checked on the way.\n\n"
      "Examples:\n"
      "  weig export model.weig model.safetensors\n"
      "  weig export model.weig folder/model.safetensors --shard-size 5GB\n"
      "  weig export model.weig model.pt");
  return {command, [arguments] { return run_export(*arguments); }};
}

}  // namespace weig::cli
