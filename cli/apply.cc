// SPDX-License-Identifier: Apache-2.0
// weig apply: a LoRA adapter added to a model, as a new file.
#include <fmt/format.h>
#include <weig/convert.h>
#include <weig/lora.h>

#include <charconv>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "command.h"
#include "convert_report.h"
#include "options.h"
#include "progress_bar.h"
#include "report.h"
#include "terminal.h"

namespace weig::cli {
namespace {

struct Arguments {
  std::string base;
  std::string adapter;
  std::string target;
  LoraOptions lora;
  ConvertOptions options;
  Form form = Form::text;
};

Result<ConvertReport> apply_with_bar(const Arguments& arguments) {
  const auto adapter = LoraAdapter::open(arguments.adapter, arguments.lora);
  if (!adapter) return adapter.error();
  ProgressBar bar("adding");
  ConvertOptions options = arguments.options;
  options.adapter = &*adapter;
  options.progress = bar.callback();
  return convert(std::vector{arguments.base}, arguments.target, options);
}

int run_apply(const Arguments& arguments) {
  if (arguments.lora.alpha && arguments.lora.scale)
    return fail_usage("weig apply", "--alpha and --scale: one of them says it all",
                      arguments.form);
  auto report = apply_with_bar(arguments);
  if (!report) return fail(with_force_hint(report.error()), arguments.form);
  warn_of_name(*report);
  tell_more(*report, arguments.options.other_files);
  return print_report(*report, arguments.form);
}

void add_number(CLI::App& command, const char* name, std::optional<double>& out,
                const std::string& description) {
  command
      .add_option_function<std::string>(
          name,
          [name, &out](const std::string& text) {
            double number = 0;
            const char* end = text.data() + text.size();
            const auto read = std::from_chars(text.data(), end, number);
            if (read.ec != std::errc() || read.ptr != end || !std::isfinite(number))
              throw CLI::ValidationError(
                  name, fmt::format("{} is no finite number", in_quotes(text)));
            out = number;
          },
          description)
      ->type_name("X");
}

}  // namespace

Command add_apply(CLI::App& app) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* command = app.add_subcommand("apply", "Add a LoRA adapter to a model");
  command
      ->add_option("BASE", arguments->base,
                   "The model: a safetensors or WEIG file, a folder, or\n"
                   "a member of a set, which stands for all of it")
      ->required()
      ->type_name("");
  command
      ->add_option("ADAPTER", arguments->adapter,
                   "PEFT's adapter_model.safetensors, or its folder;\n"
                   "the adapter_config.json beside it tells the scale")
      ->required()
      ->check(file_name())
      ->type_name("");
  command->add_option("-o,--output", arguments->target, "What to write")
      ->required()
      ->check(file_name())
      ->type_name("DST");
  add_number(*command, "--alpha", arguments->lora.alpha,
             "Take this for the lora_alpha of all modules,\nwhatever the config says");
  add_number(*command, "--scale", arguments->lora.scale,
             "Take this scale for all modules, whatever the\nconfig says");
  command->add_flag_callback(
      "--copy-others",
      [arguments] { arguments->options.other_files = OtherFiles::copy; },
      "Copy a base folder's other files (config.json,\n"
      "tokenizer, ...) beside the output; no weights and\nno folders in it");
  add_force(*command, arguments->options.existing);
  add_json(*command, arguments->form);
  command->footer(
      "All tensors that the adapter does not change are kept as they are.\n\n"
      "Examples:\n"
      "  weig apply model.weig adapter -o adapted.weig\n"
      "  weig apply folder adapter_model.safetensors --alpha 16 -o adapted.weig");
  return {command, [arguments] { return run_apply(*arguments); }};
}

}  // namespace weig::cli
