// SPDX-License-Identifier: Apache-2.0
// Model: files on disk, mapped.
#include <weig/model.h>

#include <gtest/gtest.h>

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "image.h"

namespace weig::test {
namespace {

// The lines of /proc/self/maps that name a file.
std::vector<std::string> mappings_of(const std::string& path) {
  std::ifstream maps("/proc/self/maps");
  std::vector<std::string> found;
  for (std::string line; std::getline(maps, line);)
    if (line.ends_with(path)) found.push_back(line);
  return found;
}

// Descriptors that can read or write; those of O_PATH (octal 10000000) cannot.
std::size_t open_descriptors() {
  std::size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fdinfo")) {
    std::ifstream info(entry.path());
    for (std::string line; std::getline(info, line);)
      if (line.starts_with("flags:"))
        count += (std::stoul(line.substr(6), nullptr, 8) & 010000000) == 0;
  }
  return count;
}

std::string save_to(const Folder& folder, const Image& image,
                    std::string_view name = "m.weig") {
  write_file(folder.path(name), image.bytes);
  return folder.path(name);
}

// 8 MiB in two groups.
Image large_image() {
  return Image::sealed(
      {{"l.0.w", Dtype::f32, {1 << 20}}, {"l.1.w", Dtype::f32, {1 << 20}}});
}

TEST(Model, opens_what_a_view_opens) {
  const Folder folder;
  const Image image = Image::basic();
  const Model model = Model::open(save_to(folder, image)).value();
  EXPECT_EQ(describe(model.view(), kNativeOrder).value(),
            describe(image.open().value()).value());
  EXPECT_EQ(model.format(), FileFormat::weig);
  const Metadata metadata = model.metadata().value();
  EXPECT_EQ(metadata.find("format")->value, "pt");
  EXPECT_EQ(metadata.find("steps")->type, "u32");
}

TEST(Model, says_in_which_file_a_tensor_is_missing) {
  const Folder folder;
  const std::string path = save_to(folder, Image::basic());
  const Model model = Model::open(path).value();
  const auto named = model.tensor("none");
  const auto numbered = model[model.size()];
  ASSERT_FALSE(named || numbered);
  EXPECT_EQ(named.error().fields().file, path);
  EXPECT_EQ(numbered.error().fields().file, path);
  EXPECT_FALSE(model.find("none").value());
}

TEST(Model, what_is_not_known_may_be_damage) {
  const Folder folder;
  Image image = Image::sealed({{"a", Dtype::f32, {2}}});
  for (const std::size_t at : {4, 40}) {  // version, flags
    Image changed = image;
    changed.bytes[at] ^= std::byte{4};
    write_file(folder.path("damaged"), changed.bytes);
    changed.reseal();
    write_file(folder.path("newer"), changed.bytes);
    const Error damaged = Model::open(folder.path("damaged")).error();
    const Error newer = Model::open(folder.path("newer")).error();
    EXPECT_EQ(damaged.code(), Code::unsupported);
    EXPECT_EQ(newer.code(), Code::unsupported);
    EXPECT_NE(damaged.fields().hint.find("or it is damaged"), std::string::npos) << at;
    EXPECT_EQ(newer.fields().hint.find("or it is damaged"), std::string::npos) << at;
  }
}

TEST(Model, a_damaged_size_is_told_from_a_cut_file) {
  const Folder folder;
  const Image image = Image::sealed({{"a", Dtype::f32, {2}}});
  const auto hint = [&](const Image& changed) {
    write_file(folder.path("m.weig"), changed.bytes);
    const Error error = Model::open(folder.path("m.weig")).error();
    EXPECT_EQ(error.code(), Code::corrupt);
    return error.fields().hint;
  };
  for (const std::size_t at : {32, 33, 38}) {  // smaller, larger
    Image damaged = image;
    damaged.bytes[at] ^= std::byte{1};
    EXPECT_EQ(hint(damaged), "the header is damaged, not the file's length") << at;
  }
  Image cut = image;
  cut.bytes.pop_back();
  EXPECT_NE(hint(cut).find("was cut"), std::string::npos);
}

TEST(Model, mapping_is_private_read_only_and_aligned_for_huge_pages) {
  const Folder folder;
  const std::string path = save_to(folder, large_image());
  const std::size_t before = open_descriptors();
  const Model model = Model::open(path).value();
  EXPECT_EQ(open_descriptors(), before) << "the descriptor stays open";
  const auto maps = mappings_of(path);
  ASSERT_FALSE(maps.empty());
  for (const std::string& line : maps)
    EXPECT_NE(line.find(" r--p "), std::string::npos) << line;
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(model.mapped().data()) % (2 << 20), 0u);
  EXPECT_EQ(model.mapped().size(), model.file_size());
}

