// SPDX-License-Identifier: Apache-2.0
// weig verify: is every byte what the writer wrote? Of a file, or of all of a set.
#include <fmt/format.h>
#include <weig/convert.h>
#include <weig/model_set.h>
#include <weig/verify.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "command.h"
#include "glob.h"
#include "host.h"
#include "options.h"
#include "progress_bar.h"
#include "report.h"
#include "terminal.h"
#include "verify_report.h"

namespace weig::cli {
namespace {

struct Arguments {
  std::string file;
  OpenOptions open;
  unsigned threads = 0;
  std::string pattern;  // of names; empty: all tensors
  bool quick = false;   // none
  Form form = Form::text;

  Scope scope() const {
    if (quick) return Scope::structure;
    return pattern.empty() ? Scope::everything : Scope::some_tensors;
  }
};

// Without the note that it may be a member: the others are verified as well.
Result<Model> open_one(const std::string& file, const OpenOptions& options) {
  auto model = Model::open(file, options);
  if (!model) return with_option_hint(model.error(), file, options);
  for (const std::string& warning : model->load_report().warnings)
    warn(fmt::format("{}: {}", printable(file), warning));
  return model;
}

// Loads as the options say, with a bar. A stream has none, since it runs while what it
// loads is verified.
Result<Model> open_with_bar(const Arguments& arguments, const std::string& file) {
  OpenOptions options = arguments.open;
  options.load.threads = arguments.threads;
  if (arguments.quick) options.load.way = LoadWay::map;
  if (options.load.way == LoadWay::stream) {
    options.load.progress = [](std::uint64_t, std::uint64_t) {
      return stop_signal() == 0;
    };
    return open_one(file, options);
  }
  ProgressBar bar("loading");
  options.load.progress = bar.callback();
  return open_one(file, options);
}

// Which tensors to look at; nothing: all.
Result<std::optional<std::vector<std::uint32_t>>> chosen(const Arguments& arguments,
                                                         const Model& model) {
  std::optional<std::vector<std::uint32_t>> ordinals;
  if (!arguments.quick && arguments.pattern.empty()) return ordinals;
  ordinals.emplace();
  if (arguments.quick) return ordinals;
  for (const auto& tensor : model.tensors()) {
    if (!tensor) return tensor.error();
    if (glob_matches(arguments.pattern, tensor->name()))
      ordinals->push_back(tensor->ordinal());
  }
  return ordinals;
}

// A source header that export could not give back is damage as well.
void add_source_header(const Model& model, VerifyReport& report) {
  const auto section = model.section(disk::SectionKind::source);
  if (!section || !*section) return;  // found out already, or there is none
  auto status = check_source_header(model);
  if (status) return;
  const auto begin =
      static_cast<std::uint64_t>((*section)->data() - model.mapped().data());
  report.damages.insert(report.damages.begin(),
                        {std::move(status).error(), begin, begin + (*section)->size()});
}

Result<VerifyReport> verify_with_bar(const Arguments& arguments, const Model& model) {
  auto tensors = chosen(arguments, model);
  if (!tensors) return std::move(tensors).error();
  ProgressBar bar("verifying");
  auto report = verify(model, {.threads = arguments.threads,
                               .progress = bar.callback(),
                               .tensors = *std::move(tensors)});
  if (report) add_source_header(model, *report);
  return report;
}

Result<VerifyReport> verify_file(const Arguments& arguments, FileCheck& check) {
  const auto model = open_with_bar(arguments, check.file);
  if (!model) return model.error();
  check.tensors = model->size();
  auto report = verify_with_bar(arguments, *model);
  if (!report) return report;
  if (auto unchanged = check_unchanged(*model); !unchanged)
    return std::move(unchanged).error();
  return report;
}

// The files of the set that the file is in, or the file; what keeps the set from being
// opened becomes the set's error. Fails for a folder without one model.
Result<ModelCheck> files_to_check(const Arguments& arguments) {
  OpenOptions options = arguments.open;
  options.validation = Validation::lazy;
  options.part = Part::metadata;
  options.load = {};
  ModelCheck check;
  const auto membership = ModelSet::membership(arguments.file);
  if (membership && !*membership) {
    const auto files = ModelSet::files_called_alike(arguments.file);
    if (files && files->size() == 1) {
      check.files.push_back({.file = arguments.file});
      return check;
    }
  }
  const auto set = ModelSet::open(arguments.file, options);
  if (!set) {
    // One that does not open must not hide what is wrong with the others.
    const auto files = ModelSet::files_called_alike(arguments.file);
    if (!files) return set.error();
    for (const std::string& file : *files) check.files.push_back({.file = file});
    const auto alone = ModelSet::open_alone(files->front(), options);
    check.is_set = files->size() > 1 || (alone && !alone->whole());
    if (check.is_set) check.set_error = set.error();
    return check;
  }
  check.is_set = set->shard().has_value();
  for (std::uint32_t m = 0; m < set->member_count(); ++m)
    check.files.push_back({.file = set->path(m)});
  return check;
}

// What no member alone can tell: the set's id, and the source's header.
Status check_set(const Arguments& arguments) {
  OpenOptions options = arguments.open;
  options.part = Part::metadata;
  options.load = {};
  const auto set = ModelSet::open(arguments.file, options);
  if (!set) return set.error();
  return check_source_header(*set);
}

bool nothing_matched(const Arguments& arguments, const FileCheck& file) {
  return arguments.scope() == Scope::some_tensors && file.report &&
         file.report->tensors == 0;
}

// Whether what is wrong with the set is what is wrong with one of its files.
bool is_told(const ModelCheck& check) {
  return std::ranges::any_of(check.files, [&](const FileCheck& file) {
    return !file.report && file.report.error().message() == check.set_error->message();
  });
}

int run_verify(const Arguments& arguments) {
  auto check = files_to_check(arguments);
  if (!check) return fail(check.error(), arguments.form);
  Output output(stdout, "standard output");
  for (FileCheck& file : check->files) {
    file.report = verify_file(arguments, file);
    if (!file.report && (!check->is_set || stop_signal() != 0))
      return fail(file.report.error(), arguments.form);
    if (arguments.form == Form::json || nothing_matched(arguments, file)) continue;
    file.report ? print_file(output, arguments.scope(), file)
                : tell("weig: " + file.report.error().message());
  }
  if (std::ranges::all_of(check->files, [&](const FileCheck& file) {
        return nothing_matched(arguments, file);
      }))
    return fail(Error(Code::not_found,
                      "no tensor's name matches " + in_quotes(arguments.pattern))
                    .file(arguments.file)
                    .hint("weig ls lists the names"),
                arguments.form);
  if (check->is_set && !check->set_error)
    if (auto whole = check_set(arguments); !whole)
      check->set_error = std::move(whole).error();
  if (arguments.form == Form::json)
    print_json(output, arguments.file, arguments.scope(), *check);
  else if (check->set_error && !is_told(*check))
    tell("weig: " + check->set_error->message());
  else if (check->is_set && !check->set_error)
    print_set(output, *check);
  return close_output(output, status_of(*check));
}

}  // namespace

Command add_verify(CLI::App& app) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* command =
      app.add_subcommand("verify", "Check every byte of a file against its digests");
  add_model(*command, arguments->file);
  command
      ->add_option("--threads", arguments->threads,
                   "How many threads to use, at most 1024; 0, the\ndefault: one a CPU")
      ->check(whole_number(1024))
      ->type_name("N");
  auto* quick = command->add_flag(
      "--quick", arguments->quick,
      "Only structure, sections and metadata: no\ntensor's bytes are read");
  command
      ->add_option("--tensors", arguments->pattern,
                   "Only tensors whose names match, as in a shell:\n"
                   "\"*.bias\"; not with --quick")
      ->type_name("PATTERN")
      ->excludes(quick);
  add_load(*command, arguments->open);
  add_accept_unsealed(*command, arguments->open);
  add_accept_unknown_dtypes(*command, arguments->open);
  add_json(*command, arguments->form);
  command->footer(
      "Of a set, all members are verified, that none is missing, and the set's id.\n"
      "Exit status: 0 sound; 3 the structure is damaged, or the file was changed\n"
      "meanwhile; 4 data differs from its digest; 5 what this weig does not know: a\n"
      "newer file, or a damaged header; 8 a page could not be read: a mapped file\n"
      "was cut, or its disk fails.\n"
      "--load read checks a copy: once that is read, nobody can cut it.");
  return {command, [arguments] { return run_verify(*arguments); }};
}

}  // namespace weig::cli
