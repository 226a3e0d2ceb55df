// SPDX-License-Identifier: Apache-2.0
// claim_load FILE: loads a model the weig way. The file is mapped and claimed; then
// every page of every tensor is touched, since what nobody touched is not loaded.
#include <weig/model.h>

#include <cstdio>

#include "loaded.h"

int main(int argc, char** argv) {
  if (argc != 2) return std::fputs("usage: claim_load FILE\n", stderr), 64;
  const auto model = weig::Model::open(argv[1]);
  if (!model) return std::fprintf(stderr, "%s\n", model.error().message().c_str()), 1;
  for (const auto& tensor : model->tensors()) bench::touch_pages(tensor->bytes());
  bench::report_loaded(model->mapped());
}
