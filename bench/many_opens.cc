// SPDX-License-Identifier: Apache-2.0
// many_opens FILE WAY THREADS COUNT: opens a model again and again in one process,
// loads it as WAY says, touches every page on THREADS threads and closes it. A line for
// each: seconds, bytes of anonymous memory after closing, mappings, open files.
#include <weig/model.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <iterator>

#include "loaded.h"

namespace {

int fail(const weig::Error& error) {
  return std::fprintf(stderr, "%s\n", error.message().c_str()), 1;
}

std::ptrdiff_t mapping_count() {
  std::ifstream maps("/proc/self/maps");
  return std::count(std::istreambuf_iterator<char>(maps), {}, '\n');
}

std::ptrdiff_t open_file_count() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {});
}

}  // namespace

int main(int argc, char** argv) {
  const auto way = weig::load_way_named(argc > 2 ? argv[2] : "");
  if (argc != 5 || !way)
    return std::fputs("usage: many_opens FILE WAY THREADS COUNT\n", stderr), 64;
  const auto threads = static_cast<unsigned>(std::strtoul(argv[3], nullptr, 10));
  const unsigned long count = std::strtoul(argv[4], nullptr, 10);
  for (unsigned long i = 0; i < count; ++i) {
    const auto start = std::chrono::steady_clock::now();
    {
      auto model = weig::Model::open(argv[1], {.load = {.way = *way}});
      if (!model) return fail(model.error());
      if (auto report = model->wait(); !report) return fail(report.error());
      std::vector<std::span<const std::byte>> tensors;
      for (const auto& tensor : model->tensors()) tensors.push_back(tensor->bytes());
      bench::touch_pages(tensors, threads);
    }
    const std::chrono::duration<double> taken =
        std::chrono::steady_clock::now() - start;
    std::printf("%.6f %llu %td %td\n", taken.count(),
                static_cast<unsigned long long>(bench::anonymous_bytes()),
                mapping_count(), open_file_count());
  }
}
