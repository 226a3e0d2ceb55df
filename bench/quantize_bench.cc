// SPDX-License-Identifier: Apache-2.0
// How fast weights are quantized and cast, in bytes of the source a second, against a
// plain copy of the same bytes by one thread. Sources are 128 MiB, more than caches
// hold.
#include <benchmark/benchmark.h>
#include <weig/quantize.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

namespace {

constexpr std::array<std::uint64_t, 2> kShape{8192, 8192};
constexpr std::size_t kElements = kShape[0] * kShape[1];

// Weights as models have them: normal, bf16.
const std::vector<std::byte>& weights() {
  static const std::vector<std::byte> bytes = [] {
    std::mt19937 random(1);
    std::normal_distribution<float> normal(0, 0.02f);
    std::vector<float> few(std::size_t{1} << 20);
    for (float& value : few) value = normal(random);
    std::vector<std::byte> all(kElements * 2);
    const std::size_t piece = few.size() * 2;
    weig::cast(weig::Dtype::f32, std::as_bytes(std::span(few)), weig::Dtype::bf16,
               std::span(all).first(piece))
        .value();
    for (std::size_t at = piece; at < all.size(); at += piece)
      std::memcpy(all.data() + at, all.data(), piece);
    return all;
  }();
  return bytes;
}

void count_bytes(benchmark::State& state) {
  state.SetBytesProcessed(state.iterations() *
                          static_cast<std::int64_t>(weights().size()));
}

void copy(benchmark::State& state) {
  std::vector<std::byte> out(weights().size());
  for (auto _ : state) {
    std::memcpy(out.data(), weights().data(), out.size());
    benchmark::ClobberMemory();
  }
  count_bytes(state);
}

void quantize(benchmark::State& state, const weig::QuantizeOptions& options) {
  const auto plan =
      weig::QuantizePlan::make(weig::Dtype::bf16, kShape, options).value();
  std::vector<std::byte> out(plan.quantized_bytes());
  weig::Quantizer quantizer(plan);
  for (auto _ : state) quantizer.quantize(0, weights(), out).value();
  count_bytes(state);
}

void cast(benchmark::State& state, weig::Dtype to) {
  std::vector<std::byte> out(kElements * weig::dtype_info(to)->block_bytes);
  for (auto _ : state) weig::cast(weig::Dtype::bf16, weights(), to, out).value();
  count_bytes(state);
}

constexpr weig::QuantizeOptions kChannels{.axis = 0};
constexpr weig::QuantizeOptions kGroups{.block = 128};
constexpr weig::QuantizeOptions kShifted{
    .to = weig::Dtype::u8, .scheme = weig::Scheme::asymmetric, .block = 128};
constexpr weig::QuantizeOptions kNibbles{.to = weig::Dtype::i4, .block = 32};

BENCHMARK(copy)->UseRealTime();
BENCHMARK_CAPTURE(quantize, i8_by_channel, kChannels)->UseRealTime();
BENCHMARK_CAPTURE(quantize, i8_by_128, kGroups)->UseRealTime();
BENCHMARK_CAPTURE(quantize, u8_by_128, kShifted)->UseRealTime();
BENCHMARK_CAPTURE(quantize, i4_by_32, kNibbles)->UseRealTime();
BENCHMARK_CAPTURE(cast, f16, weig::Dtype::f16)->UseRealTime();
BENCHMARK_CAPTURE(cast, f8_e4m3fn, weig::Dtype::f8_e4m3fn)->UseRealTime();

}  // namespace

BENCHMARK_MAIN();
