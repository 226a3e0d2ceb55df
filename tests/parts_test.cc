// SPDX-License-Identifier: Apache-2.0
// Parts of a model: brought in, given back, unmapped, and counted.
#include <weig/page_cache.h>
#include <weig/parts.h>
#include <weig/verify.h>
#include <weig/window.h>
#include <weig/writer.h>

#include <gtest/gtest.h>

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <random>

#include "image.h"

namespace weig::test {
namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;
constexpr std::uint64_t kFolio = 2 * kMiB;
// The kernel reads on behind what is asked for, as far as the device's setting says.
constexpr std::uint64_t kReadAhead = 16 * kMiB;

// "Name:   123 kB" of /proc/self/status, in bytes.
std::uint64_t status_bytes(const std::string& name) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with(name + ":"))
      return std::stoull(line.substr(name.size() + 1)) * 1024;
  return 0;
}

unsigned byte_of(std::uint32_t group) { return group + 1; }

// Ten groups, each filled with a byte of its own, of these sizes; and a loose tensor.
constexpr std::uint64_t kSizes[] = {64 * kMiB, 5 * kMiB, 9 * kMiB,  66 * kMiB,
                                    3 * kMiB,  7 * kMiB, 12 * kMiB, 4 * kMiB,
                                    30 * kMiB, 6 * kMiB};

class ModelInParts : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = std::make_unique<Folder>();
    path_ = folder_->path("m.weig");
    std::vector<std::vector<std::byte>> bytes;
    std::vector<std::string> names;
    std::vector<Shape> shapes;
    for (std::uint32_t i = 0; i < std::size(kSizes); ++i) {
      names.push_back("l." + std::to_string(i) + ".w");
      bytes.emplace_back(kSizes[i], static_cast<std::byte>(byte_of(i)));
    }
    names.push_back("loose");
    bytes.emplace_back(3 * kMiB, std::byte{99});
    std::vector<TensorData> tensors;
    for (std::size_t i = 0; i < names.size(); ++i) {
      shapes.emplace_back(1);
      shapes.back()[0] = bytes[i].size();
    }
    for (std::size_t i = 0; i < names.size(); ++i)
      tensors.push_back(
          {{.name = names[i], .dtype = Dtype::u8, .shape = shapes[i].span()},
           bytes[i]});
    ASSERT_TRUE(save(path_, tensors));
  }
  static void TearDownTestSuite() { folder_.reset(); }

  void SetUp() override { ASSERT_TRUE(evict(path_)); }

  static FileRange group(const Model& model, std::uint32_t i) {
    return ranges_of(model, {.groups = {"l." + std::to_string(i)}}).value().front();
  }
  static std::uint64_t resident(FileRange range) {
    return bytes_within(*resident_ranges(path_).value(), range);
  }
  // Reads each page of a range.
  static void touch(const Model& model, FileRange range) {
    volatile const std::byte* data = model.mapped().data();
    for (std::uint64_t at = range.begin; at < range.end; at += 4096)
      static_cast<void>(data[at]);
  }
  static bool holds(const Model& model, std::uint32_t i) {
    const auto bytes = model.tensor("l." + std::to_string(i) + ".w").value().bytes();
    return bytes.size() == kSizes[i] && std::ranges::all_of(bytes, [&](std::byte b) {
             return static_cast<unsigned>(b) == byte_of(i);
           });
  }

  static std::unique_ptr<Folder> folder_;
  static std::string path_;
};
std::unique_ptr<Folder> ModelInParts::folder_;
std::string ModelInParts::path_;

TEST_F(ModelInParts, have_the_ranges_of_their_tensors) {
  const Model model = Model::open(path_).value();
  const Tensor tensor = model.tensor("l.3.w").value();
  const FileRange range = group(model, 3);
  EXPECT_EQ(range.begin, tensor.data_offset());
  EXPECT_EQ(range.size(), kSizes[3]);
  const auto both =
      ranges_of(model, {.groups = {"l.3"}, .tensors = {"loose", "l.3.w"}});
  ASSERT_TRUE(both);
  EXPECT_EQ(byte_count(*both), kSizes[3] + 3 * kMiB);
  const auto none = ranges_of(model, {.groups = {"l.33"}});
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code(), Code::not_found);
  EXPECT_EQ(none.error().fields().file, path_);
  EXPECT_EQ(ranges_of(model, {.tensors = {"l.3"}}).error().code(), Code::not_found);
}

