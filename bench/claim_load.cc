// SPDX-License-Identifier: Apache-2.0
// claim_load FILE [WAY [THREADS [digests|awake]]]: loads a model the weig way: it is
// claimed, loaded as WAY says (map: not at all), and then every page of every tensor is
// touched on THREADS threads, since what nobody touched is not loaded. Default: map,
// one thread. `digests`: every byte is compared with its digest while it comes in.
// `awake`: it begins on a processor that has just been busy.
#include <weig/model.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "loaded.h"

namespace {

int fail(const weig::Error& error) {
  return std::fprintf(stderr, "%s\n", error.message().c_str()), 1;
}

}  // namespace

int main(int argc, char** argv) {
  const auto way = weig::load_way_named(argc > 2 ? argv[2] : "map");
  const unsigned long threads = argc > 3 ? std::strtoul(argv[3], nullptr, 10) : 1;
  const std::string how = argc == 5 ? argv[4] : "";
  const bool digests = how == "digests";
  const bool awake = how == "awake";
  if (argc < 2 || argc > (digests || awake ? 5 : 4) || !way || threads == 0) {
    std::fputs("usage: claim_load FILE [WAY [THREADS [digests|awake]]]\n", stderr);
    return 64;
  }

  if (awake) bench::begin_awake();
  const auto verify = digests ? weig::Verify::digests : weig::Verify::structure;
  auto model = weig::Model::open(argv[1], {.load = {.way = *way}, .verify = verify});
  if (!model) return fail(model.error());
  const auto report = model->wait();
  if (!report) return fail(report.error());
  for (const std::string& warning : report->warnings)
    std::fprintf(stderr, "claim_load: %s\n", warning.c_str());

  std::vector<std::span<const std::byte>> tensors;
  tensors.reserve(model->size());
  for (const auto& tensor : model->tensors()) tensors.push_back(tensor->bytes());
  bench::touch_pages(tensors, static_cast<unsigned>(threads));
  bench::report_loaded(model->mapped(), std::string(weig::load_way_name(report->way)));
}
