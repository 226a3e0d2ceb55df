// SPDX-License-Identifier: Apache-2.0
// One copy for many processes: of a mapped file, and of one that is read into shared
// memory. And the one way to write weights in place, which stays in its process.
#include <weig/page_cache.h>
#include <weig/parts.h>

#include <gtest/gtest.h>

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <string>

#include "image.h"
#include "loaded_model.h"

namespace weig::test {
namespace {

// What smaps counts of the mappings that hold some bytes, in bytes.
std::uint64_t smaps_bytes(std::span<const std::byte> bytes, const std::string& field) {
  const auto begin = reinterpret_cast<std::uintptr_t>(bytes.data());
  std::ifstream smaps("/proc/self/smaps");
  std::uint64_t sum = 0;
  bool ours = false;
  for (std::string line; std::getline(smaps, line);) {
    unsigned long from = 0;
    unsigned long to = 0;
    if (std::sscanf(line.c_str(), "%lx-%lx ", &from, &to) == 2)
      ours = from < begin + bytes.size() && to > begin;
    if (ours && line.starts_with(field + ":"))
      sum += std::stoull(line.substr(field.size() + 1)) * 1024;
  }
  return sum;
}

// Where processes wait for each other: a byte from each, then one for each.
class Meeting {
 public:
  Meeting() { EXPECT_EQ(::pipe(here_) + ::pipe(go_), 0); }
  ~Meeting() {
    for (const int end : {here_[0], here_[1], go_[0], go_[1]}) ::close(end);
  }
  bool come() const {
    char byte = 0;
    return ::write(here_[1], &byte, 1) == 1 && ::read(go_[0], &byte, 1) == 1;
  }
  void wait_for(unsigned count) const {
    char byte = 0;
    for (unsigned i = 0; i < count; ++i) EXPECT_EQ(::read(here_[0], &byte, 1), 1);
    for (unsigned i = 0; i < count; ++i) EXPECT_EQ(::write(go_[1], &byte, 1), 1);
  }

 private:
  int here_[2] = {};
  int go_[2] = {};
};

// What processes find out, each a number, when all have what `open` gives, and before
// the first of them lets go of it.
template <typename Open, typename Measure>
std::vector<std::uint64_t> in_processes(unsigned count, Open open, Measure measure) {
  const Meeting opened;
  const Meeting measured;
  int told[2];
  EXPECT_EQ(::pipe(told), 0);
  for (unsigned i = 0; i < count; ++i)
    if (::fork() == 0) {
      const Model model = open();
      if (!opened.come()) ::_exit(1);
      const std::uint64_t number = measure(model);
      const bool sent = ::write(told[1], &number, sizeof number) == sizeof number;
      ::_exit(sent && measured.come() ? 0 : 1);
    }
  opened.wait_for(count);
  std::vector<std::uint64_t> numbers(count);
  for (std::uint64_t& number : numbers)
    EXPECT_EQ(::read(told[0], &number, sizeof number),
              static_cast<ssize_t>(sizeof number));
  measured.wait_for(count);
  for (unsigned i = 0; i < count; ++i) {
    int status = 1;
    ::wait(&status);
    EXPECT_EQ(status, 0);
  }
  ::close(told[0]);
  ::close(told[1]);
  return numbers;
}

class SharedMemory : public testing::Test {
 protected:
  SharedMemory() { write_file(path_, Image::for_loading().bytes); }

