// SPDX-License-Identifier: Apache-2.0
// The weig command. Everything is in app.cc and one file a sub-command.
#include "app.h"
#include "bench/worker.h"
#include "host.h"

int main(int argc, char** argv) {
  weig::cli::prepare_process();
  // Before anything that costs time: what such a process does is measured.
  if (weig::cli::bench::is_worker(argc, argv))
    return weig::cli::bench::work(argc, argv);
  return weig::cli::run(argc, argv);
}
