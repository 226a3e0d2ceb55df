// SPDX-License-Identifier: Apache-2.0
// weig doctor: what will slow or break loading here, and the command that mends it.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "command.h"
#include "doctor_checks.h"
#include "doctor_facts.h"
#include "json.h"
#include "options.h"
#include "quantity.h"
#include "report.h"
#include "terminal.h"

namespace weig::cli {
namespace {

constexpr std::size_t kIndent = 2;
constexpr std::size_t kVerdictWidth = 6;
constexpr std::size_t kNameWidth = 14;
constexpr std::size_t kMendIndent = kIndent + kVerdictWidth + 2;
constexpr std::size_t kSaysIndent = kMendIndent + kNameWidth + 2;

struct Arguments {
  std::string file;
  Form form = Form::text;
};

struct Looked {
  std::string_view name;
  Finding finding;
};

std::vector<Looked> look(std::span<const Check> checks, const SystemFacts& system,
                         const FileFacts* file) {
  std::vector<Looked> results;
  for (const Check& check : checks)
    if (auto finding = check.look(system, file))
      results.push_back({check.name, *std::move(finding)});
  return results;
}

int status_of(const std::vector<Looked>& results) {
  const bool breaks = std::ranges::any_of(results, [](const Looked& result) {
    return result.finding.verdict == Verdict::breaks;
  });
  return breaks ? kFindingsStatus : 0;
}

void print_text(Output& output, const SystemFacts& system, const FileFacts* file,
                const std::vector<Looked>& results) {
  const auto line = [&output](const std::string& text, std::size_t indent) {
    output.print("{}\n", fitting(Stream::output, text, indent));
  };
  std::string head = fmt::format("Linux {}, {}", printable(system.kernel),
                                 counted(system.cpus, "CPU"));
  if (file) head += "; " + printable(file->path);
  line(head, kIndent);
  std::size_t mends = 0;
  for (const auto& [name, finding] : results) {
    line(fmt::format("  {:<{}}  {:<{}}  {}", verdict_name(finding.verdict),
                     kVerdictWidth, name, kNameWidth, printable(finding.says)),
         kSaysIndent);
    // A command is never wrapped: copied from the terminal, it is one line.
    const std::string indent(kMendIndent, ' ');
    if (!finding.command.empty()) output.print("{}mend: {}\n", indent, finding.command);
    if (!finding.advice.empty())
      line(fmt::format("{}{}{}", indent, finding.command.empty() ? "try:  " : "or:   ",
                       printable(finding.advice)),
           kMendIndent + std::string_view("try:  ").size());
    mends += finding.verdict == Verdict::fine ? 0 : 1;
  }
  if (mends == 0) output.print("  nothing here slows or breaks loading\n");
}

void print_json(Output& output, const Arguments& arguments,
                const std::vector<Looked>& results) {
  const auto text = [](Json& json, std::string_view key, const std::string& value) {
    json.key(key);
    value.empty() ? json.null() : json.value(value);
  };
  Json json(output, 2);
  json.begin_object();
  text(json, "file", arguments.file);
  json.member("status", status_of(results));
  json.key("checks").begin_array();
  for (const auto& [name, finding] : results) {
    json.begin_object().member("check", name);
    json.member("verdict", verdict_name(finding.verdict));
    json.member("says", finding.says);
    text(json, "command", finding.command);
    text(json, "advice", finding.advice);
    json.end_object();
  }
  json.end_array().end_object();
}

int run_doctor(const Arguments& arguments) {
  const SystemFacts system = system_facts();
  std::optional<FileFacts> file;
  if (!arguments.file.empty()) {
    auto facts = file_facts(arguments.file, system);
    if (!facts) return fail(facts.error(), arguments.form);
    file = *std::move(facts);
  }
  const FileFacts* named = file ? &*file : nullptr;
  std::vector<Looked> results;
  if (named) results = look(file_checks(), system, named);
  std::ranges::move(look(system_checks(), system, named), std::back_inserter(results));
  Output output(stdout, "standard output");
  arguments.form == Form::json ? print_json(output, arguments, results)
                               : print_text(output, system, named, results);
  return close_output(output, status_of(results));
}

}  // namespace

Command add_doctor(CLI::App& app) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* command =
      app.add_subcommand("doctor", "Say what will slow or break loading here");
  command->add_option("FILE", arguments->file, "A WEIG or safetensors file")
      ->check(file_name())
      ->type_name("");
  add_json(*command, arguments->form);
  command->footer(
      "Each finding comes with the command that mends it, or with what to try.\n"
      "Exit status: 0 nothing breaks loading, 1 something does.");
  return {command, [arguments] { return run_doctor(*arguments); }};
}

}  // namespace weig::cli
