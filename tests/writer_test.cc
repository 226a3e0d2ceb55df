// SPDX-License-Identifier: Apache-2.0
// Writer and save: a file appears whole, or not at all.
#include <gtest/gtest.h>

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "image.h"
#include "store/sink.h"

namespace weig::test {
namespace {

constexpr std::uint64_t kShape[] = {1000};

TensorSpec spec(std::string_view name, std::uint32_t shares = TensorSpec::kOwn) {
  return {.name = name, .dtype = Dtype::u8, .shape = kShape, .shares = shares};
}

std::vector<std::byte> filled(std::size_t size, int seed) {
  std::vector<std::byte> bytes(size);
  for (std::size_t i = 0; i < size; ++i)
    bytes[i] = static_cast<std::byte>(i * 7 + static_cast<std::size_t>(seed));
  return bytes;
}

// Keeps the bytes in memory; fails the n-th call of any kind.
class CountingSink final : public Sink {
 public:
  struct State {
    std::vector<std::byte> bytes;
    int calls = 0;
    int fail_at = -1;
    bool published = false;
    bool synced_before_trailer = false;
    int syncs = 0;
    std::vector<std::pair<std::uint64_t, std::size_t>> writes;
  };
  explicit CountingSink(State& state) : state_(state) {}

  Status reserve(std::uint64_t bytes) override {
    state_.bytes.assign(bytes, std::byte{0xEE});
    return step();
  }
  Status write(std::uint64_t offset, Bytes bytes) override {
    if (auto status = step(); !status) return status;
    std::ranges::copy(bytes, state_.bytes.begin() + static_cast<long>(offset));
    if (offset == state_.bytes.size() - 64)
      state_.synced_before_trailer = state_.syncs > 0;
    state_.writes.emplace_back(offset, bytes.size());
    return {};
  }
  Status sync() override {
    ++state_.syncs;
    return step();
  }
  Status publish() override {
    auto status = step();
    state_.published = status.has_value();
    return status;
  }
  void retract() noexcept override { state_.published = false; }

 private:
  Status step() {
    if (state_.calls++ == state_.fail_at)
      return Error(Code::io, "cannot write: made to fail");
    return {};
  }
  State& state_;
};

// Writes two tensors through a CountingSink.
Status write_two(CountingSink::State& state) {
  const std::vector<TensorSpec> specs = {spec("b"), spec("a")};
  const Plan plan = Plan::make(specs).value();
  auto writer = Writer::create(std::make_unique<CountingSink>(state), specs, plan);
  if (!writer) return std::move(writer).error();
  for (int i = 0; i < 2; ++i)
    if (auto status = writer->append(filled(1000, i)); !status) return status;
  auto id = writer->finish();
  if (!id) return std::move(id).error();
  return {};
}

TEST(Writer, fails_at_every_call_and_publishes_nothing) {
  CountingSink::State sound;
  ASSERT_TRUE(write_two(sound));
  EXPECT_TRUE(sound.published);
  EXPECT_TRUE(sound.synced_before_trailer);
  EXPECT_EQ(sound.syncs, 2);
  ASSERT_TRUE(View::open(sound.bytes));
  for (int n = 0; n < sound.calls; ++n) {
    CountingSink::State state;
    state.fail_at = n;
    const Status status = write_two(state);
    ASSERT_FALSE(status) << "call " << n;
    EXPECT_EQ(status.error().code(), Code::io);
    EXPECT_FALSE(state.published) << "call " << n;
  }
}

TEST(Writer, every_byte_is_written_once_in_cuts_of_2_mib) {
  CountingSink::State state;
  const std::uint64_t shape[] = {9'000'000};
  const std::vector<TensorSpec> specs = {
      {.name = "a", .dtype = Dtype::u8, .shape = shape}};
  const Plan plan = Plan::make(specs).value();
  Writer writer =
      Writer::create(std::make_unique<CountingSink>(state), specs, plan).value();
  ASSERT_TRUE(writer.append(filled(9'000'000, 1)));
  ASSERT_TRUE(writer.finish());
  std::ranges::sort(state.writes);
  std::uint64_t end = 0;
  for (const auto& [offset, size] : state.writes) {
    EXPECT_EQ(offset, end);
    EXPECT_EQ(offset / (2 << 20), (offset + size - 1) / (2 << 20));
    end = offset + size;
  }
  EXPECT_EQ(end, state.bytes.size());
  EXPECT_TRUE(View::open(state.bytes));
}

TEST(Writer, wants_exactly_the_planned_bytes) {
  const std::vector<TensorSpec> specs = {spec("a")};
  const Plan plan = Plan::make(specs).value();
  const Folder folder;
  {
    Writer writer = Writer::create(folder.path("x"), specs, plan).value();
    ASSERT_TRUE(writer.append(filled(999, 0)));
    const auto id = writer.finish();
    ASSERT_FALSE(id);
    EXPECT_EQ(id.error().code(), Code::invalid_argument);
    EXPECT_FALSE(writer.append(filled(1, 0)));  // errors stick
  }
  {
    Writer writer = Writer::create(folder.path("x"), specs, plan).value();
    EXPECT_FALSE(writer.append(filled(1001, 0)));
  }
  EXPECT_TRUE(folder.names().empty());
}

TEST(Writer, pieces_of_any_size_give_the_same_file) {
  const std::vector<TensorSpec> specs = {spec("a"), spec("b")};
  const Plan plan = Plan::make(specs).value();
  const auto data = filled(2000, 3);
  std::vector<std::vector<std::byte>> files;
  for (const std::size_t piece : {1ul, 7ul, 1000ul, 2000ul}) {
    CountingSink::State state;
    Writer writer =
        Writer::create(std::make_unique<CountingSink>(state), specs, plan).value();
    for (std::size_t at = 0; at < data.size(); at += piece)
      ASSERT_TRUE(writer.append(
          std::span(data).subspan(at, std::min(piece, data.size() - at))));
    ASSERT_TRUE(writer.finish());
    files.push_back(state.bytes);
  }
  for (const auto& file : files) EXPECT_TRUE(file == files[0]);
}

TEST(Save, refuses_bytes_that_do_not_fit_the_shape) {
  const Folder folder;
  const auto bytes = filled(999, 0);
  const std::vector<TensorData> tensors = {{spec("a"), bytes}};
  const auto id = save(folder.path("x.weig"), tensors);
  ASSERT_FALSE(id);
  EXPECT_EQ(id.error().code(), Code::invalid_argument);
  EXPECT_TRUE(folder.names().empty());
}

TEST(Save, refuses_other_bytes_for_tensors_that_share_them) {
  const Folder folder;
  const std::uint64_t shape[] = {4};
  const auto give = [&](std::span<const std::byte> second) {
    const auto first = to_bytes("abcd");
    const TensorData tensors[] = {
        {{.name = "a", .dtype = Dtype::u8, .shape = shape, .shares = 0}, first},
        {{.name = "b", .dtype = Dtype::u8, .shape = shape, .shares = 0}, second}};
    return save(folder.path("m.weig"), tensors);
  };
  const auto refused = give(to_bytes("abce"));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), Code::invalid_argument);
  EXPECT_EQ(refused.error().fields().tensor, "b");
  EXPECT_TRUE(give(to_bytes("abcd")));
}

