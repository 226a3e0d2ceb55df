// SPDX-License-Identifier: Apache-2.0
// C68: the pages of the machine that the tests run on, which large_pages.cc may
// simulate: what is not on one of them is refused.
#include <gtest/gtest.h>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <string>

#include "image.h"

namespace weig::test {
namespace {

class PageSize : public testing::Test {
 protected:
  PageSize() {
    write_file(folder_.path("file"), std::vector<std::byte>(2 * page_));
    file_ = ::open(folder_.path("file").c_str(), O_RDONLY | O_CLOEXEC);
  }
  ~PageSize() override { ::close(file_); }

  const std::size_t page_ = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  Folder folder_;
  int file_ = -1;
};

TEST_F(PageSize, is_the_one_that_the_test_was_started_for) {
  if (const char* expected = std::getenv("WEIG_PAGE_BYTES")) {
    EXPECT_EQ(std::to_string(page_), expected);
  }
  EXPECT_EQ(static_cast<std::size_t>(::getpagesize()), page_);
}

TEST_F(PageSize, half_a_page_is_no_place_to_map_or_to_give_advice) {
  const auto half = static_cast<off_t>(page_ / 2);
  EXPECT_EQ(::mmap(nullptr, page_, PROT_READ, MAP_PRIVATE, file_, half), MAP_FAILED);
  EXPECT_EQ(errno, EINVAL);
  void* at = ::mmap(nullptr, 2 * page_, PROT_READ, MAP_PRIVATE, file_, 0);
  ASSERT_NE(at, MAP_FAILED);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(at) % page_, 0u);
  auto* inside = static_cast<std::byte*>(at) + half;
  unsigned char pages[2];
  EXPECT_NE(::madvise(inside, page_, MADV_RANDOM), 0);
  EXPECT_NE(::mprotect(inside, page_, PROT_READ), 0);
  EXPECT_NE(::mincore(inside, page_, pages), 0);
  EXPECT_NE(::munmap(inside, page_), 0);
  EXPECT_EQ(::munmap(at, page_ + 1), 0) << "which takes the second page as well";
  EXPECT_NE(::mincore(at, 2 * page_, pages), 0);
}

}  // namespace
}  // namespace weig::test
