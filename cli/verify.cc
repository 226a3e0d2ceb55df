// SPDX-License-Identifier: Apache-2.0
// weig verify: is every byte what the writer wrote?
#include <fmt/format.h>
#include <weig/convert.h>
#include <weig/verify.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "command.h"
#include "glob.h"
#include "host.h"
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
  OpenOptions open;
  unsigned threads = 0;
  std::string pattern;  // of names; empty: all tensors
  bool quick = false;   // none
  Form form = Form::text;
};

std::size_t count_of(const VerifyReport& report, Code code) {
  return static_cast<std::size_t>(std::ranges::count_if(
      report.damages,
      [&](const Damage& damage) { return damage.error.code() == code; }));
}

// Damage to the structure weighs more than damage to numbers, and what is damaged more
// than what this version cannot check.
int status_of(const VerifyReport& report) {
  if (report.sound()) return 0;
  for (const Code code : {Code::corrupt, Code::checksum})
    if (count_of(report, code) > 0) return static_cast<int>(code);
  return static_cast<int>(report.damages.front().error.code());
}

bool is_damage(const Damage& damage) {
  const Code code = damage.error.code();
  return code == Code::corrupt || code == Code::checksum;
}

// One damaged place on one line: digests are for --json.
std::string damage_text(const Damage& damage) {
  const Error::Fields& fields = damage.error.fields();
  std::string text = is_damage(damage) ? "damaged: " : "not checked: ";
  if (fields.names_tensor) text += fmt::format("tensor {}, ", in_quotes(fields.tensor));
  text += fmt::format("bytes [{}, {}), {}: ", damage.begin, damage.end,
                      short_bytes(damage.end - damage.begin));
  if (damage.error.code() == Code::checksum)
    return text + "they differ from their digest";
  text += printable(fields.what);
  if (fields.offset != Error::kNoOffset && fields.offset != damage.begin)
    text += fmt::format(", at offset {}", fields.offset);
  if (!fields.found.empty()) text += ": found " + printable(fields.found);
  if (!fields.expected.empty())
    text += fmt::format("{} expected {}", fields.found.empty() ? ":" : ",",
                        printable(fields.expected));
  if (!fields.hint.empty()) text += fmt::format(" ({})", printable(fields.hint));
  return text;
}

std::string damages_text(const VerifyReport& report) {
  const std::size_t damaged =
      count_of(report, Code::corrupt) + count_of(report, Code::checksum);
  const std::size_t unchecked = report.damages.size() - damaged;
  std::string text =
      damaged > 0 ? counted(damaged, "damaged place") : "no damage found";
  if (unchecked > 0)
    text += fmt::format(", {} that cannot be checked", counted(unchecked, "place"));
  return text;
}

// What was checked, and how that came out.
std::string verdict(const Arguments& arguments, const VerifyReport& report,
                    std::uint64_t tensors) {
  const std::string damages = report.sound() ? "" : damages_text(report) + "; ";
  if (arguments.quick)
    return report.sound()
               ? "structure, sections and metadata are sound; weights were not checked"
               : damages + "only structure, sections and metadata were checked";
  if (report.tensors_with_digest == 0 && report.tensors > 0)
    return fmt::format("{}there are no {}digests to check the weights by",
                       report.sound() ? "the structure is sound; " : damages,
                       report.sound() ? "" : "sound ");
  const std::string checked =
      arguments.pattern.empty()
          ? counted(report.tensors_with_digest, "tensor")
          : fmt::format("{} of {}", grouped(report.tensors_with_digest),
                        counted(tensors, "tensor"));
  return fmt::format("{}{} checked; {}, {}, {}", report.sound() ? "sound, " : damages,
                     checked, short_bytes(report.bytes), duration(report.seconds),
                     rate(report.bytes, report.seconds));
}

void print_text(Output& output, const Arguments& arguments, const VerifyReport& report,
                std::uint64_t tensors) {
  const auto print = [&output](const std::string& line) {
    output.print("{}\n", fitting(Stream::output, line, 2));
  };
  for (const Damage& damage : report.damages) print(damage_text(damage));
  print(printable(arguments.file) + ": " + verdict(arguments, report, tensors));
}

void print_damage(Json& json, const Damage& damage) {
  const Error::Fields& fields = damage.error.fields();
  json.begin_object().member("code", code_name(damage.error.code()));
  json.key("tensor");
  fields.names_tensor ? json.value(fields.tensor) : json.null();
  json.member("begin", damage.begin).member("end", damage.end);
  json.member("what", fields.what);
  json.member("message", damage.error.message());
  json.end_object();
}

void print_json(Output& output, const Arguments& arguments,
                const VerifyReport& report) {
  Json json(output, 2);
  json.begin_object().member("file", arguments.file);
  json.member("checked", arguments.quick             ? "structure"
                         : arguments.pattern.empty() ? "everything"
                                                     : "some tensors");
  json.member("sound", report.sound()).member("status", status_of(report));
  json.member("tensors", report.tensors);
  json.member("tensors_with_digest", report.tensors_with_digest);
  json.member("bytes", report.bytes).member("seconds", report.seconds);
  json.key("damages").begin_array();
  for (const Damage& damage : report.damages) print_damage(json, damage);
  json.end_array().end_object();
}

// Loads as the options say, with a bar. A stream has none, since it runs while what it
// loads is verified.
Result<Model> open_with_bar(const Arguments& arguments) {
  OpenOptions options = arguments.open;
  options.load.threads = arguments.threads;
  if (arguments.quick) options.load.way = LoadWay::map;
  if (options.load.way == LoadWay::stream) {
    options.load.progress = [](std::uint64_t, std::uint64_t) {
      return stop_signal() == 0;
    };
    return open_model(arguments.file, options);
  }
  ProgressBar bar("loading");
  options.load.progress = bar.callback();
  return open_model(arguments.file, options);
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
  if (ordinals->empty())
    return Error(Code::not_found,
                 "no tensor's name matches " + in_quotes(arguments.pattern))
        .file(arguments.file)
        .hint("weig ls lists the names");
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

int run_verify(const Arguments& arguments) {
  const auto model = open_with_bar(arguments);
  if (!model) return fail(model.error(), arguments.form);
  const auto report = verify_with_bar(arguments, *model);
  if (!report) return fail(report.error(), arguments.form);
  if (const auto unchanged = check_unchanged(*model); !unchanged)
    return fail(unchanged.error(), arguments.form);
  Output output(stdout, "standard output");
  arguments.form == Form::json ? print_json(output, arguments, *report)
                               : print_text(output, arguments, *report, model->size());
  return close_output(output, status_of(*report));
}

}  // namespace

Command add_verify(CLI::App& app) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* command =
      app.add_subcommand("verify", "Check every byte of a file against its digests");
  add_file(*command, arguments->file);
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
      "Exit status: 0 sound; 3 the structure is damaged, or the file was changed\n"
      "meanwhile; 4 data differs from its digest; 5 what this weig does not know: a\n"
      "newer file, or a damaged header; 8 a page could not be read: a mapped file\n"
      "was cut, or its disk fails.\n"
      "--load read checks a copy: once that is read, nobody can cut it.");
  return {command, [arguments] { return run_verify(*arguments); }};
}

}  // namespace weig::cli
