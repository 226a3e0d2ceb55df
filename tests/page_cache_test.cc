// SPDX-License-Identifier: Apache-2.0
// What is in the page cache of a file, and making the kernel let go of it.
#include <weig/page_cache.h>

#include <gtest/gtest.h>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "image.h"

namespace weig::test {
namespace {

constexpr std::uint64_t kPiece = PageCache::kPieceBytes;
constexpr std::uint64_t kSize = 3 * kPiece + 5000;

class PageCacheOfAFile : public testing::Test {
 protected:
  // In a folder whose file system has a page cache that can be dropped, which tmpfs,
  // where temporary files may lie, has not.
  PageCacheOfAFile() {
    const std::vector<std::byte> bytes(kSize, std::byte{1});
    write_file(path_, bytes);
  }

  std::uint64_t resident() const { return page_cache(path_).value().resident; }

  Folder folder_;
  std::string path_ = folder_.path("file");
};

TEST_F(PageCacheOfAFile, all_of_what_was_just_written) {
  const PageCache cache = page_cache(path_).value();
  EXPECT_TRUE(cache.known);
  EXPECT_EQ(cache.file_size, kSize);
  EXPECT_EQ(cache.resident, kSize);
  ASSERT_EQ(cache.pieces.size(), 4u);
  EXPECT_EQ(cache.pieces[2].resident, kPiece);
  EXPECT_EQ(cache.pieces[3].resident, 5000u);
}

TEST_F(PageCacheOfAFile, nothing_after_eviction_and_looking_reads_nothing) {
  ASSERT_TRUE(evict(path_));
  EXPECT_EQ(resident(), 0u);
  EXPECT_EQ(page_cache(path_, Folios::tell).value().resident, 0u);
  EXPECT_EQ(resident(), 0u);
}

TEST_F(PageCacheOfAFile, mapped_pages_stay) {
  const int file = ::open(path_.c_str(), O_RDONLY);
  void* at = ::mmap(nullptr, 4096, PROT_READ, MAP_SHARED | MAP_POPULATE, file, 0);
  ASSERT_NE(at, MAP_FAILED);
  ASSERT_TRUE(evict(path_));
  EXPECT_GE(resident(), 4096u);
  ::munmap(at, 4096);
  ::close(file);
  ASSERT_TRUE(evict(path_));
  EXPECT_EQ(resident(), 0u);
}

TEST_F(PageCacheOfAFile, folios_are_told_of_whole_pieces_only) {
  const PageCache cache = page_cache(path_, Folios::tell).value();
  EXPECT_EQ(cache.pieces[3].folio, PageCache::Folio::unknown);
  EXPECT_EQ(cache.resident, kSize);
  for (int i = 0; i < 3; ++i)
    EXPECT_EQ(cache.pieces[i].folio, cache.pieces[0].folio) << i;
}

TEST_F(PageCacheOfAFile, empty_and_missing_files) {
  write_file(path_, {});
  const PageCache cache = page_cache(path_, Folios::tell).value();
  EXPECT_TRUE(cache.known);
  EXPECT_TRUE(cache.pieces.empty());
  EXPECT_TRUE(evict(path_));
  EXPECT_EQ(page_cache(folder_.path("none")).error().code(), Code::cannot_open);
  EXPECT_EQ(evict(folder_.path("none")).error().code(), Code::cannot_open);
}

}  // namespace
}  // namespace weig::test