TEST_F(ModelInParts, come_in_when_they_are_asked_for) {
  Model model = Model::open(path_).value();
  const FileRange wanted = group(model, 3);
  ASSERT_TRUE(model.prefetch({wanted}));
  const LoadReport report = model.wait().value();
  EXPECT_EQ(report.way, LoadWay::stream);
  EXPECT_EQ(resident(wanted), wanted.size());
  EXPECT_EQ(resident(group(model, 8)), 0u);
  EXPECT_TRUE(holds(model, 3));
  EXPECT_EQ(model.prefetch({}).value().bytes, 0u);
}

TEST_F(ModelInParts, are_given_back_one_by_one_and_neighbours_stay) {
  Model model = Model::open(path_, {.load = {.way = LoadWay::populate}}).value();
  std::vector<std::uint32_t> order(std::size(kSizes));
  std::iota(order.begin(), order.end(), 0u);
  std::ranges::shuffle(order, std::mt19937(7));
  std::vector<std::uint64_t> expected;
  for (std::uint32_t i = 0; i < order.size(); ++i)
    expected.push_back(resident(group(model, i)));
  for (const std::uint32_t i : order) {
    ASSERT_EQ(expected[i], kSizes[i]);
    ASSERT_TRUE(model.release(std::vector{group(model, i)}));
    for (std::uint32_t other = 0; other < order.size(); ++other) {
      const std::uint64_t left = resident(group(model, other));
      if (other != i) {
        EXPECT_EQ(left, expected[other]) << i << ' ' << other;
        continue;
      }
      const std::uint64_t may_stay =
          kSizes[i] >= 64 * kMiB ? kSizes[i] / 100 : 2 * kFolio;
      EXPECT_LE(left, may_stay) << i;
      expected[i] = left;
    }
  }
  for (const std::uint32_t i : order) EXPECT_TRUE(holds(model, i));  // read again
}

TEST_F(ModelInParts, of_own_memory_are_not_given_back) {
  Model model = Model::open(path_, {.load = {.way = LoadWay::read}}).value();
  const auto refused = model.release(std::vector{group(model, 3)});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), Code::unsupported);
  EXPECT_TRUE(holds(model, 3));
  const MemoryReport memory = model.memory().value();
  EXPECT_EQ(memory.total.resident, std::nullopt);
  EXPECT_GE(memory.total.own, model.data_end() - model.data_begin());
  ASSERT_TRUE(model.unmap(std::vector{group(model, 3)}));  // gone for good
  EXPECT_FALSE(model.tensor("l.3.w").value().has_data());
  EXPECT_LE(model.memory().value().total.own + kSizes[3] - kFolio, memory.total.own);
}

TEST_F(ModelInParts, are_unmapped_for_good) {
  Model model = Model::open(path_).value();
  const std::uint64_t before = status_bytes("VmSize");
  ASSERT_TRUE(model.unmap(std::vector{group(model, 3), group(model, 6)}));
  EXPECT_LE(status_bytes("VmSize") + kSizes[3] + kSizes[6] - 4 * 4096, before);
  EXPECT_FALSE(model.tensor("l.3.w").value().has_data());
  EXPECT_TRUE(model.tensor("l.3.w").value().bytes().empty());
  EXPECT_FALSE(model.is_mapped(group(model, 6)));
  EXPECT_TRUE(holds(model, 2) && holds(model, 4) && holds(model, 7));
  // What is left loads, and verifies; twice is as once.
  EXPECT_TRUE(model.load({.way = LoadWay::populate}));
  EXPECT_LE(resident(group(model, 3)), kReadAhead);
  ASSERT_TRUE(model.unmap(std::vector{group(model, 3)}));
  EXPECT_EQ(verify(model, {}).error().code(), Code::invalid_argument);
  const std::uint32_t left = model.tensor("l.4.w").value().ordinal();
  const std::uint32_t gone = model.tensor("l.3.w").value().ordinal();
  EXPECT_TRUE(verify(model, {.tensors = {{left}}}).value().sound());
  EXPECT_EQ(verify(model, {.tensors = {{gone}}}).error().code(),
            Code::invalid_argument);
  ASSERT_TRUE(model.unmap(std::vector{FileRange{0, UINT64_MAX}}));
  EXPECT_EQ(model.memory().value().total.mapped / kMiB, model.data_begin() / kMiB);
  EXPECT_TRUE(model.load({.way = LoadWay::populate}));
}