TEST(Model, unmaps_when_it_goes) {
  const Folder folder;
  const std::string path = save_to(folder, large_image());
  {
    const Model model = Model::open(path).value();
    EXPECT_FALSE(mappings_of(path).empty());
  }
  EXPECT_TRUE(mappings_of(path).empty());
}

TEST(Model, views_survive_a_move) {
  const Folder folder;
  Model model = Model::open(save_to(folder, Image::basic())).value();
  const Tensor tensor = model.tensor("mask").value();
  const std::byte first = tensor.bytes()[0];
  Model moved = std::move(model);
  EXPECT_EQ(tensor.bytes()[0], first);
  EXPECT_EQ(moved.tensor("mask")->data(), tensor.data());
  Model target = Model::open(save_to(folder, Image::all_sections(), "n.weig")).value();
  target = std::move(moved);
  EXPECT_EQ(target.tensor("mask")->data(), tensor.data());
  Model& self = target;
  target = std::move(self);
  EXPECT_EQ(tensor.bytes()[0], first);
}

TEST(Model, outlives_the_name_of_its_file) {
  const Folder folder;
  const std::string path = save_to(folder, Image::basic());
  const Model model = Model::open(path).value();
  std::filesystem::remove(path);
  EXPECT_TRUE(describe(model.view()));
}

TEST(Model, metadata_only_maps_nothing_of_the_data) {
  const Folder folder;
  const std::string path = save_to(folder, large_image());
  const Model model = Model::open(path, {.part = Part::metadata}).value();
  EXPECT_EQ(model.mapped().size(), model.data_begin());
  EXPECT_LT(model.mapped().size(), model.file_size());
  const Tensor tensor = model.tensor("l.0.w").value();
  EXPECT_FALSE(tensor.has_data());
  EXPECT_TRUE(tensor.bytes().empty());
  const auto typed = tensor.as<float>();
  ASSERT_FALSE(typed);
  EXPECT_EQ(typed.error().code(), Code::invalid_argument);
  EXPECT_TRUE(model.digest(0).value());
}

// C36 and C67 for files on disk: no signal, one error that names the file.
TEST(Model, refuses_cut_files_of_every_length) {
  const Folder folder;
  const Image image = Image::basic();
  const std::string path = folder.path("cut.weig");
  for (std::size_t length = 0; length < image.size(); length += length < 200 ? 1 : 97) {
    write_file(path, image.span().first(length));
    for (const auto part : {Part::everything, Part::metadata})
      for (const auto validation : {Validation::full, Validation::lazy}) {
        const auto model = Model::open(path, {.validation = validation, .part = part});
        ASSERT_FALSE(model) << length;
        EXPECT_EQ(model.error().fields().file, path);
        EXPECT_EQ(model.error().code(), Code::corrupt) << model.error().message();
      }
  }
}

TEST(Model, says_what_cannot_be_opened) {
  const Folder folder;
  const auto code = [](const std::string& path) {
    return Model::open(path).error().code();
  };
  EXPECT_EQ(code(folder.path("absent")), Code::cannot_open);
  EXPECT_EQ(code(folder.path("")), Code::cannot_open);
  EXPECT_EQ(code("/dev/zero"), Code::cannot_open);
  ASSERT_EQ(::mkfifo(folder.path("pipe").c_str(), 0600), 0);
  EXPECT_EQ(code(folder.path("pipe")), Code::cannot_open);
  std::filesystem::create_symlink("nowhere", folder.path("link"));
  EXPECT_EQ(code(folder.path("link")), Code::cannot_open);
  EXPECT_EQ(code(std::string("a\0b", 3)), Code::cannot_open);
}

