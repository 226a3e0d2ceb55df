// SPDX-License-Identifier: Apache-2.0
// How long it takes to open a file, to find a tensor and to walk all of them, by the
// number of tensors, with the file in the page cache. Opening is all of Model::open,
// system calls included; closing again is on the clock too.
#include <benchmark/benchmark.h>
#include <weig/model.h>
#include <weig/writer.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

namespace {

std::filesystem::path folder;

std::string tensor_name(std::int64_t i) {
  return "model.layers." + std::to_string(i / 8) + ".mlp.w" + std::to_string(i % 8) +
         ".weight";
}

// The file with `count` tensors of 64 bytes, written at first use.
std::string file_of(std::int64_t count) {
  const std::string path = folder / (std::to_string(count) + ".weig");
  if (std::filesystem::exists(path)) return path;
  const std::array<std::uint64_t, 1> shape{16};
  const std::array<std::byte, 64> bytes{};
  std::vector<std::string> names;
  names.reserve(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) names.push_back(tensor_name(i));
  std::vector<weig::TensorData> tensors;
  tensors.reserve(names.size());
  for (const std::string& name : names)
    tensors.push_back(
        {{.name = name, .dtype = weig::Dtype::f32, .shape = shape}, bytes});
  weig::save(path, tensors).value();
  return path;
}

void open(benchmark::State& state, weig::Validation validation) {
  const std::string path = file_of(state.range(0));
  // From here on the file's front is in the page cache.
  weig::Model::open(path).value();
  for (auto _ : state) {
    auto model = weig::Model::open(path, {.validation = validation});
    benchmark::DoNotOptimize(model);
  }
}
void open_full(benchmark::State& state) { open(state, weig::Validation::full); }
void open_lazy(benchmark::State& state) { open(state, weig::Validation::lazy); }

// Names in random order, each asked for as a string of the caller's own. Of a million,
// 64 Ki: their index slots, records and names do not fit the caches.
void find(benchmark::State& state) {
  const auto model = weig::Model::open(file_of(state.range(0))).value();
  std::vector<std::int64_t> ordinals(static_cast<std::size_t>(state.range(0)));
  for (std::size_t i = 0; i < ordinals.size(); ++i)
    ordinals[i] = static_cast<std::int64_t>(i);
  std::ranges::shuffle(ordinals, std::mt19937_64(1));
  std::vector<std::string> names;
  for (std::size_t i = 0; i < std::min<std::size_t>(ordinals.size(), 65'536); ++i)
    names.push_back(tensor_name(ordinals[i]));
  std::size_t next = 0;
  for (auto _ : state) {
    auto tensor = model.find(names[next]);
    benchmark::DoNotOptimize(tensor);
    if (++next == names.size()) next = 0;
  }
}

void iterate(benchmark::State& state) {
  const auto model = weig::Model::open(file_of(state.range(0))).value();
  for (auto _ : state) {
    std::uint64_t bytes = 0;
    for (const auto& tensor : model.tensors()) bytes += tensor->byte_count();
    benchmark::DoNotOptimize(bytes);
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
}

constexpr std::int64_t kThousand = 1000;
constexpr std::int64_t kMillion = 1'000'000;

void counts(benchmark::internal::Benchmark* benchmark) {
  for (const std::int64_t count :
       {std::int64_t{10}, kThousand, 100 * kThousand, kMillion})
    benchmark->Arg(count);
}
BENCHMARK(open_full)->Apply(counts)->Unit(benchmark::kMicrosecond);
BENCHMARK(open_lazy)->Apply(counts)->Unit(benchmark::kMicrosecond);
BENCHMARK(find)->Arg(kThousand)->Arg(kMillion);
BENCHMARK(iterate)->Apply(counts)->Unit(benchmark::kMicrosecond);

}  // namespace

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 64;
  const char* temporary = std::getenv("TMPDIR");
  std::string pattern =
      std::string(temporary ? temporary : "/var/tmp") + "/open_bench.XXXXXX";
  if (!mkdtemp(pattern.data())) return std::perror(pattern.c_str()), 1;
  folder = pattern;
  benchmark::RunSpecifiedBenchmarks();
  std::filesystem::remove_all(folder);
}
