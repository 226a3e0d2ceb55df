// SPDX-License-Identifier: Apache-2.0
#include "app.h"

#include <fmt/format.h>
#include <weig/error.h>
#include <weig/format.h>
#include <weig/version.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "command.h"
#include "near_names.h"
#include "output.h"
#include "report.h"
#include "terminal.h"

namespace weig::cli {
namespace {

constexpr const char* kExitStatuses = R"(Exit status:
   0  success                      7  the output is there already
   1  doctor, diff: see there      8  the system failed to read or write
   2  cannot open a file           9  asked for something that cannot be
   3  not a sound file             10 over a limit that an option can raise
   4  data differs from its digest 11 out of memory
   5  needs what is not supported  64 wrong usage
   6  no tensor of that name
 130 after Ctrl-C, 143 after SIGTERM, 141 when the reader of a pipe is gone

'weig COMMAND --help' explains a command, 'man weig' everything.)";

std::string version_text() {
  return fmt::format(
      "weig {}\n"
      "format version {} (writer revision {})\n"
      "reads: WEIG (sealed, minimal, big-endian), safetensors (one file, shards), "
      "GGUF\n"
      "converts besides: PyTorch (archives, streams), NumPy (.npy, .npz), ONNX\n"
      "writes: WEIG, safetensors, GGUF, PyTorch, NumPy\n"
      "built with: CLI11 {}, fmt {}.{}.{}\n",
      WEIG_VERSION_STRING, disk::kVersion, disk::kWriterRevision, CLI11_VERSION,
      FMT_VERSION / 10000, FMT_VERSION / 100 % 100, FMT_VERSION % 100);
}

int print_data(const std::string& text) {
  Output output(stdout, "standard output");
  output.write(text);
  return close_output(output, 0);
}

std::vector<std::string> arguments(int argc, const char* const* argv) {
  std::vector<std::string> all(argv + std::min(argc, 1), argv + argc);
  for (std::string& argument : all)
    // CLI11 takes "[a,b]" for a list; as a path it means the same with "./" before it.
    if (!all.empty() && all.front() == "convert" && argument.starts_with('[') &&
        argument.ends_with(']'))
      argument.insert(0, "./");
  return all;
}

// "; did you mean ...?" where the word is almost an option of `app`.
std::string suggest_option(const CLI::App& app, const std::string& word) {
  std::vector<std::string> known;
  for (const CLI::Option* option : app.get_options())
    for (const std::string& name : option->get_lnames()) known.push_back("--" + name);
  if (!word.starts_with("--")) return {};
  const auto near = nearest(known, word.substr(0, word.find('=')));
  return near ? fmt::format("; did you mean '{}'?", *near) : std::string();
}

// Leaves out what an option excludes, which its description says where that matters.
class HelpText : public CLI::Formatter {
 public:
  std::string make_option_opts(const CLI::Option* option) const override {
    const std::string text = Formatter::make_option_opts(option);
    return text.substr(0, text.find(" Excludes:"));
  }
};

// How to tell that the words are not understood: as those of them say that are.
Form form_asked_for(const std::vector<std::string>& words) {
  const auto options_end = std::ranges::find(words, "--");
  return std::find(words.begin(), options_end, "--json") == options_end ? Form::text
                                                                        : Form::json;
}

int refuse_unknown_command(const std::vector<Command>& commands,
                           const std::string& word, Form form) {
  std::vector<std::string> known{"--help", "--version"};
  for (const Command& command : commands) known.push_back(command.app->get_name());
  const auto near = nearest(known, word);
  std::string message = fmt::format("no command is called {}", in_quotes(word));
  if (near) message += fmt::format("; did you mean '{}'?", *near);
  return fail_usage("weig", message, form);
}

// What CLI11 says of an option that comes twice or without its value, in plain words.
std::string plain_words(const CLI::ParseError& error) {
  std::string text = printable(error.what());
  const std::string name = text.substr(0, text.find(": "));
  if (text.find(": At Most 1 required") != text.npos)
    return name + " is given more than once";
  if (text.find(": 1 required ") != text.npos && text.ends_with(" missing"))
    return name + " needs a value";
  return text;
}

int refuse_call(const CLI::App& app, const CLI::ParseError& error, Form form) {
  const auto chosen = app.get_subcommands();
  const CLI::App& command = chosen.empty() ? app : *chosen.front();
  const auto extra = command.remaining();
  std::string message = plain_words(error);
  // CLI11 names them in the order of its stack, and a missing command before them.
  if (!extra.empty())
    message = fmt::format("{} is not expected{}", in_quotes(extra.front()),
                          suggest_option(command, extra.front()));
  if (chosen.empty()) return fail_usage("weig", message, form);
  return fail_usage("weig " + command.get_name(), message, form);
}

int parse_and_run(CLI::App& app, const std::vector<Command>& commands,
                  std::vector<std::string> words) {
  const Form form = form_asked_for(words);
  if (words.empty())
    return fail_usage("weig", "say what to do, for example 'weig info FILE'", form);
  const bool is_option = words.front().starts_with('-');
  const auto is_named = [&](const Command& command) {
    return command.app->get_name() == words.front();
  };
  if (!is_option && std::none_of(commands.begin(), commands.end(), is_named))
    return refuse_unknown_command(commands, words.front(), form);
  std::reverse(words.begin(), words.end());  // as CLI11 wants them
  try {
    app.parse(std::move(words));
  } catch (const CLI::CallForHelp&) {
    return print_data(app.help());
  } catch (const CLI::CallForVersion&) {
    return print_data(version_text());
  } catch (const CLI::ParseError& error) {
    return refuse_call(app, error, form);
  }
  for (const Command& command : commands)
    if (command.app->parsed()) return command.run();
  return kUsageStatus;  // not reached: CLI11 refuses a call without a command
}

}  // namespace

int run(int argc, const char* const* argv) {
  try {
    CLI::App app("weig: model weights as a file that is mapped instead of loaded.",
                 "weig");
    app.formatter(std::make_shared<HelpText>());
    app.get_formatter()->column_width(28);
    app.set_help_flag("-h,--help", "Explain this");
    app.set_version_flag("--version", std::string("weig"),
                         "Show versions, and the formats read and written");
    app.require_subcommand(1);
    app.footer(kExitStatuses);
    const std::vector<Command> commands{
        add_convert(app), add_info(app),   add_ls(app),        add_get(app),
        add_verify(app),  add_export(app), add_merge(app),     add_diff(app),
        add_apply(app),   add_bench(app),  add_residency(app), add_warm(app),
        add_evict(app),   add_doctor(app)};
    return parse_and_run(app, commands, arguments(argc, argv));
  } catch (const std::bad_alloc&) {
    return fail(Error(Code::no_memory, "out of memory"), Form::text);
  } catch (const std::exception& error) {
    return fail(Error(Code::io, printable(error.what())), Form::text);
  }
}

}  // namespace weig::cli
