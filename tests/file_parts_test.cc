// SPDX-License-Identifier: Apache-2.0
// Parts of a file: loaded, looked at and dropped by themselves.
#include <gtest/gtest.h>
#include <unistd.h>
#include <weig/model.h>
#include <weig/page_cache.h>

#include <utility>

#include "image.h"

namespace weig::test {
namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;

// 24 MiB of weights in a file that lies on a disk, not in a /tmp in memory.
class FileParts : public testing::Test {
 protected:
  void SetUp() override {
    const std::uint64_t shape[] = {8 * kMiB};
    const std::vector<std::byte> bytes(8 * kMiB, std::byte{1});
    std::vector<TensorData> tensors;
    for (const char* name : {"l.0.w", "l.1.w", "l.2.w"})
      tensors.push_back({{.name = name, .dtype = Dtype::u8, .shape = shape}, bytes});
    ASSERT_TRUE(save(path_, tensors));
    ASSERT_TRUE(evict(path_));
  }
  void TearDown() override { ::unlink(path_.c_str()); }

  std::uint64_t resident() const {
    std::uint64_t sum = 0;
    const auto ranges = resident_ranges(path_).value();
    for (const FileRange& range : ranges.value()) sum += range.size();
    return sum;
  }
  // Of the ranges in memory, those bytes that lie in [begin, end).
  std::uint64_t resident_in(std::uint64_t begin, std::uint64_t end) const {
    std::uint64_t sum = 0;
    const auto ranges = resident_ranges(path_).value();
    for (const FileRange& range : ranges.value())
      if (range.begin < end && range.end > begin)
        sum += std::min(range.end, end) - std::max(range.begin, begin);
    return sum;
  }

  const std::string path_ = "/var/tmp/weig-parts-" + std::to_string(::getpid());
};

TEST_F(FileParts, a_cold_file_has_no_resident_ranges) { EXPECT_EQ(resident(), 0u); }

TEST_F(FileParts, resident_ranges_agree_with_the_page_cache) {
  ASSERT_TRUE(Model::open(
      path_, {.load = {.way = LoadWay::populate, .ranges = {{5 * kMiB, 6 * kMiB}}}}));
  // The cache counts whole pages, and the file's last one is not whole.
  EXPECT_NEAR(static_cast<double>(resident()),
              static_cast<double>(page_cache(path_).value().resident), 4096);
  EXPECT_GT(resident(), 0u);
}

TEST_F(FileParts, populates_ranges_alone) {
  const std::vector<FileRange> ranges{{4 * kMiB + 123, 5 * kMiB},
                                      {20 * kMiB, 21 * kMiB}};
  std::uint64_t told = 0;
  const Progress progress = [&](std::uint64_t, std::uint64_t total) {
    told = total;
    return true;
  };
  const Model model =
      Model::open(
          path_,
          {.load = {.way = LoadWay::populate, .ranges = ranges, .progress = progress}})
          .value();
  EXPECT_EQ(model.load_report().bytes, 2 * kMiB - 123);
  EXPECT_EQ(told, 2 * kMiB - 123);
  for (const FileRange& range : ranges)
    EXPECT_EQ(resident_in(range.begin, range.end), range.size());
  // What the kernel reads ahead stays near.
  EXPECT_EQ(resident_in(12 * kMiB, 16 * kMiB), 0u);
}

TEST_F(FileParts, automatic_populates_ranges) {
  const Model model =
      Model::open(path_, {.load = {.way = LoadWay::automatic, .ranges = {{0, kMiB}}}})
          .value();
  EXPECT_EQ(model.load_report().way, LoadWay::populate);
  EXPECT_EQ(model.load_report().bytes, kMiB);
}

TEST_F(FileParts, ranges_end_with_the_file) {
  const Model model =
      Model::open(path_, {.load = {.way = LoadWay::populate,
                                   .ranges = {{24 * kMiB, 1000 * kMiB}}}})
          .value();
  EXPECT_EQ(model.load_report().bytes, model.file_size() - 24 * kMiB);
  EXPECT_EQ(Model::open(path_, {.load = {.way = LoadWay::populate,
                                         .ranges = {{1000 * kMiB, 1001 * kMiB}}}})
                .value()
                .load_report()
                .bytes,
            0u);
}

TEST_F(FileParts, ranges_that_are_not_in_order_are_refused) {
  Model model = Model::open(path_).value();
  const std::vector<FileRange> wrong[] = {
      {{5, 1}}, {{kMiB, 2 * kMiB}, {0, kMiB}}, {{0, 2 * kMiB}, {kMiB, 3 * kMiB}}};
  for (const auto& ranges : wrong) {
    const LoadOptions load{.way = LoadWay::populate, .ranges = ranges};
    EXPECT_EQ(Model::open(path_, {.load = load}).error().code(),
              Code::invalid_argument);
    EXPECT_EQ(model.load(load).error().code(), Code::invalid_argument);
  }
}

TEST_F(FileParts, populating_a_cold_file_makes_huge_pages) {
  const Model model = Model::open(path_, {.load = {.way = LoadWay::populate}}).value();
  const LoadReport report = model.load_report();
  ASSERT_TRUE(report.huge_mapped);
  if (*report.huge_mapped == 0) GTEST_SKIP() << "no large folios here";
  // All but the first and the last 2 MiB.
  EXPECT_GE(*report.huge_mapped + 4 * kMiB, model.file_size());
}

TEST_F(FileParts, evicts_ranges_alone) {
  {
    const Model loaded =
        Model::open(path_, {.load = {.way = LoadWay::populate}}).value();
  }
  const std::vector<FileRange> ranges{{4 * kMiB, 6 * kMiB}};
  ASSERT_TRUE(evict(path_, ranges));
  EXPECT_EQ(resident_in(4 * kMiB, 6 * kMiB), 0u);
  EXPECT_EQ(resident_in(6 * kMiB, 24 * kMiB), 18 * kMiB);
}

TEST_F(FileParts, an_empty_range_evicts_nothing) {
  {
    const Model loaded =
        Model::open(path_, {.load = {.way = LoadWay::populate}}).value();
  }
  const std::uint64_t before = resident();
  ASSERT_TRUE(evict(path_, std::vector<FileRange>{{4 * kMiB, 4 * kMiB}}));
  EXPECT_EQ(resident(), before);
}

}  // namespace
}  // namespace weig::test