TEST_F(ModelInParts, leave_room_that_others_may_use) {
  Model model = Model::open(path_).value();
  const FileRange range = group(model, 3);
  void* const at = const_cast<std::byte*>(model.mapped().data() + range.begin);
  ASSERT_TRUE(model.unmap(std::vector{range}));
  void* const used = ::mmap(at, kMiB, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
  ASSERT_EQ(used, at);
  static_cast<char*>(used)[5] = 7;
  {
    const Model gone = std::move(model);
  }
  EXPECT_EQ(static_cast<char*>(used)[5], 7);  // it was not unmapped with the model
  ::munmap(used, kMiB);
}

TEST_F(ModelInParts, are_all_that_is_mapped_where_only_they_are_wanted) {
  for (const LoadWay way : {LoadWay::map, LoadWay::populate, LoadWay::stream,
                            LoadWay::automatic, LoadWay::read}) {
    ASSERT_TRUE(evict(path_));
    const std::uint64_t before = status_bytes("VmSize");
    auto opened = Model::open(path_, {.only = {.groups = {"l.8"}, .tensors = {"loose"}},
                                      .load = {.way = way}});
    ASSERT_TRUE(opened) << opened.error().message();
    EXPECT_TRUE(opened->wait());
    // The stacks of threads that loaded are addresses, too.
    EXPECT_LT(status_bytes("VmSize"), before + opened->file_size() / 2);
    EXPECT_TRUE(holds(*opened, 8));
    EXPECT_EQ(opened->tensor("loose").value().bytes()[5], std::byte{99});
    EXPECT_FALSE(opened->tensor("l.0.w").value().has_data());
    if (way == LoadWay::read) continue;  // reads all
    EXPECT_EQ(resident(group(*opened, 3)), 0u) << load_way_name(way);
    EXPECT_EQ(resident(group(*opened, 8)), kSizes[8]);
  }
  const auto none = Model::open(path_, {.only = {.groups = {"l.88"}}});
  EXPECT_EQ(none.error().code(), Code::not_found);
  const auto verified = Model::open(path_, {.only = {.groups = {"l.1"}},
                                            .load = {.way = LoadWay::populate},
                                            .verify = Verify::digests});
  EXPECT_TRUE(verified) << verified.error().message();
  const auto metadata =
      Model::open(path_, {.part = Part::metadata, .only = {.groups = {"l.1"}}});
  EXPECT_EQ(metadata.error().code(), Code::invalid_argument);
}

TEST_F(ModelInParts, are_counted) {
  Model model = Model::open(path_).value();
  const FileRange range = group(model, 3);
  ASSERT_TRUE(model.prefetch({range}));
  ASSERT_TRUE(model.wait());
  const MemoryReport memory = model.memory().value();
  ASSERT_EQ(memory.parts.size(), std::size(kSizes) + 2);
  const PartMemory& part = memory.parts[4];
  EXPECT_EQ(part.name, "l.3");
  EXPECT_EQ(part.use.mapped, kSizes[3]);
  EXPECT_EQ(part.use.present, kSizes[3]);
  EXPECT_EQ(part.use.resident, kSizes[3]);
  EXPECT_EQ(part.use.own, 0u);
  EXPECT_EQ(part.use.shared, 0u);
  EXPECT_GE(part.use.huge + 2 * kFolio, kSizes[3]);
  EXPECT_EQ(memory.parts[1].use.present, 0u);
  EXPECT_EQ(memory.total.mapped, model.file_size());
  EXPECT_GE(memory.total.present, kSizes[3]);

  // Another process that has it mapped.
  int ready[2];
  int done[2];
  ASSERT_EQ(::pipe(ready) + ::pipe(done), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const Model other = Model::open(path_).value();
    touch(other, group(other, 3));
    char byte = 1;
    ::_exit(::write(ready[1], &byte, 1) == 1 && ::read(done[0], &byte, 1) == 1 ? 0 : 1);
  }
  char byte = 1;
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  EXPECT_EQ(model.memory().value().parts[4].use.shared, kSizes[3]);
  // Its pages stay in the cache, and leave this process.
  ASSERT_TRUE(model.release(std::vector{range}));
  EXPECT_EQ(model.memory().value().parts[4].use.present, 0u);
  EXPECT_EQ(resident(range), kSizes[3]);
  ASSERT_EQ(::write(done[1], &byte, 1), 1);
  int status = 1;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

TEST_F(ModelInParts, go_through_a_window) {
  Model model = Model::open(path_).value();
  Window window = Window::over(model, {.resident = 2}).value();
  ASSERT_EQ(window.size(), std::size(kSizes));
  for (int walk = 0; walk < 2; ++walk) {
    for (std::uint32_t i = 0; i < window.size(); ++i) {
      const Group group_now = window.next().value();
      EXPECT_EQ(group_now.name, "l." + std::to_string(i));
      EXPECT_EQ(resident(group(model, i)), kSizes[i]);
      EXPECT_TRUE(holds(model, i));
      // Of those behind the one before, nothing; of those ahead, the one that comes in.
      std::uint64_t others = 0;
      for (std::uint32_t other = 0; other < window.size(); ++other)
        if (other + 1 < i || other > i + 1) others += resident(group(model, other));
      EXPECT_LE(others, kReadAhead + window.size() * kFolio) << walk << ' ' << i;
    }
    EXPECT_EQ(window.next().error().code(), Code::invalid_argument);
    window.rewind();
  }
  const WindowReport report = window.report();
  EXPECT_EQ(report.groups, 2 * std::size(kSizes));
  EXPECT_GE(
      report.bytes_loaded,
      2 * std::accumulate(std::begin(kSizes), std::end(kSizes), std::uint64_t{0}) -
          40 * kMiB);
  EXPECT_GT(report.bytes_released, 0u);
}

TEST_F(ModelInParts, in_a_window_are_mapped_whole) {
  Model model = Model::open(path_).value();
  Window window = Window::over(model, {.resident = 2}).value();
  for (std::uint32_t i = 0; i < window.size(); ++i) {
    ASSERT_TRUE(window.next());
    const MemoryReport memory = model.memory().value();
    for (std::uint32_t inside = i > 0 ? i - 1 : 0; inside <= i; ++inside)
      EXPECT_EQ(memory.parts[inside + 1].use.present, kSizes[inside]) << i;
  }
}

TEST_F(ModelInParts, go_round_in_a_window) {
  Model model = Model::open(path_).value();
  Window window = Window::over(model, {.resident = 1, .around = true}).value();
  for (std::uint32_t i = 0; i < 3 * window.size(); ++i) {
    const Group now = window.next().value();
    EXPECT_EQ(now.first, i % window.size());
    EXPECT_TRUE(holds(model, i % window.size()));
  }
  Window all = Window::over(model, {.resident = 100, .around = true}).value();
  for (std::uint32_t i = 0; i < 2 * all.size(); ++i) ASSERT_TRUE(all.next());
  EXPECT_EQ(all.report().bytes_released, 0u);
}

TEST_F(ModelInParts, need_groups_and_a_mapping_for_a_window) {
  Model model = Model::open(path_).value();
  EXPECT_EQ(Window::over(model, {.resident = 0}).error().code(),
            Code::invalid_argument);
  Model read = Model::open(path_, {.load = {.way = LoadWay::read}}).value();
  EXPECT_EQ(Window::over(read).error().code(), Code::unsupported);
  const Folder folder;
  write_file(folder.path("b.weig"), Image::sealed({{"b", Dtype::u8, {5}}}).bytes);
  Model loose = Model::open(folder.path("b.weig")).value();
  EXPECT_EQ(Window::over(loose).error().code(), Code::not_found);
}

// C75: who converts tensor by tensor and lets go of each, keeps a tiny view to the end.
TEST_F(ModelInParts, behind_the_reader_take_no_memory) {
  Model model = Model::open(path_).value();
  const std::span<const std::byte> kept = model.tensor("l.0.w")->bytes().first(1);
  std::uint64_t most = 0;
  unsigned sum = 0;
  for (const auto& tensor : model.tensors()) {
    const FileRange range{tensor->data_offset(),
                          tensor->data_offset() + tensor->byte_count()};
    for (const std::byte byte : tensor->bytes()) sum += static_cast<unsigned>(byte);
    most = std::max(most, status_bytes("RssFile"));
    ASSERT_TRUE(model.release(std::vector{range}));
  }
  EXPECT_GT(sum, 0u);
  EXPECT_LT(most, 66 * kMiB + 24 * kMiB);  // the largest tensor, and the program
  EXPECT_LT(status_bytes("RssFile"), 24 * kMiB);
  EXPECT_EQ(static_cast<unsigned>(kept[0]), byte_of(0));
}

TEST_F(ModelInParts, are_guarded_as_far_as_they_are_mapped) {
  const Folder folder;
  const std::string copy = folder.path("copy.weig");
  std::filesystem::copy_file(path_, copy);
  Model model = Model::open(copy, {.guard = Guard::required}).value();
  ASSERT_TRUE(model.unmap(std::vector{group(model, 0), group(model, 6)}));
  std::ofstream(copy, std::ios::trunc) << "other";  // waits for a copy
  EXPECT_EQ(model.guard_report().state, GuardState::copied);
  for (const std::uint32_t i : {1u, 2u, 3u, 4u, 5u, 7u, 8u, 9u})
    EXPECT_TRUE(holds(model, i)) << i;
  EXPECT_FALSE(model.tensor("l.0.w").value().has_data());
  EXPECT_LT(model.memory().value().total.own, model.file_size() - kSizes[0]);
  EXPECT_EQ(model.release(std::vector{group(model, 1)}).error().code(),
            Code::unsupported);
  EXPECT_TRUE(holds(model, 1));
}

}  // namespace
}  // namespace weig::test
