// SPDX-License-Identifier: Apache-2.0
// Locking memory, and its limit. Not under sanitizers, which make mlock do nothing.
#include <weig/memory_lock.h>
#include <weig/parts.h>

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <memory>
#include <utility>

#include "image.h"

namespace weig::test {
namespace {

TEST(MemoryLock, counts_whole_pages_and_gives_them_back) {
  const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  const std::unique_ptr<void, void (*)(void*)> memory(
      std::aligned_alloc(page, 2 * page), std::free);
  const auto* second = static_cast<const std::byte*>(memory.get()) + page;
  const std::uint64_t before = memory_lock_limit().locked;
  {
    MemoryLock lock;
    ASSERT_TRUE(lock.add({second + 100, 1}));
    EXPECT_EQ(lock.bytes(), page);
    EXPECT_EQ(memory_lock_limit().locked, before + page);
    MemoryLock moved = std::move(lock);
    EXPECT_EQ(moved.bytes(), page);
    EXPECT_EQ(memory_lock_limit().locked, before + page);
  }
  EXPECT_EQ(memory_lock_limit().locked, before);
}

// In a process of its own, which gives up the right to lock any amount.
TEST(MemoryLock, above_the_limit_nothing_is_locked) {
  const pid_t child = ::fork();
  if (child == 0) {
    const rlimit small{65536, 65536};
    ::setrlimit(RLIMIT_MEMLOCK, &small);
    if (::geteuid() == 0 && ::setresuid(65534, 65534, 65534) != 0) ::_exit(2);
    const std::uint64_t before = memory_lock_limit().locked;
    std::vector<std::byte> memory(1 << 20);
    MemoryLock lock;
    const Status status = lock.add(memory);
    const LockLimit limit = memory_lock_limit();
    const bool right = !status && status.error().code() == Code::limit &&
                       lock.bytes() == 0 && limit.locked == before && !limit.ignored &&
                       limit.soft == 65536u;
    ::_exit(right ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST(MemoryLock, of_a_models_bytes_keeps_them_from_being_released) {
  const Folder folder;
  const std::string path = folder.path("m.weig");
  write_file(path, Image::for_loading().bytes);
  Model model = Model::open(path).value();
  const std::vector<FileRange> ranges = ranges_of(model, {.groups = {"a.0"}}).value();
  MemoryLock lock;
  ASSERT_TRUE(lock.add(model.mapped().subspan(ranges[0].begin, ranges[0].size())));
  const Status refused = model.release(ranges);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), Code::limit);
  EXPECT_EQ(refused.error().fields().file, path);
  const MemoryReport memory = model.memory().value();
  EXPECT_GE(memory.parts[1].use.locked, ranges[0].size());
  EXPECT_EQ(memory.parts[1].use.present, ranges[0].size());
  EXPECT_EQ(memory.parts[2].use.locked, 0u);
  lock.release();
  EXPECT_TRUE(model.release(ranges));
  EXPECT_EQ(model.memory()->total.locked, 0u);
}

}  // namespace
}  // namespace weig::test
