// SPDX-License-Identifier: Apache-2.0
// weig bench: how long loading takes here, each way, and where the time goes.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bench/page.h"
#include "bench/runner.h"
#include "bench/table.h"
#include "bench/trace.h"
#include "bench/usage.h"
#include "command.h"
#include "host.h"
#include "new_file.h"
#include "options.h"
#include "report.h"
#include "terminal.h"

namespace weig::cli::bench {
namespace {

struct Arguments {
  Settings settings;
  std::string ways = "map,stream,populate,read,auto,copy,buffer,plain";
  std::string states = "cold,warm";
  std::string page;  // where to write it; empty: nowhere
  Existing existing = Existing::refuse;
  Form form = Form::text;
};

// The items of a list between commas, each once; nothing, and `wrong`, where `named`
// knows one of them not.
template <typename Item>
std::optional<std::vector<Item>> items(std::string_view text,
                                       std::optional<Item> (*named)(std::string_view),
                                       std::string& wrong) {
  std::vector<Item> found;
  for (;;) {
    const std::string_view word = text.substr(0, text.find(','));
    const std::optional<Item> item = named(word);
    if (!item) {
      wrong = word;
      return {};
    }
    if (std::ranges::count(found, *item) == 0) found.push_back(*item);
    if (word.size() == text.size()) return found;
    text.remove_prefix(word.size() + 1);
  }
}

std::optional<Way> loader_named(std::string_view name) {
  const auto way = way_named(name);
  return way && !is_raw(*way) ? way : std::nullopt;
}

std::optional<State> state_named_so(std::string_view name) { return state_named(name); }

// Reads the two lists; the message where one is wrong.
std::string read_lists(Arguments& arguments) {
  std::string wrong;
  const auto ways = items<Way>(arguments.ways, loader_named, wrong);
  if (!ways)
    return fmt::format(
        "--ways: no way is called {}; there are map, stream, populate, "
        "read, auto, copy, buffer and plain",
        in_quotes(wrong));
  auto states = items<State>(arguments.states, state_named_so, wrong);
  if (!states)
    return fmt::format("--states: no state is called {}; there are cold and warm",
                       in_quotes(wrong));
  arguments.settings.ways = *ways;
  std::ranges::sort(*states);  // warm last: it is made once a round
  arguments.settings.states = *std::move(states);
  return {};
}

// Fails where ways were tried and none loaded the file, as the first of them did.
Status check_any_loaded(const Report& report) {
  const Sample* first = nullptr;
  for (const Row& row : report.rows) {
    if (is_raw(row.way)) continue;  // they read bytes of any kind
    for (const auto* samples : {&row.backed, &row.fresh})
      for (const Sample& sample : *samples) {
        if (sample.figures) return {};
        if (!first || sample.order < first->order) first = &sample;
      }
  }
  if (!first) return {};  // all were refused, and the table says why
  const bool has_code = first->status >= static_cast<int>(Code::cannot_open) &&
                        first->status <= static_cast<int>(Code::no_memory);
  return Error(has_code ? static_cast<Code>(first->status) : Code::io,
               "no way could load the file")
      .file(report.subject.file);
}

Status write_page(NewFile& file, const Arguments& arguments, const Report& report,
                  Preparation& prepare) {
  const auto traces = trace_all(arguments.settings, report, prepare);
  if (!traces) return traces.error();
  print_page(file.output(), report, *traces);
  return file.publish();
}

int run_bench(Arguments& arguments) {
  poll_for_stops();  // its processes and files go with it
  if (const std::string wrong = read_lists(arguments); !wrong.empty())
    return fail_usage("weig bench", wrong, arguments.form);
  const Settings& settings = arguments.settings;
  const auto subject = subject_of(settings);
  if (!subject) return fail(subject.error(), arguments.form);
  if (settings.with_fresh && !may_drop_caches())
    return fail(Error(Code::invalid_argument,
                      "--fresh drops the page cache of the whole machine, which only "
                      "root may"),
                arguments.form);
  // Now, and not after minutes: whether the page can be written.
  std::optional<NewFile> page;
  if (!arguments.page.empty()) {
    auto created = NewFile::create(arguments.page, arguments.existing, settings.file);
    if (!created) return fail(created.error(), arguments.form);
    page.emplace(*std::move(created));
  }
  Preparation prepare(*subject, settings.open);
  const auto report = measure(settings, *subject, prepare);
  if (!report) return fail(report.error(), arguments.form);
  if (page)
    if (const Status status = write_page(*page, arguments, *report, prepare); !status)
      return fail(status.error(), arguments.form);
  // All is measured: whoever says stop now is too late.
  Output output(stdout, "standard output", OnSignal::finish);
  arguments.form == Form::json ? print_json(output, *report)
                               : print_table(output, *report);
  const Status loaded = check_any_loaded(*report);
  const int status = close_output(output, 0);
  return status != 0 || loaded ? status : fail(loaded.error(), Form::text);
}

void add_choices(CLI::App& command, Arguments& arguments) {
  command
      .add_option("--ways", arguments.ways,
                  "Which, between commas; without it, weig's own\n"
                  "map,stream,populate,read,auto and, to compare,\n"
                  "copy (read, parse, malloc and copy a tensor),\n"
                  "buffer (one read into one buffer) and plain\n"
                  "(mmap as it comes)")
      ->type_name("LIST");
  command
      .add_option(
          "--states", arguments.states,
          "cold (nothing of the file in memory), warm (all\nof it), or both, the "
          "default")
      ->type_name("LIST");
  command
      .add_option("--rounds", arguments.settings.rounds,
                  "How many runs of each, at most 1000; without it, 5")
      ->check(whole_number(1000, 1))
      ->type_name("N");
  command
      .add_option("--threads", arguments.settings.threads,
                  "Threads that load and that touch, at most 64; 0,\n"
                  "the default, as many as suit")
      ->check(whole_number(64))
      ->type_name("N");
  command.add_flag("--fresh", arguments.settings.with_fresh,
                   "Also with memory that lay idle: drops the whole\n"
                   "page cache and waits 5 s before each run; root only");
}

}  // namespace
}  // namespace weig::cli::bench

namespace weig::cli {

Command add_bench(CLI::App& app) {
  auto arguments = std::make_shared<bench::Arguments>();
  CLI::App* command =
      app.add_subcommand("bench", "Measure how fast a file loads here, in every way");
  add_file(*command, arguments->settings.file);
  bench::add_choices(*command, *arguments);
  command
      ->add_option("--html", arguments->page,
                   "Write a page with plots too: time, memory over\n"
                   "time, and what of the file is in memory when")
      ->check([](const std::string& path) {
        return std::string(path.empty() ? "the name is empty" : "");
      })
      ->type_name("DST");
  add_force(*command, arguments->existing);
  add_accept_unsealed(*command, arguments->settings.open);
  add_accept_unknown_dtypes(*command, arguments->settings.open);
  add_json(*command, arguments->form);
  command->footer(
      "Each run is a fresh process; the file is made cold or warm before it, and that\n"
      "is proven. Raw readings of the same file in the same rounds are the yardstick.\n"
      "Examples:\n"
      "  weig bench model.weig\n"
      "  weig bench model.weig --ways auto,copy --states cold --rounds 3\n"
      "  weig bench model.weig --html report.html");
  return {command, [arguments] { return bench::run_bench(*arguments); }};
}

}  // namespace weig::cli
