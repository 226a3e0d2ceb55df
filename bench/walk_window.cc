// SPDX-License-Identifier: Apache-2.0
// walk_window FILE RESIDENT ROUNDS MS_PER_MB: walks through all layer groups of a model
// in a window of RESIDENT groups, ROUNDS times, and touches every page. For each MB
// (10^6 bytes) of a group it then computes for MS_PER_MB milliseconds. Says how long
// that took, and to how many bytes of the file the process's page table led at most, in
// each round.
#include <weig/model.h>
#include <weig/parts.h>
#include <weig/window.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "loaded.h"

namespace {

int fail(const weig::Error& error) {
  return std::fprintf(stderr, "%s\n", error.message().c_str()), 1;
}

void compute_for(std::chrono::duration<double> time) {
  const auto end = std::chrono::steady_clock::now() + time;
  while (std::chrono::steady_clock::now() < end) continue;
}

// Bytes of files that this process has mapped and present.
std::uint64_t file_bytes() {
  std::ifstream status("/proc/self/status");
  std::uint64_t kib = 0;
  for (std::string line; std::getline(status, line);)
    kib += bench::kib_of(line, "RssFile");
  return kib * 1024;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5)
    return std::fputs("usage: walk_window FILE RESIDENT ROUNDS MS_PER_MB\n", stderr),
           64;
  const auto resident = static_cast<std::uint32_t>(std::strtoul(argv[2], nullptr, 10));
  const unsigned long rounds = std::strtoul(argv[3], nullptr, 10);
  const double ms_per_mb = std::strtod(argv[4], nullptr);

  auto model = weig::Model::open(argv[1]);
  if (!model) return fail(model.error());
  auto window =
      weig::Window::over(*model, {.resident = resident, .around = rounds > 1});
  if (!window) return fail(window.error());
  const auto start = std::chrono::steady_clock::now();
  std::vector<std::uint64_t> most(rounds);
  for (std::uint64_t i = 0; i < rounds * window->size(); ++i) {
    const auto group = window->next();
    if (!group) return fail(group.error());
    double megabytes = 0;
    for (std::uint32_t at = group->first; at < group->first + group->count; ++at) {
      const auto tensor = (*model)[at];
      if (!tensor) return fail(tensor.error());
      bench::touch_pages(tensor->bytes());
      megabytes += static_cast<double>(tensor->byte_count()) / 1e6;
    }
    compute_for(std::chrono::duration<double>(megabytes * ms_per_mb / 1e3));
    std::uint64_t& most_in_round = most[i / window->size()];
    most_in_round = std::max(most_in_round, file_bytes());
  }
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
  const weig::WindowReport report = window->report();
  std::printf(
      "{\"seconds\": %.6f, \"waited\": %.6f, \"loaded\": %llu, "
      "\"released\": %llu, \"most_present\": [",
      taken.count(), report.seconds_waited,
      static_cast<unsigned long long>(report.bytes_loaded),
      static_cast<unsigned long long>(report.bytes_released));
  for (std::size_t round = 0; round < most.size(); ++round)
    std::printf("%s%llu", round > 0 ? ", " : "",
                static_cast<unsigned long long>(most[round]));
  std::puts("]}");
}