  Folder folder_;
  std::string path_ = folder_.path("m.weig");
};

TEST_F(SharedMemory, processes_that_map_a_file_have_it_once) {
  constexpr unsigned kProcesses = 4;
  const auto sizes = in_processes(
      kProcesses,
      [&] { return Model::open(path_, {.load = {.way = LoadWay::populate}}).value(); },
      [](const Model& model) { return smaps_bytes(model.mapped(), "Pss"); });
  std::uint64_t sum = 0;
  for (const std::uint64_t each : sizes) sum += each;
  const std::uint64_t file = Model::open(path_).value().file_size();
  EXPECT_LE(sum, file + file / 50);  // each has a quarter of it
  EXPECT_GE(sum, file - file / 50);
}

TEST_F(SharedMemory, a_copy_that_was_read_is_opened_by_others) {
  const std::uint64_t expected = sum_of(Model::open(path_).value());
  const Model model = Model::open(path_, {.read_into = ReadInto::shared_memory,
                                          .load = {.way = LoadWay::read}})
                          .value();
  EXPECT_EQ(sum_of(model), expected);
  const std::string shared = model.shared_path().value();
  ASSERT_TRUE(::unlink(path_.c_str()) == 0);  // not needed any more
  const auto sums = in_processes(
      4,
      [&] {
        return Model::open(shared, {.load = {.way = LoadWay::automatic}}).value();
      },
      [](const Model& other) {
        const bool shares = smaps_bytes(other.mapped(), "Pss") < other.file_size() / 3;
        return shares ? sum_of(other) : 0;
      });
  for (const std::uint64_t sum : sums) EXPECT_EQ(sum, expected);
  EXPECT_EQ(model.memory()->total.own, 0u);
}

TEST_F(SharedMemory, a_copy_is_sealed) {
  auto model = Model::open(
      path_, {.read_into = ReadInto::shared_memory, .load = {.way = LoadWay::read}});
  ASSERT_TRUE(model) << model.error().message();
  const std::string shared = model->shared_path().value();
  EXPECT_NE(::truncate(shared.c_str(), 100), 0);
  const int file = ::open(shared.c_str(), O_RDWR);
  ASSERT_GE(file, 0);
  EXPECT_EQ(::pwrite(file, "x", 1, 5000), -1);
  EXPECT_EQ(errno, EPERM);
  ::close(file);
  // Who has it mapped keeps it when its maker goes.
  const Model other = Model::open(shared).value();
  const std::uint64_t sum = sum_of(other);
  {
    const Model gone = *std::move(model);
  }
  EXPECT_EQ(sum_of(other), sum);
  EXPECT_FALSE(Model::open(shared));
}

TEST_F(SharedMemory, only_what_is_read_is_shared) {
  const Model mapped =
      Model::open(path_, {.read_into = ReadInto::shared_memory}).value();
  EXPECT_EQ(mapped.shared_path(), std::nullopt);
  const Model own = Model::open(path_, {.load = {.way = LoadWay::read}}).value();
  EXPECT_EQ(own.shared_path(), std::nullopt);
}

class Writable : public SharedMemory {};

TEST_F(Writable, what_is_written_stays_in_the_process_and_is_counted) {
  ASSERT_TRUE(evict(path_));
  Model model = Model::open(path_, {.load = {.way = LoadWay::populate},
                                    .max_writable_bytes = 13u << 20})
                    .value();
  const std::uint64_t sum = sum_of(model);
  const auto bytes = model.writable("a.0.w");
  ASSERT_TRUE(bytes) << bytes.error().message();
  EXPECT_EQ(bytes->data(), model.tensor("a.0.w")->data());
  EXPECT_EQ(model.memory()->total.own, 0u);  // nothing is written yet
  const std::byte old = (*bytes)[5];
  (*bytes)[5] = ~old;
  (*bytes)[3 << 20] = std::byte{1};
  EXPECT_EQ(model.tensor("a.0.w")->bytes()[5], ~old);
  const MemoryReport memory = model.memory().value();
  EXPECT_GT(memory.total.own, 0u);
  EXPECT_LE(memory.total.own, std::uint64_t{4} << 20);  // two pages, of 2 MiB at most
  EXPECT_EQ(memory.parts[1].use.own, memory.total.own);
  EXPECT_EQ(sum_of(Model::open(path_).value()), sum);  // the file is as it was
  EXPECT_EQ(model.changed().value(), FileChange::none);
  // It may be asked for again, and is not dropped.
  EXPECT_EQ(model.writable("a.0.w")->data(), bytes->data());
  const auto ranges = ranges_of(model, {.groups = {"a.0"}}).value();
  EXPECT_EQ(model.release(ranges).error().code(), Code::unsupported);
  EXPECT_EQ((*bytes)[5], ~old);
  EXPECT_EQ(model.load({.way = LoadWay::read}).error().code(), Code::unsupported);
}

TEST_F(Writable, is_limited_and_off_by_default) {
  Model none = Model::open(path_).value();
  EXPECT_EQ(none.writable("b").error().code(), Code::limit);
  Model model = Model::open(path_, {.max_writable_bytes = 13u << 20}).value();
  EXPECT_TRUE(model.writable("a.0.w"));
  const auto refused = model.writable("a.1.w");
  EXPECT_EQ(refused.error().code(), Code::limit);
  EXPECT_EQ(refused.error().fields().tensor, "a.1.w");
  EXPECT_TRUE(model.writable("b"));
  EXPECT_EQ(model.writable("none").error().code(), Code::not_found);
  const auto metadata = Model::open(path_, {.part = Part::metadata}).value();
  Model guarded =
      Model::open(path_, {.max_writable_bytes = 13u << 20, .guard = Guard::required})
          .value();
  EXPECT_EQ(guarded.writable("b").error().code(), Code::unsupported);
}

TEST_F(Writable, memory_of_its_own_can_be_written_as_well) {
  Model model = Model::open(path_, {.load = {.way = LoadWay::read},
                                    .max_writable_bytes = 1u << 20})
                    .value();
  const auto bytes = model.writable("b").value();
  bytes[7] = std::byte{200};
  EXPECT_EQ(model.tensor("b")->bytes()[7], std::byte{200});
}

}  // namespace
}  // namespace weig::test
