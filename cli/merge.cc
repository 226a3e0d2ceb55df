// SPDX-License-Identifier: Apache-2.0
// weig merge: one file of a sharded set again, or of several files.
#include <weig/convert.h>
#include <weig/model_set.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "command.h"
#include "convert_report.h"
#include "options.h"
#include "progress_bar.h"
#include "report.h"

namespace weig::cli {
namespace {

struct Arguments {
  std::vector<std::string> files;
  std::string target;
  ConvertOptions options;
  Form form = Form::text;
};

// The first member of the set that was given; fails for what is none.
Result<std::string> first_member(const std::string& file) {
  const auto set =
      ModelSet::open(file, {.validation = Validation::lazy, .part = Part::metadata});
  if (!set) return set.error();
  if (set->shard()) return set->path(0);
  return Error(Code::invalid_argument, "the file is no member of a set")
      .file(set->path(0))
      .hint("weig convert makes one file of several others");
}

Result<ConvertReport> merge_with_bar(const Arguments& arguments) {
  std::vector<std::string> files = arguments.files;
  if (files.size() == 1) {
    const auto first = first_member(files[0]);
    if (!first) return first.error();
    files[0] = *first;
  }
  ProgressBar bar("merging");
  ConvertOptions options = arguments.options;
  options.progress = bar.callback();
  return convert(files, arguments.target, options);
}

int run_merge(const Arguments& arguments) {
  std::error_code ignored;
  if (std::filesystem::is_directory(arguments.target, ignored))
    return fail_usage("weig merge", "-o needs a file's name, not a folder's",
                      arguments.form);
  const auto report = merge_with_bar(arguments);
  if (!report) return fail(with_force_hint(report.error()), arguments.form);
  tell_more(*report, OtherFiles::leave);
  return print_report(*report, arguments.form);
}

}  // namespace

Command add_merge(CLI::App& app) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* command = app.add_subcommand(
      "merge", "Make one file of a sharded set, or of several files");
  command
      ->add_option("FILE", arguments->files,
                   "Any member of the set, or a folder with that set\n"
                   "alone; or files whose tensors have distinct names,\n"
                   "of any format that convert takes")
      ->required()
      ->type_name("");
  command->add_option("-o,--output", arguments->target, "What to write")
      ->required()
      ->check(file_name())
      ->type_name("DST");
  add_force(*command, arguments->options.existing);
  add_json(*command, arguments->form);
  command->footer(
      "Of a set, the file is, byte for byte, what converting the source at once "
      "makes.\n"
      "Digests are checked on the way. Of several files' metadata, the first file's\n"
      "value of a key stands.\n\n"
      "Examples:\n"
      "  weig merge model-00001-of-00005.weig -o model.weig\n"
      "  weig merge text.weig vision.weig projector.safetensors -o model.weig");
  return {command, [arguments] { return run_merge(*arguments); }};
}

}  // namespace weig::cli
