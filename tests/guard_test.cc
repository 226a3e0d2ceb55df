// SPDX-License-Identifier: Apache-2.0
// The guard: what happens to a mapped file does not happen to its readers.
#include <weig/guard.h>

#include <gtest/gtest.h>

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <thread>

#include "image.h"
#include "loaded_model.h"

namespace weig::test {
namespace {

using namespace std::chrono_literals;

// Does something in a process of its own, which ends then; its exit status.
class Child {
 public:
  explicit Child(const std::function<bool()>& work) : process_(::fork()) {
    if (process_ == 0) ::_exit(work() ? 0 : 1);
  }
  ~Child() { wait(); }
  int wait() {
    if (process_ > 0) ::waitpid(process_, &status_, 0);
    process_ = 0;
    return status_;
  }
  bool is_running() const { return ::waitpid(process_, nullptr, WNOHANG) == 0; }

 private:
  pid_t process_;
  int status_ = 0;
};

class Guarded : public testing::Test {
 protected:
  Guarded() { write_file(path_, Image::for_loading().bytes); }

  Model open(Guard guard = Guard::required, LoadOptions load = {}) const {
    return Model::open(path_, {.load = std::move(load), .guard = guard}).value();
  }
  // As an editor or cp does: opens it in place and writes other bytes over it.
  bool overwrite() const {
    const int file = ::open(path_.c_str(), O_WRONLY | O_TRUNC);
    const std::vector<char> other(1 << 20, 'x');
    bool good = file >= 0;
    for (int i = 0; good && i < 24; ++i)
      good = ::write(file, other.data(), other.size()) == 1 << 20;
    return ::close(file) == 0 && good;
  }

