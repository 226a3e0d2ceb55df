// SPDX-License-Identifier: Apache-2.0
// What LoadWay::automatic decides, from facts alone: a test per branch.
#include "store/policy.h"

#include <gtest/gtest.h>

namespace weig {
namespace {

constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;

// A cold file of 4 GiB on a local disk with a long read-ahead, and memory for it.
LoadFacts cold_local_file() {
  return {.bytes = 4 * kGiB,
          .resident = 0,
          .storage = {.file_system = "ext4",
                      .remote = false,
                      .in_memory = false,
                      .device = "8:1",
                      .read_ahead = std::uint64_t{8} << 20,
                      .known = true},
          .memory = {16 * kGiB, 12 * kGiB, "this machine"},
          .samples = {}};
}

TEST(Policy, cold_local_files_are_populated) {
  const LoadFacts facts = cold_local_file();
  EXPECT_FALSE(wants_samples(facts));
  EXPECT_EQ(choose_way(facts).way, LoadWay::populate);
}

TEST(Policy, what_memory_cannot_hold_is_only_mapped) {
  LoadFacts facts = cold_local_file();
  facts.memory = {2 * kGiB, kGiB, "/sys/fs/cgroup/memory/small"};
  EXPECT_FALSE(wants_samples(facts));
  const Choice choice = choose_way(facts);
  EXPECT_EQ(choice.way, LoadWay::map);
  EXPECT_EQ(choice.reason,
            "4.29 GB do not fit into the 1.07 GB that /sys/fs/cgroup/memory/small has "
            "available");
}

TEST(Policy, what_is_in_memory_stays_there_and_is_populated) {
  LoadFacts facts = cold_local_file();
  facts.memory = {};  // is not looked at
  EXPECT_FALSE(choose_by_residency(facts));
  facts.resident = 4 * kGiB - 1;
  for (const bool remote : {false, true}) {
    facts.storage.remote = remote;
    const auto choice = choose_by_residency(facts);
    ASSERT_TRUE(choice);
    EXPECT_EQ(choice->way, LoadWay::populate);
    EXPECT_EQ(choice->reason, "4.29 GB of 4.29 GB are in memory already");
    EXPECT_EQ(choose_way(facts).reason, choice->reason);
  }
  facts.resident.reset();
  EXPECT_FALSE(choose_by_residency(facts));
}

TEST(Policy, small_files_and_files_in_memory_are_populated_without_samples) {
  LoadFacts facts = cold_local_file();
  facts.bytes = 1 << 20;
  facts.resident.reset();
  EXPECT_FALSE(wants_samples(facts));
  EXPECT_EQ(choose_way(facts).reason, "the file is small");
  facts = cold_local_file();
  facts.storage.file_system = "tmpfs";
  facts.storage.in_memory = true;
  facts.resident.reset();
  EXPECT_FALSE(wants_samples(facts));
  EXPECT_EQ(choose_way(facts).reason, "tmpfs keeps files in memory");
}

TEST(Policy, remote_files_are_read_unless_most_is_in_memory) {
  LoadFacts facts = cold_local_file();
  facts.storage.file_system = "nfs";
  facts.storage.remote = true;
  for (const std::uint64_t resident : {std::uint64_t{0}, 2 * kGiB}) {
    facts.resident = resident;
    EXPECT_FALSE(wants_samples(facts));
    EXPECT_EQ(choose_way(facts).way, LoadWay::read);
  }
  facts.resident = 4 * kGiB;
  EXPECT_EQ(choose_way(facts).way, LoadWay::populate);
}

TEST(Policy, a_short_read_ahead_asks_for_samples_and_needs_huge_pages) {
  LoadFacts facts = cold_local_file();
  facts.storage.read_ahead = 128 << 10;
  EXPECT_TRUE(wants_samples(facts));
  facts.samples = Samples{.places = 8, .were_present = 0, .huge = true};
  EXPECT_EQ(choose_way(facts).way, LoadWay::populate);
  facts.samples->huge = false;
  EXPECT_EQ(choose_way(facts).way, LoadWay::read);
  EXPECT_TRUE(choose_way(facts).direct_io);
  facts.resident = 2 * kGiB;
  EXPECT_EQ(choose_way(facts).way, LoadWay::read);
  EXPECT_FALSE(choose_way(facts).direct_io);
  facts.resident = 4 * kGiB;
  EXPECT_FALSE(wants_samples(facts));
  EXPECT_EQ(choose_way(facts).way, LoadWay::populate);
  facts.resident = 0;
  facts.storage.read_ahead.reset();  // unknown: not relied upon
  EXPECT_EQ(choose_way(facts).way, LoadWay::read);
}

TEST(Policy, half_resident_files_are_populated) {
  LoadFacts facts = cold_local_file();
  facts.resident = 2 * kGiB + 1;
  const Choice choice = choose_way(facts);
  EXPECT_EQ(choice.way, LoadWay::populate);
  EXPECT_EQ(choice.reason, "2.14 GB of 4.29 GB are in memory already");
}

TEST(Policy, unknown_residency_is_never_called_warm) {
  LoadFacts facts = cold_local_file();
  facts.resident.reset();
  EXPECT_FALSE(wants_samples(facts));  // it is populated in any case
  EXPECT_EQ(choose_way(facts).reason, "residency is unknown (another user's file)");
  facts.storage.read_ahead = 128 << 10;
  EXPECT_TRUE(wants_samples(facts));
  facts.samples = Samples{.places = 8, .were_present = 8, .huge = {}};
  Choice choice = choose_way(facts);
  EXPECT_EQ(choice.way, LoadWay::populate);
  EXPECT_EQ(
      choice.reason,
      "residency is unknown (another user's file), of 8 places tried 8 were in memory");
  facts.samples = Samples{.places = 2, .were_present = 0, .huge = true};
  choice = choose_way(facts);
  EXPECT_EQ(choice.way, LoadWay::populate);
  EXPECT_NE(choice.reason.find("unknown"), std::string::npos);
  facts.samples.reset();  // could not be taken
  EXPECT_EQ(choose_way(facts).way, LoadWay::populate);
  EXPECT_NE(choose_way(facts).reason.find("unknown"), std::string::npos);
}

TEST(Policy, direct_io_is_for_files_that_hardly_are_in_memory) {
  LoadFacts facts = cold_local_file();
  EXPECT_TRUE(prefers_direct_io(facts));
  facts.resident = kGiB;
  EXPECT_FALSE(prefers_direct_io(facts));
  facts.resident.reset();
  EXPECT_FALSE(prefers_direct_io(facts));
  facts = cold_local_file();
  facts.storage.in_memory = true;
  EXPECT_FALSE(prefers_direct_io(facts));
}

}  // namespace
}  // namespace weig
