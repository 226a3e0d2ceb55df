// SPDX-License-Identifier: Apache-2.0
// The weig command. Everything is in app.cc and one file a sub-command.
#include "app.h"
#include "host.h"

int main(int argc, char** argv) {
  weig::cli::prepare_process();
  return weig::cli::run(argc, argv);
}