  Folder folder_;
  std::string path_ = folder_.path("m.weig");
};

TEST_F(Guarded, a_cut_file_hurts_nobody) {
  const Model model = open();
  EXPECT_EQ(model.guard_report().state, GuardState::holding);
  EXPECT_GT(model.guard_report().seconds_allowed, 0);
  const std::uint64_t sum = sum_of(model);
  const std::byte* at = model.tensor("a.1.w")->data();
  EXPECT_TRUE(model.is_view(*model.tensor("a.1.w")));
  Child cut([&] { return ::truncate(path_.c_str(), 0) == 0; });
  EXPECT_EQ(cut.wait(), 0);
  EXPECT_EQ(std::filesystem::file_size(path_), 0u);
  EXPECT_EQ(sum_of(model), sum);
  EXPECT_EQ(model.tensor("a.1.w")->data(), at);
  EXPECT_FALSE(model.is_view(*model.tensor("a.1.w")));
  const GuardReport report = model.guard_report();
  EXPECT_EQ(report.state, GuardState::copied);
  EXPECT_EQ(report.bytes, Image::for_loading().bytes.size());
  EXPECT_GT(report.seconds, 0);
}

TEST_F(Guarded, a_file_overwritten_in_place_hurts_nobody) {
  const Model model = open();
  const std::uint64_t sum = sum_of(model);
  Child writer([&] { return overwrite(); });
  EXPECT_EQ(writer.wait(), 0);
  EXPECT_EQ(sum_of(model), sum);
  EXPECT_EQ(model.changed().value(), FileChange::modified);
}

TEST_F(Guarded, deleting_and_renaming_need_no_copy) {
  const Model model = open();
  const std::uint64_t sum = sum_of(model);
  EXPECT_EQ(model.changed().value(), FileChange::none);
  std::filesystem::rename(path_, path_ + ".old");
  EXPECT_EQ(model.changed().value(), FileChange::removed);
  write_file(path_, Image::for_loading().bytes);
  EXPECT_EQ(model.changed().value(), FileChange::replaced);
  std::filesystem::remove(path_ + ".old");
  EXPECT_EQ(sum_of(model), sum);
  EXPECT_EQ(model.guard_report().state, GuardState::holding);
}

TEST_F(Guarded, every_reader_of_a_file_is_saved) {
  std::vector<Model> models;
  for (int i = 0; i < 4; ++i) models.push_back(open());
  const std::uint64_t sum = sum_of(models[0]);
  Child cut([&] { return ::truncate(path_.c_str(), 5) == 0; });
  EXPECT_EQ(cut.wait(), 0);
  for (const Model& model : models) EXPECT_EQ(sum_of(model), sum);
}

TEST_F(Guarded, models_of_several_files_are_all_saved) {
  const std::string other = folder_.path("other.weig");
  write_file(other, Image::basic().bytes);
  const Model one = open();
  const Model two = Model::open(other, {.guard = Guard::required}).value();
  const std::uint64_t sums[] = {sum_of(one), sum_of(two)};
  Child cut_one([&] { return ::truncate(path_.c_str(), 0) == 0; });
  Child cut_two([&] { return ::truncate(other.c_str(), 0) == 0; });
  EXPECT_EQ(cut_one.wait(), 0);
  EXPECT_EQ(cut_two.wait(), 0);
  EXPECT_EQ(sum_of(one), sums[0]);
  EXPECT_EQ(sum_of(two), sums[1]);
  EXPECT_EQ(one.guard_report().state, GuardState::copied);
  EXPECT_EQ(two.guard_report().state, GuardState::copied);
}

TEST_F(Guarded, moves_with_its_model) {
  Model first = open();
  const std::uint64_t sum = sum_of(first);
  const Model second = std::move(first);
  Child cut([&] { return ::truncate(path_.c_str(), 0) == 0; });
  EXPECT_EQ(cut.wait(), 0);
  EXPECT_EQ(sum_of(second), sum);
}

TEST_F(Guarded, a_model_that_goes_lets_go) {
  {
    const Model model = open();
  }
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(::truncate(path_.c_str(), 0), 0);
  EXPECT_LT(std::chrono::steady_clock::now() - start, 2s);
}

TEST_F(Guarded, works_beside_every_way_to_load) {
  for (const LoadWay way : {LoadWay::map, LoadWay::stream, LoadWay::populate,
                            LoadWay::read, LoadWay::automatic}) {
    write_file(path_, Image::for_loading().bytes);
    Model model = open(Guard::required, {.way = way});
    Child writer([&] { return overwrite(); });
    ASSERT_TRUE(model.wait()) << load_way_name(way);
    EXPECT_EQ(writer.wait(), 0);
    std::vector<std::byte> expected = Image::for_loading().bytes;
    const Tensor tensor = model.tensor("a.1.w").value();
    EXPECT_TRUE(std::ranges::equal(
        tensor.bytes(),
        std::span(expected).subspan(tensor.data_offset(), tensor.byte_count())))
        << load_way_name(way);
  }
}

TEST_F(Guarded, needs_a_file_that_nobody_writes) {
  const int writer = ::open(path_.c_str(), O_WRONLY);
  const auto refused = Model::open(path_, {.guard = Guard::required});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), Code::unsupported);
  const Model model = open(Guard::wanted);
  EXPECT_EQ(model.guard_report().state, GuardState::off);
  EXPECT_NE(model.guard_report().reason.find("open for writing"), std::string::npos);
  ::close(writer);
}

TEST_F(Guarded, without_descriptors_it_says_so) {
  // Sanitizers need descriptors for what they look at the first time: so before.
  const std::string path = path_;
  EXPECT_FALSE(Model::open(path + ".none"));
  struct rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const int next = ::dup(0);  // the file itself gets this number, and nothing after it
  ::close(next);
  struct rlimit tight = before;
  tight.rlim_cur = static_cast<rlim_t>(next) + 1;
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &tight), 0);
  const auto wanted = Model::open(path, {.guard = Guard::wanted});
  const auto required = Model::open(path, {.guard = Guard::required});
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  ASSERT_TRUE(wanted) << wanted.error().message();
  EXPECT_EQ(wanted->guard_report().state, GuardState::off);
  EXPECT_NE(wanted->guard_report().reason.find("Too many open files"),
            std::string::npos);
  ASSERT_FALSE(required);
  EXPECT_NE(required.error().message().find("Too many open files"), std::string::npos);
}

TEST_F(Guarded, a_forked_child_has_none) {
  auto model = std::make_unique<Model>(open());
  Child child([&] {
    const bool none = model->guard_report().state == GuardState::off;
    model.reset();  // ends without its thread
    return none;
  });
  EXPECT_EQ(child.wait(), 0);
  EXPECT_EQ(model->guard_report().state, GuardState::holding);
}

