// SPDX-License-Identifier: Apache-2.0
// Memory that is about to be filled is promised once.
#include "store/memory_claim.h"

#include <gtest/gtest.h>

#include <sys/wait.h>
#include <unistd.h>

#include <memory>
#include <thread>
#include <utility>
#include <vector>

namespace weig {
namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;
// What others do to the machine's memory meanwhile.
constexpr std::uint64_t kNoise = 256 * kMiB;

std::uint64_t three_quarters() { return memory_limit().available / 4 * 3; }

TEST(MemoryClaim, what_one_has_claimed_another_cannot) {
  const std::uint64_t most = three_quarters();
  const MemoryClaim first(most);
  ASSERT_TRUE(first.fits());
  const MemoryClaim second(most);
  EXPECT_FALSE(second.fits());
  EXPECT_LT(second.memory().available, most);
  EXPECT_TRUE(MemoryClaim(kMiB).fits());
}

TEST(MemoryClaim, ends_with_its_owner_and_moves) {
  const std::uint64_t most = three_quarters();
  {
    MemoryClaim first(most);
    const MemoryClaim moved = std::move(first);
    EXPECT_EQ(moved.left(), most);
    EXPECT_FALSE(MemoryClaim(most).fits());
  }
  MemoryClaim again(most);
  EXPECT_TRUE(again.fits());
  again = {};
  EXPECT_TRUE(MemoryClaim(most).fits());
}

TEST(MemoryClaim, one_that_does_not_fit_takes_nothing) {
  const MemoryClaim all_there_is(std::uint64_t{1} << 62);
  EXPECT_FALSE(all_there_is.fits());
  EXPECT_TRUE(MemoryClaim(three_quarters()).fits());
}

TEST(MemoryClaim, what_is_filled_is_the_systems_to_count) {
  const std::uint64_t most = three_quarters();
  MemoryClaim first(most);
  first.fill(most - 1000);
  EXPECT_EQ(first.left(), 1000u);
  EXPECT_TRUE(MemoryClaim(most).fits());
  first.fill(5000);  // more than was claimed
  EXPECT_EQ(first.left(), 0u);
  EXPECT_GT(MemoryClaim(1).memory().available + kNoise, memory_limit().available);
}

TEST(MemoryClaim, a_forked_child_begins_at_nothing) {
  const std::uint64_t most = three_quarters();
  auto first = std::make_unique<MemoryClaim>(most);
  const pid_t child = ::fork();
  if (child == 0) {
    const bool begins = MemoryClaim(most).fits();
    const MemoryClaim own(most);
    first.reset();  // its parent's: changes nothing here
    ::_exit(begins && own.fits() && !MemoryClaim(most).fits() ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_FALSE(MemoryClaim(most).fits());
}

TEST(MemoryClaim, of_many_at_once_only_one_gets_it) {
  const std::uint64_t most = three_quarters();
  std::vector<MemoryClaim> claims(8);
  {
    std::vector<std::jthread> threads;
    for (MemoryClaim& claim : claims)
      threads.emplace_back([&claim, most] { claim = MemoryClaim(most); });
  }
  int fitting = 0;
  for (const MemoryClaim& claim : claims) fitting += claim.fits();
  EXPECT_EQ(fitting, 1);
}

}  // namespace
}  // namespace weig
