// SPDX-License-Identifier: Apache-2.0
// load_file FILE WAY [refuse|open]: loads a model and prints the report as JSON, with a
// number that depends on every byte of it; `refuse`: fails where it cannot be mapped;
// `open`: tells how long opening takes and how much of the file it leaves in memory,
// and touches nothing. For tests that need a state of the system around a process.
#include <weig/model.h>
#include <weig/page_cache.h>

#include <chrono>
#include <cstdio>
#include <string_view>

#include "loaded_model.h"

namespace {

void print(const char* name, const std::optional<std::uint64_t>& number) {
  if (number)
    std::printf("\"%s\": %llu, ", name, static_cast<unsigned long long>(*number));
  else
    std::printf("\"%s\": null, ", name);
}

void print(const char* name, std::string_view text) {
  std::printf("\"%s\": \"%.*s\", ", name, static_cast<int>(text.size()), text.data());
}

}  // namespace

int main(int argc, char** argv) {
  const auto way = argc > 2 ? weig::load_way_named(argv[2]) : std::nullopt;
  if (!way) return std::fputs("usage: load_file FILE WAY [MODE]\n", stderr), 64;
  const std::string_view mode = argc > 3 ? argv[3] : "";
  const auto fallback =
      mode == "refuse" ? weig::Fallback::refuse : weig::Fallback::read;
  const auto start = std::chrono::steady_clock::now();
  auto model =
      weig::Model::open(argv[1], {.load = {.way = *way, .fallback = fallback}});
  const std::chrono::duration<double> seconds =
      std::chrono::steady_clock::now() - start;
  const auto report =
      model ? model->wait() : weig::Result<weig::LoadReport>(model.error());
  if (!report) {
    std::fprintf(stderr, "%s\n", report.error().message().c_str());
    return static_cast<int>(report.error().code());
  }
  std::printf("{");
  print("way", weig::load_way_name(report->way));
  print("reason", report->reason);
  std::printf("\"warnings\": [");
  for (std::size_t i = 0; i < report->warnings.size(); ++i)
    std::printf("%s\"%s\"", i > 0 ? ", " : "", report->warnings[i].c_str());
  std::printf("], \"direct_io\": %s, ", report->direct_io ? "true" : "false");
  print("threads", report->threads);
  print("bytes", report->bytes);
  print("major_faults", report->major_faults);
  print("minor_faults", report->minor_faults);
  print("resident_before", report->resident_before);
  print("resident_after", report->resident_after);
  print("huge_mapped", report->huge_mapped);
  if (mode == "open") {
    print("resident", weig::page_cache(argv[1]).value().resident);
    std::printf("\"open_seconds\": %.6f}\n", seconds.count());
    return 0;
  }
  std::printf("\"sum\": %llu}\n",
              static_cast<unsigned long long>(weig::test::sum_of(*model)));
}
