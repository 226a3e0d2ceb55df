// SPDX-License-Identifier: Apache-2.0
// guard_hold [--required] [--way=WAY] [--pause] FILE...: opens guarded models and
// answers lines from standard input: "report" (as JSON), "sum" (a number that depends
// on every byte of the weights), "changed", "load WAY" (loads, and says how that went);
// each may name a model by its place, "sum 1". "setuid N" gives up the user's rights.
// With
// --pause, a load says "loading" when it has begun, and waits for a line. Ends with its
// input. For tests that need a state of the system around it.
#include <weig/weig.h>

#include <grp.h>
#include <unistd.h>

#include <iostream>
#include <sstream>
#include <string>
#include <vector>

#include "loaded_model.h"

namespace {

struct Arguments {
  weig::OpenOptions open = {.guard = weig::Guard::wanted};
  std::vector<std::string> files;
  bool pause = false;
};

// Says that it has begun, once a load, and waits for a line.
weig::Progress pausing() {
  return [first = true](std::uint64_t, std::uint64_t) mutable {
    if (!first) return true;
    first = false;
    std::cout << "loading" << std::endl;
    std::string line;
    return static_cast<bool>(std::getline(std::cin, line));
  };
}

weig::LoadOptions load_options(const Arguments& arguments, std::string_view way) {
  weig::LoadOptions options;
  options.way = weig::load_way_named(way).value();
  options.threads = 1;  // so that one step waits for the other
  if (arguments.pause) options.progress = pausing();
  return options;
}

Arguments read(int argc, char** argv) {
  Arguments arguments;
  std::string way = "map";
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--required")
      arguments.open.guard = weig::Guard::required;
    else if (word == "--pause")
      arguments.pause = true;
    else if (word.starts_with("--way="))
      way = word.substr(6);
    else
      arguments.files.push_back(word);
  }
  arguments.open.load = load_options(arguments, way);
  return arguments;
}

std::string report_text(const weig::GuardReport& report, const weig::LoadReport& load) {
  std::ostringstream text;
  text << R"({"state": ")" << weig::guard_state_name(report.state)
       << R"(", "reason": ")" << report.reason << R"(", "bytes": )" << report.bytes
       << R"(, "seconds_expected": )" << report.seconds_expected
       << R"(, "seconds_allowed": )" << report.seconds_allowed.value_or(-1)
       << R"(, "way": ")" << weig::load_way_name(load.way) << R"("})";
  return text.str();
}

std::string answer(const Arguments& arguments, std::vector<weig::Model>& models,
                   std::istringstream& words) {
  std::string what;
  std::string way;
  std::size_t which = 0;
  words >> what;
  if (what == "load") words >> way;
  words >> which;
  if (what == "setuid")
    return ::setgroups(0, nullptr) == 0 && ::setuid(static_cast<uid_t>(which)) == 0
               ? "dropped"
               : "refused";
  weig::Model& model = models.at(which);
  if (what == "report") return report_text(model.guard_report(), model.load_report());
  if (what == "sum") return std::to_string(weig::test::sum_of(model));
  if (what == "load") {
    const auto loaded = model.load(load_options(arguments, way));
    return loaded ? "loaded" : loaded.error().message();
  }
  constexpr const char* kNames[] = {"none", "removed", "replaced", "modified"};
  return kNames[static_cast<int>(model.changed().value())];
}

}  // namespace

int main(int argc, char** argv) {
  const Arguments arguments = read(argc, argv);
  std::vector<weig::Model> models;
  for (const std::string& file : arguments.files) {
    auto model = weig::Model::open(file, arguments.open);
    if (!model) {
      std::cerr << model.error().message() << '\n';
      return static_cast<int>(model.error().code());
    }
    models.push_back(*std::move(model));
  }
  if (models.empty()) return std::cerr << "usage: guard_hold [OPTION...] FILE...\n", 64;
  for (std::string line; std::getline(std::cin, line);) {
    std::istringstream words(line);
    std::cout << answer(arguments, models, words) << std::endl;
  }
}
