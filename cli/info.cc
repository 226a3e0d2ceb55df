// SPDX-License-Identifier: Apache-2.0
// weig info: what a file or a set is, on one screen.
#include <weig/model_set.h>

#include <memory>
#include <string>

#include "command.h"
#include "file_info.h"
#include "host.h"
#include "options.h"
#include "report.h"

namespace weig::cli {
namespace {

// Of output that goes to no terminal.
constexpr std::size_t kPipeColumns = 100;

struct Arguments {
  std::string file;
  OpenOptions open;
  Form form = Form::text;
};

int run_info(const Arguments& arguments) {
  const auto set = open_set(arguments.file, arguments.open);
  if (!set) return fail(set.error(), arguments.form);
  const auto info = file_info(*set);
  if (!info) return fail(info.error(), arguments.form);
  Output output(stdout, "standard output");
  if (arguments.form == Form::json)
    print_info_json(output, *info);
  else
    print_info(output, *info,
               is_terminal(Stream::output) ? columns(Stream::output) : kPipeColumns);
  return close_output_of(output, *set);
}

}  // namespace

Command add_info(CLI::App& app) {
  auto arguments = std::make_shared<Arguments>();
  arguments->open.part = Part::metadata;  // no data is looked at
  CLI::App* command = app.add_subcommand("info", "Show what a file is and holds");
  add_model(*command, arguments->file);
  add_accept_unsealed(*command, arguments->open);
  add_accept_unknown_dtypes(*command, arguments->open);
  add_json(*command, arguments->form);
  command->footer(
      "Long values are cut; --json prints all in full. A member whose set is not "
      "whole\n"
      "is shown alone, with a warning.");
  return {command, [arguments] { return run_info(*arguments); }};
}

}  // namespace weig::cli
