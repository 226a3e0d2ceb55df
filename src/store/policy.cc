// SPDX-License-Identifier: Apache-2.0
// The figures behind the rules are in docs/loading.md, "How auto decides".
#include "store/policy.h"

namespace weig {
namespace {

// Shorter files are one page-table entry: nothing to choose.
constexpr std::uint64_t kSmall = std::uint64_t{2} << 20;
// A read-ahead from which on mapped reading keeps a device busy with 4 KiB pages too.
constexpr std::uint64_t kLongReadAhead = std::uint64_t{1} << 20;

// Shares of a file that are in memory.
constexpr double kMost = 0.9;
constexpr double kHalf = 0.5;
constexpr double kHardly = 0.1;
constexpr double kNothing = 0.01;  // opening has read the front

// "3.71 GB"; hundredths are enough to see what a choice hung on.
std::string gigabytes(std::uint64_t bytes) {
  const bool large = bytes >= 1'000'000'000;
  const std::uint64_t hundredths = bytes / (large ? 10'000'000 : 10'000);
  const std::string rest = std::to_string(hundredths % 100);
  return std::to_string(hundredths / 100) + (rest.size() < 2 ? ".0" : ".") + rest +
         (large ? " GB" : " MB");
}

// Best knowledge of how much is in memory already; 0 where there is none.
double resident_share(const LoadFacts& facts) {
  if (facts.resident)
    return static_cast<double>(*facts.resident) / static_cast<double>(facts.bytes);
  if (facts.samples && facts.samples->places > 0)
    return static_cast<double>(facts.samples->were_present) / facts.samples->places;
  return 0;
}

std::string residency_text(const LoadFacts& facts) {
  if (facts.places > 0)
    return "all of " + std::to_string(facts.places) +
           " places looked at are in memory already";
  if (facts.resident)
    return gigabytes(*facts.resident) + " of " + gigabytes(facts.bytes) +
           " are in memory already";
  std::string text = "residency is unknown (another user's file)";
  if (facts.samples)
    text += ", of " + std::to_string(facts.samples->places) + " places tried " +
            std::to_string(facts.samples->were_present) + " were in memory";
  return text;
}

bool is_long(std::optional<std::uint64_t> read_ahead) {
  return read_ahead && *read_ahead >= kLongReadAhead;
}

}  // namespace

bool wants_samples(const LoadFacts& facts) {
  if (facts.bytes <= kSmall || facts.storage.in_memory ||
      facts.bytes > facts.memory.available)
    return false;
  if (facts.storage.remote) return !facts.resident;
  return !is_long(facts.storage.read_ahead) && resident_share(facts) < kMost;
}

bool prefers_direct_io(const LoadFacts& facts) {
  const bool known = facts.resident || facts.samples;
  return known && !facts.storage.in_memory && resident_share(facts) < kHardly;
}

std::optional<Choice> choose_by_size(std::uint64_t bytes) {
  if (bytes > kSmall) return {};
  return Choice{.way = LoadWay::populate, .reason = "the file is small"};
}

std::optional<Choice> choose_by_residency(const LoadFacts& facts) {
  if (!facts.resident || facts.storage.in_memory || resident_share(facts) < kMost)
    return {};
  return Choice{.way = LoadWay::populate, .reason = residency_text(facts)};
}

Choice choose_way(const LoadFacts& facts) {
  if (auto choice = choose_by_size(facts.bytes)) return *std::move(choice);
  if (auto choice = choose_by_residency(facts)) return *std::move(choice);
  const double share = resident_share(facts);
  const std::string& system = facts.storage.file_system;
  if (facts.bytes > facts.memory.available)
    return {.way = LoadWay::map,
            .reason = gigabytes(facts.bytes) + " do not fit into the " +
                      gigabytes(facts.memory.available) + " that " +
                      facts.memory.source + " has available"};
  if (facts.storage.in_memory)
    return {.way = LoadWay::populate, .reason = system + " keeps files in memory"};
  if (facts.storage.remote) {
    if (share >= kMost)
      return {.way = LoadWay::populate, .reason = residency_text(facts)};
    return {
        .way = LoadWay::read,
        .direct_io = prefers_direct_io(facts),
        .reason = system + " is remote, where large parallel reads beat page faults"};
  }
  const bool small_pages = facts.samples && facts.samples->huge == false;
  if (share < kMost && small_pages && !is_long(facts.storage.read_ahead))
    return {
        .way = LoadWay::read,
        .direct_io = prefers_direct_io(facts),
        .reason = system + " gives no huge pages here, and the read-ahead is short"};
  if (share >= kHalf)
    return {.way = LoadWay::populate, .reason = residency_text(facts)};
  if (!facts.resident)
    return {.way = LoadWay::populate, .reason = residency_text(facts)};
  return {.way = LoadWay::populate,
          .reason = "the file is local and " +
                    std::string(share > kNothing ? "mostly " : "") + "not in memory"};
}

}  // namespace weig
