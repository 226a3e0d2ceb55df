// SPDX-License-Identifier: Apache-2.0
// Ways to load: each gives the same bytes, tells what it did, and stops when told to.
#include <weig/load.h>

#include <gtest/gtest.h>

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <latch>
#include <optional>
#include <thread>

#include <weig/verify.h>

#include "image.h"
#include "loaded_model.h"

namespace weig::test {
namespace {

constexpr LoadWay kWays[] = {LoadWay::map, LoadWay::stream, LoadWay::populate,
                             LoadWay::read, LoadWay::automatic};

class Load : public testing::Test {
 protected:
  Load() { write_file(path_, Image::for_loading().bytes); }

  Model open(LoadOptions options) const {
    return Model::open(path_, {.load = std::move(options)}).value();
  }

  Folder folder_;
  std::string path_ = folder_.path("m.weig");
};

TEST_F(Load, all_ways_give_the_same_bytes) {
  const std::uint64_t expected = sum_of(Model::open(path_).value());
  for (const LoadWay way : kWays) {
    for (const unsigned threads : {0u, 1u, 7u}) {
      Model model = open({.way = way, .threads = threads});
      ASSERT_TRUE(model.wait()) << load_way_name(way);
      EXPECT_EQ(sum_of(model), expected) << load_way_name(way) << threads;
    }
  }
}

TEST_F(Load, a_safetensors_file_loads_the_same_ways) {
  const std::vector<std::byte> data(5 << 20, std::byte{7});
  const std::string path = folder_.path("m.safetensors");
  write_file(path, safetensors(R"({"t":{"dtype":"U8","shape":[5242880],)"
                               R"("data_offsets":[0,5242880]}})",
                               data));
  for (const LoadWay way : kWays) {
    Model model = Model::open(path, {.load = {.way = way}}).value();
    ASSERT_TRUE(model.wait());
    const Tensor tensor = model.tensor("t").value();
    EXPECT_TRUE(std::ranges::equal(tensor.bytes(), data)) << load_way_name(way);
  }
}

TEST_F(Load, names_of_ways_are_read_back) {
  for (const LoadWay way : kWays) EXPECT_EQ(load_way_named(load_way_name(way)), way);
  EXPECT_FALSE(load_way_named("automatic"));
}

TEST_F(Load, the_report_tells_what_was_done) {
  for (const LoadWay way : {LoadWay::stream, LoadWay::populate, LoadWay::read}) {
    Model model = open({.way = way});
    const LoadReport report = model.wait().value();
    EXPECT_EQ(report.asked, way);
    EXPECT_EQ(report.way, way);
    EXPECT_TRUE(report.finished);
    EXPECT_TRUE(report.warnings.empty());
    EXPECT_GE(report.threads, 1u);
    EXPECT_GT(report.seconds, 0);
    EXPECT_GT(report.bytes, model.file_size() - model.data_begin() - 1);
    EXPECT_LE(report.bytes, model.file_size());
    if (way != LoadWay::read) {
      EXPECT_EQ(report.resident_after, model.file_size());
    }
  }
  Model model = open({.way = LoadWay::automatic});
  EXPECT_EQ(model.load_report().asked, LoadWay::automatic);
  EXPECT_NE(model.load_report().way, LoadWay::automatic);
  EXPECT_FALSE(model.load_report().reason.empty());
}

TEST_F(Load, populated_pages_fault_no_more) {
  const Model model = open({.way = LoadWay::populate});
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  std::vector<unsigned char> present(model.mapped().size() / page + 1);
  void* start = const_cast<std::byte*>(model.mapped().data());
  ASSERT_EQ(::mincore(start, model.mapped().size(), present.data()), 0);
  for (std::size_t i = 0; i * page < model.mapped().size(); ++i)
    ASSERT_EQ(present[i] & 1, 1) << i;
}

TEST_F(Load, reading_takes_memory_of_our_own_that_cannot_be_written) {
  for (const bool later : {false, true}) {
    Model model = open({.way = later ? LoadWay::map : LoadWay::read});
    const Tensor before = model.tensor("a.1.w").value();
    const std::uint64_t sum = sum_of(model);
    if (later) {
      ASSERT_TRUE(model.load({.way = LoadWay::read}));
    }
    EXPECT_EQ(model.tensor("a.1.w").value().data(), before.data());
    EXPECT_EQ(sum_of(model), sum);
    // The file is not needed any more: cut, it would have killed a mapping's reader.
    std::filesystem::resize_file(path_, 0);
    EXPECT_EQ(sum_of(model), sum);
    std::ifstream maps("/proc/self/maps");
    for (std::string line; std::getline(maps, line);) {
      EXPECT_FALSE(line.ends_with(path_)) << line;
      unsigned long from = 0;
      unsigned long to = 0;
      std::sscanf(line.c_str(), "%lx-%lx", &from, &to);
      const auto at = reinterpret_cast<std::uintptr_t>(model.mapped().data());
      if (from <= at && at < to) {
        EXPECT_NE(line.find(" r--p "), line.npos) << line;
      }
    }
    write_file(path_, Image::for_loading().bytes);
  }
}

// By /proc/self/maps, which may cut a mapping into several.
bool lies_in_a_mapping_of(const std::string& path, const Tensor& tensor) {
  const auto begin = reinterpret_cast<std::uintptr_t>(tensor.data());
  const auto end = begin + tensor.byte_count();
  std::uintptr_t covered = 0;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    unsigned long from = 0;
    unsigned long to = 0;
    std::sscanf(line.c_str(), "%lx-%lx", &from, &to);
    if (line.ends_with(path) && from < end && begin < to)
      covered +=
          std::min<std::uintptr_t>(to, end) - std::max<std::uintptr_t>(from, begin);
  }
  return covered == tensor.byte_count();
}

TEST_F(Load, each_tensor_is_told_to_be_a_view_or_a_copy) {
  const std::string misaligned = folder_.path("m.safetensors");
  write_file(misaligned, safetensors(R"({"t":{"dtype":"F32","shape":[1],)"
                                     R"("data_offsets":[1,5]},"u":{"dtype":"U8",)"
                                     R"("shape":[1],"data_offsets":[0,1]}})",
                                     std::vector<std::byte>(5)));
  for (const std::string& path : {path_, misaligned}) {
    Model model = Model::open(path).value();
    for (const LoadWay way : kWays) {
      ASSERT_TRUE(model.load({.way = way}) && model.wait());
      const bool view = model.load_report().way != LoadWay::read;
      for (const Result<Tensor>& tensor : model.tensors()) {
        EXPECT_EQ(model.is_view(*tensor), view) << path << tensor->name();
        EXPECT_EQ(lies_in_a_mapping_of(path, *tensor), view) << path << tensor->name();
      }
    }
  }
  const Model read = open({.way = LoadWay::read});
  EXPECT_FALSE(read.is_view(read.tensor("b").value()));
  const std::string big = folder_.path("big.weig");
  write_file(big, Image::minimal({{"t", Dtype::f32, {2}}}, ByteOrder::big).bytes);
  const Model swapped = Model::open(big, {.unsealed = Unsealed::accept}).value();
  EXPECT_FALSE(swapped.is_view(swapped.tensor("t").value()));
  const Model names = Model::open(path_, {.part = Part::metadata}).value();
  EXPECT_FALSE(names.is_view(names.tensor("b").value()));
}

TEST_F(Load, an_open_model_loads_in_any_order_of_ways) {
  Model model = Model::open(path_).value();
  const std::uint64_t sum = sum_of(model);
  for (const LoadWay way : {LoadWay::stream, LoadWay::populate, LoadWay::automatic,
                            LoadWay::map, LoadWay::read, LoadWay::populate}) {
    const auto report = model.load({.way = way});
    ASSERT_TRUE(report) << report.error().message();
    ASSERT_TRUE(model.wait());
    EXPECT_EQ(sum_of(model), sum);
  }
  EXPECT_EQ(model.load_report().reason, "all is in memory already");
}

TEST_F(Load, a_replaced_path_never_means_another_file) {
  Model model = Model::open(path_).value();
  const std::uint64_t sum = sum_of(model);
  std::filesystem::remove(path_);
  write_file(path_, Image::sealed({{"x", Dtype::u8, {3}}}).bytes);
  ASSERT_TRUE(model.load({.way = LoadWay::read}));
  EXPECT_EQ(sum_of(model), sum);
}

TEST_F(Load, progress_counts_up_to_all_and_never_by_two_threads_at_once) {
  for (const LoadWay way : {LoadWay::stream, LoadWay::populate, LoadWay::read}) {
    std::atomic<int> inside = 0;
    std::uint64_t last = 0;
    std::uint64_t all = 0;
    const auto progress = [&](std::uint64_t done, std::uint64_t total) {
      EXPECT_EQ(++inside, 1);
      EXPECT_GT(done, last);
      last = done;
      all = total;
      --inside;
      return true;
    };
    Model model = open({.way = way, .threads = 4, .progress = progress});
    ASSERT_TRUE(model.wait());
    EXPECT_EQ(last, all);
    EXPECT_EQ(model.load_report().bytes, all);
  }
}

TEST_F(Load, stops_when_progress_says_so) {
  for (const LoadWay way : {LoadWay::populate, LoadWay::read}) {
    int calls = 0;
    const auto stop = [&](std::uint64_t, std::uint64_t) { return ++calls < 2; };
    const auto model = Model::open(path_, {.load = {.way = way, .progress = stop}});
    ASSERT_FALSE(model);
    EXPECT_EQ(model.error().code(), Code::cancelled);
    EXPECT_EQ(calls, 2) << load_way_name(way);
  }
  Model model = open({.way = LoadWay::stream,
                      .progress = [](std::uint64_t, std::uint64_t) { return false; }});
  EXPECT_EQ(model.wait().error().code(), Code::cancelled);
  EXPECT_EQ(model.wait().error().code(), Code::cancelled) << "asked again";
  EXPECT_TRUE(model.load_report().finished);
  EXPECT_EQ(model.load_report().error->code(), Code::cancelled);
  EXPECT_TRUE(model.tensor("b")) << "the model itself is as good as ever";
}

TEST_F(Load, a_callback_may_ask_for_the_report) {
  for (const LoadWay way : {LoadWay::populate, LoadWay::stream, LoadWay::read}) {
    Model model = Model::open(path_).value();
    int calls = 0;
    const auto ask = [&](std::uint64_t done, std::uint64_t) {
      ++calls;
      // While a mapping is replaced, its model still has the report of before.
      if (way != LoadWay::read) {
        EXPECT_EQ(model.load_report().bytes, done);
      }
      return true;
    };
    ASSERT_TRUE(model.load({.way = way, .threads = 1, .progress = ask}));
    ASSERT_TRUE(model.wait());
    EXPECT_GT(calls, 1);
  }
}

TEST_F(Load, failures_stay_in_the_report) {
  Model model = Model::open(path_).value();
  const auto stop = [](std::uint64_t, std::uint64_t) { return false; };
  for (const LoadWay way : {LoadWay::populate, LoadWay::read}) {
    EXPECT_FALSE(model.load({.way = way, .progress = stop}));
    EXPECT_EQ(model.wait().error().code(), Code::cancelled);
    EXPECT_EQ(model.load_report().error->code(), Code::cancelled);
  }
  std::filesystem::resize_file(path_, 5000);
  EXPECT_FALSE(model.load({.way = LoadWay::populate}));
  EXPECT_EQ(model.wait().error().code(), Code::corrupt);
}

TEST_F(Load, reports_may_be_asked_for_while_loading) {
  Model model = Model::open(path_).value();
  std::atomic<bool> done = false;
  std::thread other([&] {
    while (!done) EXPECT_LE(model.load_report().reason.size(), 200u);
  });
  for (int i = 0; i < 200; ++i)
    ASSERT_TRUE(model.load({.way = i % 2 ? LoadWay::map : LoadWay::automatic}));
  done = true;
  other.join();
}

TEST_F(Load, a_cut_inside_the_last_page_is_noticed) {
  Model model = Model::open(path_).value();
  const auto cut = [&](std::uint64_t, std::uint64_t) {
    std::filesystem::resize_file(path_, model.file_size() - 100);
    return true;
  };
  const auto report = model.load({.way = LoadWay::populate, .progress = cut});
  EXPECT_EQ(report.error().code(), Code::corrupt);
}

TEST_F(Load, a_callback_that_throws_says_stop) {
  const auto bad = [](std::uint64_t, std::uint64_t) -> bool { throw 1; };
  for (const LoadWay way : {LoadWay::populate, LoadWay::read}) {
    const auto model = Model::open(path_, {.load = {.way = way, .progress = bad}});
    EXPECT_EQ(model.error().code(), Code::cancelled);
  }
  Model model = open({.way = LoadWay::stream, .progress = bad});
  EXPECT_EQ(model.wait().error().code(), Code::cancelled);
}

TEST_F(Load, a_model_may_go_or_move_while_it_streams) {
  for (int i = 0; i < 20; ++i) {
    Model model = open({.way = LoadWay::stream, .threads = 2});
    Model moved = std::move(model);
    EXPECT_TRUE(moved.tensor("b"));
  }
}

TEST_F(Load, a_forked_child_has_no_part_in_a_load) {
  std::latch begun(1);
  std::latch forked(1);
  std::atomic<int> calls = 0;
  const auto progress = [&](std::uint64_t, std::uint64_t) {
    if (calls++ == 0) begun.count_down();
    forked.wait();
    return true;
  };
  std::optional<Model> model = open({.way = LoadWay::stream, .progress = progress});
  begun.wait();
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(20);
    const LoadReport report = model->load_report();
    bool good = report.finished && report.error->code() == Code::cancelled;
    good = good && model->wait().error().code() == Code::cancelled;
    good = good && verify(*model)->sound();
    good = good && model->load({.way = LoadWay::populate});
    model.reset();
    ::_exit(good ? 0 : 1);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  forked.count_down();
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(model->wait());
}

TEST_F(Load, streaming_is_not_finished_until_it_is) {
  std::atomic<bool> go = false;
  Model model = open({.way = LoadWay::stream, .progress = [&](auto, auto) {
                        while (!go) ::usleep(1000);
                        return true;
                      }});
  EXPECT_FALSE(model.load_report().finished);
  go = true;
  EXPECT_TRUE(model.wait().value().finished);
}

TEST_F(Load, a_metadata_only_model_has_nothing_to_load) {
  EXPECT_EQ(
      Model::open(path_, {.part = Part::metadata, .load = {.way = LoadWay::populate}})
          .error()
          .code(),
      Code::invalid_argument);
  Model model = Model::open(path_, {.part = Part::metadata}).value();
  EXPECT_EQ(model.load({.way = LoadWay::populate}).error().code(),
            Code::invalid_argument);
}

TEST_F(Load, a_file_cut_meanwhile_is_an_error_and_no_signal) {
  for (const LoadWay way : {LoadWay::populate, LoadWay::stream, LoadWay::read}) {
    write_file(path_, Image::for_loading().bytes);
    Model model = Model::open(path_).value();
    std::filesystem::resize_file(path_, 1 << 20);
    auto report = model.load({.way = way});
    ASSERT_FALSE(report);
    EXPECT_EQ(report.error().code(), Code::corrupt);
    EXPECT_EQ(report.error().fields().file, path_);
  }
}

// In the middle of the load: the first piece is there, then the file is cut.
TEST_F(Load, a_file_cut_while_loading_is_an_error_and_no_signal) {
  for (const LoadWay way : {LoadWay::populate, LoadWay::stream, LoadWay::read}) {
    write_file(path_, Image::for_loading().bytes);
    const auto cut = [&](std::uint64_t, std::uint64_t) {
      std::filesystem::resize_file(path_, 4096);
      return true;
    };
    Model model = Model::open(path_).value();
    auto report = model.load({.way = way, .threads = 1, .progress = cut});
    if (report) report = model.wait();
    ASSERT_FALSE(report) << load_way_name(way);
    EXPECT_EQ(report.error().code(), Code::corrupt);
  }
}

TEST_F(Load, ways_with_a_mapping_take_no_memory_of_their_own) {
  const auto anonymous_kib = [] {
    std::ifstream status("/proc/self/status");
    for (std::string line; std::getline(status, line);)
      if (line.starts_with("RssAnon:")) return std::stoul(line.substr(8));
    return 0ul;
  };
  const auto before = anonymous_kib();
  Model model = open({.way = LoadWay::populate});
  EXPECT_LT(anonymous_kib(), before + 8192);
}

// 4 TiB of nothing.
TEST_F(Load, what_memory_cannot_hold_is_refused_to_read_and_only_mapped_by_auto) {
  const std::string path = folder_.path("sparse.safetensors");
  const std::vector<std::byte> head =
      safetensors(R"({"t":{"dtype":"U8","shape":[4398046511104],)"
                  R"("data_offsets":[0,4398046511104]}})",
                  {});
  write_file(path, head);
  std::filesystem::resize_file(path, head.size() + (std::uint64_t{1} << 42));
  const auto read = Model::open(path, {.load = {.way = LoadWay::read}});
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().code(), Code::limit);
  EXPECT_NE(read.error().message().find("has available"), std::string::npos);

  Model model = Model::open(path, {.load = {.way = LoadWay::automatic}}).value();
  EXPECT_EQ(model.load_report().way, LoadWay::map);
  EXPECT_NE(model.load_report().reason.find("do not fit"), std::string::npos);
  EXPECT_EQ(model.load({.way = LoadWay::read}).error().code(), Code::limit);
  EXPECT_EQ(model.tensor("t").value().bytes().back(), std::byte{0});
}

}  // namespace
}  // namespace weig::test
