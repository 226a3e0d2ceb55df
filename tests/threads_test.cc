// SPDX-License-Identifier: Apache-2.0
// Many threads on one Model, and on Models of their own. Each does what it likes for
// some time, chosen by a fixed seed; what is right was written down before by one
// thread alone. Under the thread sanitizer (preset `tsan`) races show too.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <functional>
#include <random>
#include <thread>

#include <weig/guard.h>
#include <weig/load.h>
#include <weig/metadata.h>
#include <weig/model.h>
#include <weig/parts.h>
#include <weig/verify.h>

#include "image.h"

namespace weig::test {
namespace {

using Clock = std::chrono::steady_clock;
constexpr unsigned kThreads = 6;
constexpr std::chrono::milliseconds kTime{WEIG_THREADS_MS};
constexpr LoadWay kWays[] = {LoadWay::map, LoadWay::stream, LoadWay::populate,
                             LoadWay::read, LoadWay::automatic};

class Random {
 public:
  explicit Random(unsigned seed) : engine_(seed) {}
  std::size_t below(std::size_t count) { return engine_() % count; }
  bool coin() { return engine_() & 1; }
  template <typename List>
  const auto& one_of(const List& list) {
    return list[below(std::size(list))];
  }

 private:
  std::mt19937 engine_;
};

// Calls work again and again, on several threads at once, until the time is over.
void on_threads(const std::function<void(Random&)>& work,
                const std::function<void(Random&)>& meanwhile = nullptr) {
  const auto end = Clock::now() + kTime;
  std::vector<std::thread> threads;
  for (unsigned seed = 0; seed < kThreads; ++seed)
    threads.emplace_back([&, seed] {
      Random random(seed);
      while (Clock::now() < end && !testing::Test::HasFailure()) work(random);
    });
  Random random(kThreads);
  while (meanwhile && Clock::now() < end && !testing::Test::HasFailure())
    meanwhile(random);
  for (std::thread& thread : threads) thread.join();
}

// 5 MiB in layers, so that there are huge pages, groups, aliases, and several pieces
// for every way to load.
Image layers() {
  std::vector<ImageTensor> tensors;
  for (int i = 0; i < 12; ++i) {
    const std::string layer = "model.layers." + std::to_string(i);
    tensors.push_back({layer + ".w", Dtype::f32, {300, 333}});
    tensors.push_back({layer + ".b", Dtype::bf16, {333}});
    tensors.push_back({layer + ".n", Dtype::i64, {7}});
  }
  tensors[4].shares = 0;
  tensors.push_back({"tied", Dtype::u16, {333}, 0});
  return Image::sealed(
      tensors, {{disk::SectionKind::metadata, to_bytes(R"({"format":"pt","n":"1"})")}});
}

// Files of all kinds, and what each holds.
class Threads : public testing::Test {
 protected:
  struct File {
    std::string path;
    std::string holds;
  };

  Threads() {
    add("layers.weig", layers().bytes);
    add("all.weig", Image::all_sections().bytes);
    add("basic.weig", Image::basic().bytes);
    const std::vector<ImageTensor> few = {{"w", Dtype::f32, {2, 3}},
                                          {"b", Dtype::i16, {3}}};
    add("minimal.weig", Image::minimal(few).bytes);
    add("big.weig", Image::minimal(few, ByteOrder::big).bytes);
    add("m.safetensors",
        safetensors(R"({"t":{"dtype":"F32","shape":[1,250000],)"
                    R"("data_offsets":[0,1000000]},"__metadata__":{"a":"b"}})",
                    std::vector<std::byte>(1'000'000, std::byte{7})));
  }

  void add(const std::string& name, std::span<const std::byte> bytes) {
    write_file(folder_.path(name), bytes);
    const Model model = Model::open(folder_.path(name), kAccept).value();
    files_.push_back({folder_.path(name), describe(model.view()).value()});
  }