TEST(Writer, refuses_sections_that_no_reader_would_take) {
  const Folder folder;
  const Plan plan = Plan::make({}).value();
  const auto create = [&](std::vector<SectionBytes> sections) {
    return Writer::create(folder.path("m.weig"), {}, plan,
                          {.sections = std::move(sections)});
  };
  for (const auto kind : {disk::SectionKind::source, disk::SectionKind::quantization,
                          disk::SectionKind::shard}) {
    const auto refused = create({{kind, to_bytes("junk")}});
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code(), Code::invalid_argument);
  }
  std::vector<SectionBytes> many;
  for (std::uint32_t i = 0; i < 300; ++i)
    many.push_back({static_cast<disk::SectionKind>(0x80000000 + i), to_bytes("x")});
  EXPECT_EQ(create(many).error().code(), Code::invalid_argument);
  many.resize(200);
  EXPECT_TRUE(create(many));
}

TEST(Save, never_overwrites_unless_asked_and_keeps_the_mode) {
  const Folder folder;
  const std::string path = folder.path("x.weig");
  const auto bytes = filled(1000, 0);
  const std::vector<TensorData> tensors = {{spec("a"), bytes}};
  write_file(path, to_bytes("old"));
  ::chmod(path.c_str(), 0640);
  const auto refused = save(path, tensors);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), Code::exists);
  EXPECT_EQ(read_file(path).size(), 3u);
  ASSERT_TRUE(save(path, tensors, {}, Existing::replace));
  EXPECT_TRUE(View::open(read_file(path)));
  struct stat status{};
  ASSERT_EQ(::stat(path.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777u, 0640u);
  EXPECT_EQ(folder.names(), (std::vector<std::string>{"x.weig"}));
}

TEST(Save, new_files_have_the_mode_of_a_plain_create) {
  const Folder folder;
  const std::string path = folder.path("x.weig");
  const mode_t old = ::umask(027);
  const auto saved = save(path, {});
  ::umask(old);
  ASSERT_TRUE(saved) << saved.error().message();
  struct stat status{};
  ASSERT_EQ(::stat(path.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777u, 0640u);
}

TEST(Save, replaces_the_file_behind_a_link_not_the_link) {
  const Folder folder;
  write_file(folder.path("real"), to_bytes("old"));
  std::filesystem::create_symlink("real", folder.path("link"));
  ASSERT_TRUE(save(folder.path("link"), {}, {}, Existing::replace));
  EXPECT_TRUE(std::filesystem::is_symlink(folder.path("link")));
  EXPECT_TRUE(View::open(read_file(folder.path("real"))));
}

TEST(Save, refuses_folders_devices_and_missing_folders) {
  const Folder folder;
  for (const std::string& path : {folder.path(""), std::string("/dev/null"),
                                  folder.path("no/such"), std::string()}) {
    const auto id = save(path, {}, {}, Existing::replace);
    ASSERT_FALSE(id) << path;
    EXPECT_EQ(id.error().code(), Code::cannot_open) << path;
  }
  EXPECT_TRUE(folder.names().empty());
}

TEST(Save, identical_bytes_whatever_the_order_and_path) {
  const Folder folder;
  const auto a = filled(1000, 1);
  const auto b = filled(1000, 2);
  const std::vector<TensorData> one = {{spec("a"), a}, {spec("b"), b}};
  const std::vector<TensorData> two = {{spec("b"), b}, {spec("a"), a}};
  ASSERT_TRUE(save(folder.path("1"), one));
  ASSERT_TRUE(save(folder.path("2"), two));
  EXPECT_TRUE(read_file(folder.path("1")) == read_file(folder.path("2")));
}

}  // namespace
}  // namespace weig::test
