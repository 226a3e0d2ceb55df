// SPDX-License-Identifier: Apache-2.0
#include "bench/measurement.h"

#include <algorithm>
#include <utility>

namespace weig::cli::bench {

std::string_view way_name(Way way) noexcept {
  switch (way) {
    case Way::raw_buffered:
      return "raw-read";
    case Way::raw_direct:
      return "raw-direct";
    case Way::copy:
      return "copy";
    case Way::buffer:
      return "buffer";
    case Way::plain:
      return "plain";
    default:
      return load_way_name(library_way(way).value_or(LoadWay::map));
  }
}

std::optional<Way> way_named(std::string_view name) noexcept {
  for (const Way way : kAllWays)
    if (way_name(way) == name) return way;
  return {};
}

bool is_raw(Way way) noexcept {
  return way == Way::raw_buffered || way == Way::raw_direct;
}

std::optional<LoadWay> library_way(Way way) noexcept {
  switch (way) {
    case Way::map:
      return LoadWay::map;
    case Way::stream:
      return LoadWay::stream;
    case Way::populate:
      return LoadWay::populate;
    case Way::read:
      return LoadWay::read;
    case Way::automatic:
      return LoadWay::automatic;
    default:
      return {};
  }
}

std::uint64_t memory_need(Way way, std::uint64_t file_size, std::uint64_t data_bytes) {
  constexpr std::uint64_t kBuffer = std::uint64_t{8} << 20;
  switch (way) {
    case Way::copy:
      return data_bytes + kBuffer;
    case Way::raw_direct:  // of each of its threads
      return 4 * kBuffer;
    case Way::buffer:
    case Way::read:
      return file_size;
    default:  // `auto` sees to it itself
      return 0;
  }
}

std::string_view state_name(State state) noexcept {
  return state == State::cold ? "cold" : "warm";
}

std::optional<State> state_named(std::string_view name) noexcept {
  for (const State state : {State::cold, State::warm})
    if (state_name(state) == name) return state;
  return {};
}

std::optional<Spread> spread_of(std::vector<double> numbers) {
  if (numbers.empty()) return {};
  std::ranges::sort(numbers);
  const std::size_t half = numbers.size() / 2;
  const double median =
      numbers.size() % 2 == 1 ? numbers[half] : (numbers[half - 1] + numbers[half]) / 2;
  return Spread{numbers.front(), median, numbers.back()};
}

std::optional<Spread> total_of(const std::vector<Sample>& samples) {
  return spread(samples,
                [](const Figures& figures) { return std::optional(figures.total()); });
}

Proof proof_of(const std::vector<Sample>& samples) noexcept {
  Proof proof = samples.empty() ? Proof::unknown : Proof::proven;
  for (const Sample& sample : samples) {
    if (sample.proof == Proof::wrong) return Proof::wrong;
    if (sample.proof == Proof::unknown) proof = Proof::unknown;
  }
  return proof;
}

bool is_proven(const Row& row) noexcept {
  return row.backed.empty() || proof_of(row.backed) == Proof::proven;
}

std::string_view proof_text(Proof proof, State state) noexcept {
  switch (proof) {
    case Proof::proven:
      return state_name(state);
    case Proof::wrong:
      return state == State::cold ? "not cold" : "not warm";
    case Proof::unknown:
      return "not known";
  }
  return "not known";
}

std::optional<double> raw_limit(const Report& report, State state) {
  std::optional<double> least;
  for (const Row& row : report.rows) {
    if (!is_raw(row.way) || row.state != state) continue;
    const auto total = total_of(row.backed);
    if (total && (!least || total->median < *least)) least = total->median;
  }
  return least;
}

}  // namespace weig::cli::bench
