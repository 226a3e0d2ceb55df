// SPDX-License-Identifier: Apache-2.0
// open_once FILE: opens a model in this fresh process and prints what a Python peer
// prints too: seconds to open, seconds to get at all names, how many there are; then
// seconds to a map of all tensors by name.
#include <weig/model.h>

#include <chrono>
#include <cstdio>
#include <string_view>
#include <unordered_map>

namespace {

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start)
      .count();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return std::fputs("usage: open_once FILE\n", stderr), 64;
  auto start = std::chrono::steady_clock::now();
  const auto model = weig::Model::open(argv[1]);
  const double open = seconds_since(start);
  if (!model) return std::fprintf(stderr, "%s\n", model.error().message().c_str()), 1;

  start = std::chrono::steady_clock::now();
  unsigned long long names = 0;
  for (const auto& tensor : model->tensors()) names += !tensor->name().empty();
  const double named = seconds_since(start);

  start = std::chrono::steady_clock::now();
  std::unordered_map<std::string_view, weig::Tensor> tensors;
  tensors.reserve(model->size());
  for (const auto& tensor : model->tensors()) tensors.emplace(tensor->name(), *tensor);
  const double mapped = seconds_since(start);
  if (tensors.size() != names) return 1;
  std::printf("%.9f %.9f %llu %.9f\n", open, named, names, mapped);
}