  static inline const OpenOptions kAccept{.unsealed = Unsealed::accept};
  Folder folder_;
  std::vector<File> files_;
};

template <typename T>
void read_typed(const Tensor& tensor) {
  const auto elements = tensor.as<T>();
  if (!elements) return;
  double sum = 0;
  for (const T element : *elements) sum += static_cast<double>(element);
  EXPECT_EQ(elements->size(), tensor.element_count()) << sum;
}

void read_one_tensor(const Model& model, Random& random) {
  const Tensor tensor = model[random.below(model.size())].value();
  EXPECT_EQ(model.tensor(tensor.name())->ordinal(), tensor.ordinal());
  EXPECT_LE(model.owner(tensor.ordinal()).value(), tensor.ordinal());
  EXPECT_TRUE(model.digest(tensor.ordinal()));
  EXPECT_EQ(tensor.strides().rank(), tensor.rank());
  static_cast<void>(model.is_view(tensor));  // a load may change it at any time
  read_typed<float>(tensor);
  read_typed<std::int64_t>(tensor);
  read_typed<std::uint8_t>(tensor);
}

void read_sections(const Model& model) {
  const Groups groups = model.groups().value();
  for (std::uint32_t i = 0; i < groups.size(); ++i)
    EXPECT_LE(groups[i].first + groups[i].count, model.size());
  EXPECT_TRUE(model.metadata());
  EXPECT_TRUE(model.source());
  EXPECT_TRUE(model.shard());
  for (std::uint32_t i = 0; i < model.quantization_count().value(); ++i)
    EXPECT_TRUE(model.quantization(i));
}

// One thing of all that a const Model can be asked.
void use(const Model& model, const std::string& holds, Random& random) {
  switch (random.below(8)) {
    case 0:
      EXPECT_EQ(describe(model.view()).value(), holds);
      break;
    case 1:
      EXPECT_EQ(model.tensor("absent").error().code(), Code::not_found);
      break;
    case 2:
      read_sections(model);
      break;
    case 3:
      EXPECT_TRUE(verify(model, {.threads = 2, .progress = {}})->sound());
      break;
    case 4:
      EXPECT_LE(model.load_report().bytes, model.file_size());
      break;
    case 5:
      EXPECT_TRUE(model.check_structure());
      EXPECT_TRUE(model.check_sections());
      break;
    default:
      read_one_tensor(model, random);
  }
}

// Opened lazily, so that threads prove the same things at once; and loaded in all ways
// while they do.
TEST_F(Threads, share_one_model) {
  std::vector<Model> models;
  for (const File& file : files_)
    models.push_back(Model::open(file.path, {.validation = Validation::lazy,
                                             .unsealed = Unsealed::accept})
                         .value());
  on_threads(
      [&](Random& random) {
        const std::size_t i = random.below(models.size());
        use(models[i], files_[i].holds, random);
      },
      [&](Random& random) {
        Model& model = models[random.below(models.size())];
        EXPECT_TRUE(model.load({.way = random.one_of(kWays), .threads = 2}));
        if (random.coin()) {
          EXPECT_TRUE(model.wait());
        }
      });
}

// The first questions to a lazy model, all at once.
TEST_F(Threads, ask_a_fresh_lazy_model_together) {
  const auto end = Clock::now() + kTime / 4;
  while (Clock::now() < end && !HasFailure()) {
    const Model model =
        Model::open(files_[0].path, {.validation = Validation::lazy}).value();
    std::atomic<unsigned> ready = 0;
    std::vector<std::thread> threads;
    for (unsigned seed = 0; seed < kThreads; ++seed)
      threads.emplace_back([&, seed] {
        ++ready;
        while (ready < kThreads) continue;
        if (seed % 2 == 0) {
          EXPECT_FALSE(model.find("absent").value());
        }
        read_sections(model);
      });
    for (std::thread& thread : threads) thread.join();
  }
}

TEST_F(Threads, share_one_view) {
  const Image image = layers();
  const View view = image.open({.validation = Validation::lazy}).value();
  const std::string holds = describe(view).value();
  const View fresh = image.open({.validation = Validation::lazy}).value();
  on_threads([&](Random& random) {
    const View& one = random.coin() ? view : fresh;
    const Tensor tensor = one[random.below(one.size())].value();
    EXPECT_EQ(one.find(tensor.name()).value()->data(), tensor.data());
    EXPECT_FALSE(one.find("absent").value());
    EXPECT_TRUE(one.check_sections());
    EXPECT_EQ(describe(one).value(), holds);
  });
}

// Models of their own, over the same files: opened, asked, loaded, moved and closed,
// also while they still load.
TEST_F(Threads, open_load_and_close_what_they_like) {
  on_threads([&](Random& random) {
    const File& file = random.one_of(files_);
    OpenOptions options = kAccept;
    options.validation = random.coin() ? Validation::full : Validation::lazy;
    options.load = {.way = random.one_of(kWays), .threads = random.coin() ? 2u : 0u};
    Model model = Model::open(file.path, options).value();
    for (std::size_t i = random.below(4); i > 0; --i) use(model, file.holds, random);
    if (random.coin()) {
      Model moved = std::move(model);
      model = std::move(moved);
    }
    EXPECT_TRUE(model.load({.way = random.one_of(kWays)}));
    if (random.coin()) {
      EXPECT_EQ(describe(model.view()).value(), file.holds);
      EXPECT_TRUE(model.wait());
    }
  });
}

// Guarded models in several threads, over a file that somebody cuts, overwrites and
// replaces meanwhile, and then writes anew: whoever could open it sees what it held.
TEST_F(Threads, are_guarded_while_a_writer_strikes) {
  const File& file = files_[0];
  const auto whole = read_file(file.path);
  const std::vector<std::byte> other(whole.size(), std::byte{'x'});
  std::atomic<unsigned> saved = 0;
  const auto read_guarded = [&](Random& random) {
    const Validation validation = random.coin() ? Validation::full : Validation::lazy;
    auto model = Model::open(file.path, {.validation = validation,
                                         .load = {.way = random.one_of(kWays)},
                                         .guard = Guard::required});
    if (!model) {  // it is open for writing, was cut, or was written to meanwhile
      const Code code = model.error().code();
      EXPECT_TRUE(code == Code::unsupported || code == Code::corrupt)
          << model.error().message();
      return;
    }
    // Some stay for as long as it takes a guard to see a writer, and longer.
    const auto until = Clock::now() + std::chrono::milliseconds(50 * random.below(3));
    do use(*model, file.holds, random);
    while (Clock::now() < until);
    if (random.coin()) {
      EXPECT_TRUE(model->load({.way = random.one_of(kWays)}));
      EXPECT_EQ(describe(model->view()).value(), file.holds);
    }
    saved += model->guard_report().state == GuardState::copied;
  };
  const auto strike = [&](Random& random) {
    switch (random.below(3)) {
      case 0:
        std::filesystem::resize_file(file.path, random.below(whole.size()));
        break;
      case 1:
        write_file(file.path, other);
        break;
      default:
        write_file(file.path + ".new", whole);
        std::filesystem::rename(file.path + ".new", file.path);
    }
    write_file(file.path, whole);
  };
  const auto latest = Clock::now() + std::chrono::seconds(60);
  while (saved == 0 && Clock::now() < latest && !HasFailure())
    on_threads(read_guarded, strike);
  EXPECT_GT(saved, 0u);
}

// Half of them give tensors new contents, each byte the same, and take them away again;
// the others read what names lead to, and hold on to what they read.
TEST_F(Threads, overlays_come_and_go_under_readers) {
  constexpr unsigned kWriters = 4;
  constexpr unsigned kReaders = 4;
  constexpr int kOverlays = 500;  // of each writer
  Model model = Model::open(folder_.path("layers.weig")).value();
  const std::uint64_t shape[] = {1000};
  std::atomic<unsigned> writing = kWriters;
  std::atomic<std::uint64_t> seen = 0;
  const auto write = [&](unsigned seed) {
    Random random(seed);
    for (int i = 0; i < kOverlays; ++i) {
      const std::string name(model.view()[random.below(model.size())]->name());
      const Overlay contents = Overlay::make(Dtype::u8, shape).value();
      std::ranges::fill(contents.bytes(), static_cast<std::byte>(random.below(256)));
      EXPECT_TRUE(model.overlay(name, contents));
      if (random.coin()) static_cast<void>(model.drop_overlay(name));
      if (random.below(100) == 0) model.drop_overlays();
    }
    --writing;
  };
  const auto read = [&](unsigned seed) {
    Random random(seed);
    while (writing > 0) {
      const Tensor tensor = model.view()[random.below(model.size())].value();
      const auto overlay = model.overlaid(tensor.name()).value();
      static_cast<void>(model[tensor.ordinal()].value().byte_count());
      if (!overlay) continue;
      const auto bytes = overlay->bytes();
      EXPECT_TRUE(std::ranges::all_of(bytes, [&](auto b) { return b == bytes[0]; }));
      ++seen;
    }
  };
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < kWriters; ++i) threads.emplace_back(write, i);
  for (unsigned i = 0; i < kReaders; ++i) threads.emplace_back(read, kWriters + i);
  for (std::thread& thread : threads) thread.join();
  EXPECT_GT(seen, 0u);
  model.drop_overlays();
  EXPECT_EQ(describe(model.view()).value(), files_.front().holds);
}

// Parts are brought in, given back and read by all at once: what is read is the same.
TEST_F(Threads, parts_come_and_go_under_readers) {
  Model model = Model::open(folder_.path("layers.weig")).value();
  const std::vector<FilePart> parts = file_parts(model).value();
  std::vector<std::uint8_t> first;
  for (const auto& tensor : model.tensors())
    first.push_back(static_cast<std::uint8_t>(tensor->bytes()[0]));
  on_threads(
      [&](Random& random) {
        const std::size_t i = random.below(model.size());
        EXPECT_EQ(model[i]->bytes()[0], static_cast<std::byte>(first[i]));
        const bool released =
            random.coin() || model.release(random.one_of(parts).ranges).has_value();
        const bool counted = random.below(20) > 0 || model.memory().has_value();
        EXPECT_TRUE(released && counted);
      },
      [&](Random& random) {
        EXPECT_TRUE(model.prefetch(random.one_of(parts).ranges));
        EXPECT_TRUE(random.coin() || model.wait().has_value());
      });
}

}  // namespace
}  // namespace weig::test