// Which no handler of fork() is called in.
TEST_F(Guarded, a_child_of_clone_has_none) {
  auto model = std::make_unique<Model>(open());
  const long process =
      ::syscall(SYS_clone, SIGCHLD, nullptr, nullptr, nullptr, nullptr);
  if (process == 0) {
    const GuardReport report = model->guard_report();
    model.reset();  // must not wait for a thread that is not there
    ::_exit(report.state == GuardState::off && !report.reason.empty() ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(static_cast<pid_t>(process), &status, 0), process);
  EXPECT_EQ(status, 0);
  const std::uint64_t sum = sum_of(*model);
  EXPECT_EQ(model->guard_report().state, GuardState::holding);
  Child cut([&] { return ::truncate(path_.c_str(), 0) == 0; });
  EXPECT_EQ(cut.wait(), 0);
  EXPECT_EQ(sum_of(*model), sum);
}

// By vfork(), as many languages start programs: it has the parent's memory for a
// moment.
TEST_F(Guarded, a_program_that_is_started_holds_up_nobody) {
  pid_t process = 0;
  {
    const Model model = open();
    char name[] = "sleep";
    char seconds[] = "60";
    char* words[] = {name, seconds, nullptr};
    ASSERT_EQ(::posix_spawnp(&process, name, nullptr, nullptr, words, environ), 0);
    EXPECT_EQ(model.guard_report().state, GuardState::holding);
  }
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(::truncate(path_.c_str(), 0), 0);
  EXPECT_LT(std::chrono::steady_clock::now() - start, 2s);
  ::kill(process, SIGKILL);
  ::waitpid(process, nullptr, 0);
}

// The child finds its parent's copy under way, and makes one of its own all the same.
TEST_F(Guarded, a_fork_during_a_copy_hurts_neither) {
  const std::string other = folder_.path("other.weig");
  int during = 0;
  for (int i = 0; i < 10; ++i) {
    write_file(path_, Image::for_loading().bytes);
    write_file(other, Image::basic().bytes);
    const Model model = open();
    const std::uint64_t sum = sum_of(model);
    Child writer([&] { return ::truncate(path_.c_str(), 0) == 0; });
    const auto start = std::chrono::steady_clock::now();
    while (model.guard_report().state == GuardState::holding &&
           std::chrono::steady_clock::now() - start < 5s)
      std::this_thread::sleep_for(10us);
    during += model.guard_report().state == GuardState::copying;
    Child child([&] {
      if (model.guard_report().state != GuardState::off) return false;
      const auto own = Model::open(other, {.guard = Guard::required});
      if (!own) return false;
      const std::uint64_t own_sum = sum_of(*own);
      Child cut([&] { return ::truncate(other.c_str(), 0) == 0; });
      return cut.wait() == 0 && sum_of(*own) == own_sum;
    });
    EXPECT_EQ(child.wait(), 0);
    EXPECT_EQ(writer.wait(), 0);
    EXPECT_EQ(sum_of(model), sum);
    EXPECT_EQ(model.guard_report().state, GuardState::copied);
  }
  EXPECT_GT(during, 0);
}

// The holder dies, and the child that it forked lives on with all its descriptors.
TEST_F(Guarded, a_forked_child_holds_up_nobody) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  Child holder([&] {
    const Model model = open();
    if (::fork() == 0) {
      char byte;
      ::close(ends[1]);
      static_cast<void>(::read(ends[0], &byte, 1));  // until the test is over
      ::_exit(0);
    }
    return ::raise(SIGKILL) == 0;
  });
  holder.wait();
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(::truncate(path_.c_str(), 0), 0);
  EXPECT_LT(std::chrono::steady_clock::now() - start, 2s);
  ::close(ends[0]);
  ::close(ends[1]);
}

std::atomic<int> signals = 0;

TEST_F(Guarded, leaves_the_processs_signals_alone) {
  struct sigaction act{};
  struct sigaction before{};
  act.sa_handler = [](int) { ++signals; };
  ASSERT_EQ(::sigaction(SIGIO, &act, &before), 0);
  {
    const Model model = open();
    const std::uint64_t sum = sum_of(model);
    Child cut([&] { return ::truncate(path_.c_str(), 0) == 0; });
    EXPECT_EQ(cut.wait(), 0);
    EXPECT_EQ(sum_of(model), sum);
    EXPECT_EQ(signals, 0);
    // Sent to the process, where the guard's thread is one of those that could take it.
    for (int i = 1; i <= 100; ++i) {
      ::kill(::getpid(), SIGIO);
      for (int tries = 0; signals < i && tries < 1000; ++tries)
        std::this_thread::sleep_for(1ms);
      ASSERT_EQ(signals, i);
    }
  }
  ::sigaction(SIGIO, &before, nullptr);
}

