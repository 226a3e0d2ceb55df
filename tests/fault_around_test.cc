// SPDX-License-Identifier: Apache-2.0
// Mapping what lies in small folios by a touch in each 64 KiB: pages that such a fault
// leaves out are mapped as well.
#include <gtest/gtest.h>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "image.h"
#include "os/residency.h"

namespace weig::test {
namespace {

constexpr std::size_t kPage = 4096;
constexpr std::size_t kSize = std::size_t{2} << 20;

// A file in folios of a page each, since so it was written.
class FaultAroundOfAFile : public testing::Test {
 protected:
  FaultAroundOfAFile() {
    file_ = ::open(folder_.path("file").c_str(), O_RDWR | O_CREAT | O_EXCL, 0600);
    const std::vector<std::byte> page(kPage, std::byte{1});
    for (std::size_t at = 0; at < kSize; at += kPage)
      EXPECT_EQ(::pwrite(file_, page.data(), kPage, static_cast<off_t>(at)),
                static_cast<ssize_t>(kPage));
    EXPECT_EQ(::fsync(file_), 0);
    void* at = ::mmap(nullptr, kSize, PROT_READ, MAP_SHARED, file_, 0);
    EXPECT_NE(at, MAP_FAILED);
    data_ = static_cast<std::byte*>(at);
    EXPECT_EQ(::madvise(at, kSize, MADV_RANDOM), 0);
  }
  ~FaultAroundOfAFile() override {
    ::munmap(data_, kSize);
    ::close(file_);
  }

  void drop(std::size_t first, std::size_t count) const {
    EXPECT_EQ(::posix_fadvise(file_, static_cast<off_t>(first * kPage),
                              static_cast<off_t>(count * kPage), POSIX_FADV_DONTNEED),
              0);
  }

  Folder folder_;
  int file_ = -1;
  std::byte* data_ = nullptr;
  os::FaultAround around_;
};

TEST_F(FaultAroundOfAFile, maps_what_is_in_memory) {
  EXPECT_TRUE(around_.map({data_, kSize}));
}

TEST_F(FaultAroundOfAFile, maps_single_pages_that_faults_leave_out) {
  const std::uint64_t before = os::faults_of_this_thread().major;
  for (const std::size_t page : {5, 100, 101, 511}) drop(page, 1);
  EXPECT_TRUE(around_.map({data_, kSize}));
  EXPECT_EQ(os::faults_of_this_thread().major - before, 4u);
}

TEST_F(FaultAroundOfAFile, leaves_a_range_where_many_are_missing) {
  drop(100, 60);
  EXPECT_FALSE(around_.map({data_, kSize}));
  drop(100, 60);
  EXPECT_TRUE(around_.map({data_, 100 * kPage}));
}

}  // namespace
}  // namespace weig::test