// C93
TEST(Model, says_what_a_file_looks_like) {
  const Folder folder;
  const auto message = [&](std::string_view bytes) {
    write_file(folder.path("f"), to_bytes(bytes));
    const auto model = Model::open(folder.path("f"));
    EXPECT_EQ(model.error().code(), Code::corrupt);
    return model.error().message();
  };
  const auto says = [&](std::string_view bytes, const char* part) {
    const std::string text = message(bytes);
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  says("", "empty");
  says("version https://git-lfs.github.com/spec/v1\noid sha256:12\nsize 9\n",
       "Git LFS");
  says("version https://git-lfs.github.com/spec/v1\r\noid sha256:12\r\n", "Git LFS");
  says("<!DOCTYPE html><html></html>", "HTML");
  says("\n  <HTML>", "HTML");
  says("{\"error\":\"Repository not found\"}", "JSON error");
  says("{\"weight_map\":{}}", "JSON");
  says(std::string_view("\x1F\x8B\x08\0\0\0\0\0\0\0", 10), "gzip");
  says(std::string_view("\xFD"
                        "7zXZ\0\0\0\0\0",
                        10),
       "xz");
  says("\x28\xB5\x2F\xFD..........", "zstd");
  says("7z\xBC\xAF\x27\x1C......", "7z");
  std::string tar(512, '\0');
  tar.replace(257, 5, "ustar");
  says(tar, "tar");
  says("PK\x03\x04............", "zip");
  says("GGUF\x03............", "GGUF");
  says(std::string(4096, '\0'), "zeros");
  says("hello, world: this is plain text", "no weights file");
}

// C90: two files joined.
TEST(Model, notices_joined_files) {
  const Folder folder;
  const Image image = Image::basic();
  std::vector<std::byte> joined = image.bytes;
  joined.insert(joined.end(), image.bytes.begin(), image.bytes.end());
  write_file(folder.path("joined"), joined);
  const auto model = Model::open(folder.path("joined"));
  ASSERT_FALSE(model);
  EXPECT_NE(model.error().message().find("joined"), std::string::npos);
}

// Large tables are proven in parts, on several threads: the same refusals, also for
// what lies across the border of two parts.
TEST(Model, proves_large_tables_like_small_ones) {
  std::vector<ImageTensor> tensors;
  for (int i = 0; i < 50'000; ++i)
    tensors.push_back({"l." + std::to_string(i) + ".w", Dtype::u8, {1}});
  const Image sound = Image::sealed(tensors);
  const Folder folder;
  EXPECT_EQ(Model::open(save_to(folder, sound))->size(), tensors.size());
  for (const std::uint64_t ordinal :
       {2u, 16'383u, 16'384u, 16'385u, 32'768u, 49'999u}) {
    for (const auto& [field, value] :
         {std::pair<std::uint64_t, std::uint64_t>{40, 2},        // data_size
          {32, sound.get<std::uint64_t>(sound.record(0) + 32)},  // order
          {0, sound.get<std::uint64_t>(sound.record(0))}}) {     // an equal name
      Image damaged = sound;
      damaged.set<std::uint64_t>(damaged.record(ordinal) + field, value);
      damaged.reseal();
      const auto view = damaged.open();
      const auto model = Model::open(save_to(folder, damaged));
      ASSERT_FALSE(view) << ordinal << " " << field;
      ASSERT_FALSE(model) << ordinal << " " << field;
      EXPECT_EQ(model.error().fields().what, view.error().fields().what);
    }
  }
}

TEST(BigEndian, gives_native_values_of_every_type) {
  std::vector<ImageTensor> tensors;
  for (const DtypeInfo& info : kDtypes)
    if (!info.is_block()) tensors.push_back({std::string(info.name), info.dtype, {24}});
  const Folder folder;
  const Image little = Image::minimal(tensors);
  const Image big = Image::minimal(tensors, ByteOrder::big);
  const OpenOptions accept{.unsealed = Unsealed::accept};
  const Model a = Model::open(save_to(folder, little, "l"), accept).value();
  const Model b = Model::open(save_to(folder, big, "b"), accept).value();
  EXPECT_EQ(b.format(), FileFormat::weig_big_endian);
  EXPECT_EQ(describe(a.view()).value(), describe(b.view()).value());
}

// A file in this machine's byte order and one in the other, both with the numbers that
// the bytes of the little-endian one spell.
TEST(BigEndian, gives_numbers) {
  const std::vector<ImageTensor> tensors = {
      {"a", Dtype::u16, {5}}, {"b", Dtype::u32, {5}}, {"c", Dtype::u64, {5}}};
  const Folder folder;
  const Image little = Image::minimal(tensors);
  write_file(folder.path("little"), little.bytes);
  write_file(folder.path("big"), Image::minimal(tensors, ByteOrder::big).bytes);
  const auto expect_numbers = [&]<typename T>(const Tensor& tensor, T) {
    const auto elements = tensor.as<T>();
    ASSERT_TRUE(elements) << elements.error().message();
    for (std::size_t i = 0; i < elements->size(); ++i)
      EXPECT_EQ((*elements)[i], little.get<T>(tensor.data_offset() + i * sizeof(T)));
  };
  for (const char* name : {"little", "big"}) {
    const Model model =
        Model::open(folder.path(name), {.unsealed = Unsealed::accept}).value();
    expect_numbers(model.tensor("a").value(), std::uint16_t{});
    expect_numbers(model.tensor("b").value(), std::uint32_t{});
    expect_numbers(model.tensor("c").value(), std::uint64_t{});
  }
}

TEST(BigEndian, is_refused_where_swapping_is_not_defined) {
  const Folder folder;
  const OpenOptions accept{.unsealed = Unsealed::accept};
  const auto refused = [&](const Image& image, Code code) {
    const auto model = Model::open(save_to(folder, image), accept);
    ASSERT_FALSE(model);
    EXPECT_EQ(model.error().code(), code) << model.error().message();
  };
  Image blocks = Image::minimal({{"q", Dtype::q8_0, {32}}}, ByteOrder::big);
  refused(blocks, Code::unsupported);
  Image flags = Image::minimal({{"a", Dtype::f32, {1}}}, ByteOrder::big);
  flags.set<std::uint64_t>(40, std::uint64_t{3} << 56);
  refused(flags, Code::unsupported);
  // Two widths over the same bytes: there is no one right order.
  Image shared =
      Image::minimal({{"a", Dtype::f32, {2}}, {"b", Dtype::i16, {4}}}, ByteOrder::big);
  const std::uint64_t first =
      sizeof(disk::Header) + 32;  // swapped fields, copied as is
  shared.set(first + sizeof(disk::TensorMeta), shared.get<std::uint64_t>(first));
  refused(shared, Code::unsupported);
  Image unasked = Image::minimal({{"a", Dtype::f32, {1}}}, ByteOrder::big);
  EXPECT_EQ(Model::open(save_to(folder, unasked)).error().code(), Code::unsupported);
}

TEST(Model, a_time_that_is_put_back_hides_no_change) {
  const Folder folder;
  const std::string path = folder.path("m.weig");
  write_file(path, Image::basic().bytes);
  const Model model = Model::open(path).value();
  std::filesystem::permissions(
      path, std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
  EXPECT_EQ(model.changed().value(), FileChange::none);
  const Model again = Model::open(path).value();
  const auto time = std::filesystem::last_write_time(path);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  std::fstream(path, std::ios::in | std::ios::out | std::ios::binary).seekp(0) << "x";
  std::filesystem::last_write_time(path, time);
  EXPECT_EQ(again.changed().value(), FileChange::modified);
}

// The tensors of the file are the ones that are written over it.
TEST(Save, over_the_file_that_is_mapped) {
  const Folder folder;
  const std::string path = folder.path("x.weig");
  write_file(path, Image::basic().bytes);
  const Model model = Model::open(path).value();
  const std::string before = describe(model.view()).value();
  std::vector<TensorData> tensors;
  std::vector<Tensor> views;
  for (const auto& tensor : model.tensors()) views.push_back(tensor.value());
  for (const Tensor& tensor : views)
    tensors.push_back({{.name = tensor.name(),
                        .dtype = tensor.dtype(),
                        .shape = tensor.shape(),
                        .shares = TensorSpec::kOwn},
                       tensor.bytes()});
  const auto saved = save(path, tensors, {}, Existing::replace);
  ASSERT_TRUE(saved) << saved.error().message();
  EXPECT_EQ(describe(model.view()).value(), before);
  EXPECT_EQ(model.changed().value(), FileChange::replaced);
  const Model again = Model::open(path, {.verify = Verify::digests}).value();
  ASSERT_EQ(again.size(), views.size());
  for (const Tensor& tensor : views)
    EXPECT_TRUE(
        std::ranges::equal(again.tensor(tensor.name())->bytes(), tensor.bytes()));
  EXPECT_EQ(folder.names(), (std::vector<std::string>{"x.weig"}));
}

TEST(Save, refuses_metadata_that_nobody_could_read) {
  const Folder folder;
  for (const char* text :
       {"{\"a\":1", "hello", "[1]", R"({"a":1})", R"({"a":"","a":""})",
        "{\"k\":\"\xFF\"}", R"({"a":"b"} c)"}) {
    const auto saved = save(folder.path("m.weig"), {}, text);
    ASSERT_FALSE(saved) << text;
    EXPECT_EQ(saved.error().code(), Code::invalid_argument) << text;
    EXPECT_TRUE(folder.names().empty()) << text;
  }
  EXPECT_TRUE(save(folder.path("m.weig"), {}, R"({"a":"b"})"));
}

}  // namespace
}  // namespace weig::test
