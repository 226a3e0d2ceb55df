// SPDX-License-Identifier: Apache-2.0
// guard_hold FILE: opens a model with Guard::wanted and answers lines from standard
// input: "report" (as JSON), "sum" (a number that depends on every byte of the
// weights), "changed". Ends with its input. For tests that need a state of the system
// around it.
#include <weig/weig.h>

#include <iostream>
#include <string>

#include "loaded_model.h"

namespace {

void print_report(const weig::GuardReport& report) {
  std::cout << R"({"state": ")" << weig::guard_state_name(report.state)
            << R"(", "reason": ")" << report.reason << R"(", "bytes": )" << report.bytes
            << R"(, "seconds_expected": )" << report.seconds_expected
            << R"(, "seconds_allowed": )" << report.seconds_allowed.value_or(-1) << "}"
            << std::endl;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return std::cerr << "usage: guard_hold FILE\n", 64;
  const auto model = weig::Model::open(argv[1], {.guard = weig::Guard::wanted});
  if (!model) return std::cerr << model.error().message() << '\n', 1;
  for (std::string line; std::getline(std::cin, line);) {
    if (line == "report") print_report(model->guard_report());
    if (line == "sum") std::cout << weig::test::sum_of(*model) << std::endl;
    if (line == "changed") {
      constexpr const char* kNames[] = {"none", "removed", "replaced", "modified"};
      std::cout << kNames[static_cast<int>(model->changed().value())] << std::endl;
    }
  }
}