TEST_F(Guarded, may_be_closed_while_it_copies) {
  int during = 0;
  for (int i = 0; i < 10; ++i) {
    write_file(path_, Image::for_loading().bytes);
    auto model = std::make_unique<Model>(open());
    Child writer([&] { return overwrite(); });
    const auto start = std::chrono::steady_clock::now();
    while (model->guard_report().state == GuardState::holding &&
           std::chrono::steady_clock::now() - start < 5s)
      std::this_thread::sleep_for(10us);
    during += model->guard_report().state == GuardState::copying;
    model.reset();
    EXPECT_EQ(writer.wait(), 0);
  }
  EXPECT_GT(during, 0);
}

TEST_F(Guarded, a_load_and_a_copy_do_not_hurt_each_other) {
  for (int i = 0; i < 8; ++i) {
    for (const LoadWay way : {LoadWay::read, LoadWay::populate, LoadWay::stream}) {
      write_file(path_, Image::for_loading().bytes);
      Model model = open();
      const std::uint64_t sum = sum_of(model);
      Child writer([&] { return ::truncate(path_.c_str(), 100) == 0; });
      std::this_thread::sleep_for(std::chrono::milliseconds(7 * i));
      const auto report = model.load({.way = way});
      ASSERT_TRUE(report) << report.error().message();
      ASSERT_TRUE(model.wait());
      EXPECT_EQ(writer.wait(), 0);
      EXPECT_EQ(sum_of(model), sum);
    }
  }
}

TEST_F(Guarded, a_load_after_the_copy_finds_all_in_memory) {
  Model model = open();
  const std::uint64_t sum = sum_of(model);
  Child writer([&] { return overwrite(); });
  EXPECT_EQ(writer.wait(), 0);
  for (const LoadWay way : {LoadWay::populate, LoadWay::stream, LoadWay::read,
                            LoadWay::automatic, LoadWay::map}) {
    const auto report = model.load({.way = way});
    ASSERT_TRUE(report) << report.error().message();
    EXPECT_EQ(report->reason, "all is in memory already");
    EXPECT_EQ(report->bytes, 0u);
    EXPECT_EQ(sum_of(model), sum);
  }
  EXPECT_EQ(model.guard_report().state, GuardState::copied);
}

// The descriptors by which this process holds on to a file.
int descriptors_of(const struct stat& file) {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    struct stat status{};
    if (::stat(entry.path().c_str(), &status) == 0 && status.st_dev == file.st_dev &&
        status.st_ino == file.st_ino)
      ++count;
  }
  return count;
}

TEST_F(Guarded, a_deleted_file_takes_up_no_room_once_it_is_copied) {
  for (const bool by_guard : {true, false}) {
    write_file(path_, Image::for_loading().bytes);
    struct stat file{};
    ASSERT_EQ(::stat(path_.c_str(), &file), 0);
    Model model = open(by_guard ? Guard::required : Guard::off);
    const std::uint64_t sum = sum_of(model);
    EXPECT_GT(descriptors_of(file), 0);
    if (by_guard) {
      Child writer([&] { return ::truncate(path_.c_str(), 100) == 0; });
      EXPECT_EQ(writer.wait(), 0);
    } else {
      ASSERT_TRUE(model.load({.way = LoadWay::read}));
    }
    // The guard's thread closes it right after the writer was let in.
    for (int tries = 0; descriptors_of(file) > 0 && tries < 5000; ++tries)
      std::this_thread::sleep_for(1ms);
    EXPECT_EQ(descriptors_of(file), 0);
    ASSERT_EQ(::stat(path_.c_str(), &file), 0);
    std::filesystem::remove(path_);
    EXPECT_EQ(model.changed().value(), FileChange::removed);
    // Its number is free now, and may be the next file's; all else is as it was.
    write_file(path_, std::vector<std::byte>(static_cast<std::size_t>(file.st_size)));
    const timespec times[] = {file.st_atim, file.st_mtim};
    ASSERT_EQ(::utimensat(AT_FDCWD, path_.c_str(), times, 0), 0);
    EXPECT_EQ(model.changed().value(), FileChange::replaced);
    EXPECT_EQ(sum_of(model), sum);
  }
}

// A file that has been as it is for long, and that somebody has open for writing.
class HeldByAWriter : public Guarded {
 protected:
  HeldByAWriter() : writer_(::open(path_.c_str(), O_WRONLY)) {
    const timespec long_ago[] = {{.tv_sec = 1, .tv_nsec = 0},
                                 {.tv_sec = 1, .tv_nsec = 0}};
    ::futimens(writer_, long_ago);
  }
  ~HeldByAWriter() override { ::close(writer_); }
  LoadOptions read_while_it_is_written() const {
    const auto write = [this](std::uint64_t, std::uint64_t) {
      return ::pwrite(writer_, "x", 1, 5000) == 1;
    };
    return {.way = LoadWay::read, .progress = write};
  }

  int writer_;
};

// Its damage would show only where it is read through a mapping, which may be cut.
TEST_F(HeldByAWriter, what_requires_a_guard_is_not_mapped_without) {
  ASSERT_EQ(::pwrite(writer_, "x", 1, 70), 1);  // in the core: its digest is wrong
  EXPECT_EQ(Model::open(path_).error().code(), Code::corrupt);
  const auto refused = Model::open(path_, {.guard = Guard::required});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), Code::unsupported);
}

TEST_F(HeldByAWriter, what_requires_a_guard_may_be_read_without) {
  for (const LoadWay way : {LoadWay::read, LoadWay::automatic}) {
    const Model model = open(Guard::required, {.way = way});
    EXPECT_EQ(model.load_report().way, LoadWay::read);
    EXPECT_EQ(model.guard_report().state, GuardState::off);
    EXPECT_NE(model.guard_report().reason.find("own memory"), std::string::npos);
    if (way == LoadWay::automatic) {
      EXPECT_NE(model.load_report().reason.find("a guard is required"),
                std::string::npos);
    }
  }
  for (const LoadWay way : {LoadWay::map, LoadWay::populate, LoadWay::stream}) {
    const auto refused =
        Model::open(path_, {.load = {.way = way}, .guard = Guard::required});
    ASSERT_FALSE(refused) << load_way_name(way);
    EXPECT_EQ(refused.error().code(), Code::unsupported);
  }
}

TEST_F(HeldByAWriter, a_change_while_it_is_read_is_noticed) {
  for (const Guard guard : {Guard::required, Guard::wanted}) {
    const auto refused =
        Model::open(path_, {.load = read_while_it_is_written(), .guard = guard});
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code(), Code::corrupt);
    EXPECT_NE(refused.error().message().find("changed while it was read"),
              std::string::npos);
  }
}

TEST_F(HeldByAWriter, a_change_while_it_is_read_later_is_noticed) {
  Model model = open(Guard::wanted);
  EXPECT_EQ(model.guard_report().state, GuardState::off);
  const auto report = model.load(read_while_it_is_written());
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().code(), Code::corrupt);
  EXPECT_EQ(model.load_report().error->code(), Code::corrupt);
}

TEST_F(Guarded, names_alone_are_guarded_too) {
  const Model model =
      Model::open(path_, {.part = Part::metadata, .guard = Guard::required}).value();
  Child cut([&] { return ::truncate(path_.c_str(), 0) == 0; });
  EXPECT_EQ(cut.wait(), 0);
  EXPECT_EQ(model.tensor("a.1.w")->name(), "a.1.w");
}

TEST_F(Guarded, memory_of_its_own_needs_no_guard) {
  const Model model = open(Guard::required, {.way = LoadWay::read});
  const std::uint64_t sum = sum_of(model);
  EXPECT_EQ(model.guard_report().state, GuardState::off);
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(::truncate(path_.c_str(), 0), 0);
  EXPECT_LT(std::chrono::steady_clock::now() - start, 2s);
  EXPECT_EQ(sum_of(model), sum);
}

}  // namespace
}  // namespace weig::test
