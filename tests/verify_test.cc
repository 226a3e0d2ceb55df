// SPDX-License-Identifier: Apache-2.0
// verify finds every changed byte, names what it belongs to, and goes on to the end.
#include <weig/verify.h>

#include <gtest/gtest.h>

#include <chrono>
#include <ctime>
#include <filesystem>
#include <initializer_list>
#include <thread>
#include <utility>

#include "image.h"

namespace weig::test {
namespace {

VerifyReport verify_image(const Image& image, unsigned threads = 2) {
  const Folder folder;
  write_file(folder.path("m.weig"), image.bytes);
  const Model model = Model::open(folder.path("m.weig")).value();
  return verify(model, {.threads = threads, .progress = {}}).value();
}

TEST(Verify, a_sound_file_is_sound) {
  for (const Image& image :
       {Image::basic(), Image::all_sections(), Image::sealed({})}) {
    const VerifyReport report = verify_image(image);
    EXPECT_TRUE(report.sound());
    EXPECT_EQ(report.tensors, report.tensors_with_digest);
  }
}

// Every bit of the data region, tensor or padding.
class VerifyBits : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Every, VerifyBits, testing::Range(0, 8));

TEST_P(VerifyBits, changed_is_found_and_named) {
  const Image original = Image::small_model();
  const View view = original.open().value();
  const Folder folder;
  const std::string path = folder.path("m.weig");
  for (std::uint64_t at = view.data_begin(); at < view.data_end(); ++at) {
    Image image = original;
    image.bytes[at] ^= static_cast<std::byte>(1 << GetParam());
    write_file(path, image.bytes);
    const Model model = Model::open(path).value();
    const VerifyReport report = verify(model, {.threads = 1, .progress = {}}).value();
    ASSERT_FALSE(report.sound()) << at;
    for (const Damage& damage : report.damages) {
      EXPECT_LE(damage.begin, at);
      EXPECT_GT(damage.end, at);
      const bool padding = damage.error.code() == Code::corrupt;
      EXPECT_EQ(damage.error.fields().names_tensor, !padding);
      EXPECT_EQ(damage.error.fields().file, path);
    }
  }
}

// Names of the same bytes are hashed once: 8 GB, if each was.
TEST(Verify, a_thousand_names_of_the_same_bytes_take_no_longer) {
  std::vector<ImageTensor> tensors = {{"a", Dtype::u8, {8 << 20}, 0}};
  for (int i = 0; i < 1'000; ++i)
    tensors.push_back({"b" + std::to_string(i), Dtype::u8, {8 << 20}, 0});
  const Folder folder;
  write_file(folder.path("m.weig"), Image::sealed(tensors).bytes);
  const Model model = Model::open(folder.path("m.weig")).value();
  const auto start = std::clock();
  const VerifyReport report = verify(model).value();
  // Hashing all takes half a second at the least, and once some milliseconds.
  EXPECT_LT(std::clock() - start, CLOCKS_PER_SEC / 5);
  EXPECT_TRUE(report.sound());
  EXPECT_EQ(report.tensors_with_digest, 1'001u);
}

TEST(Verify, lists_every_damaged_tensor_and_goes_on) {
  Image image = Image::basic();
  const View view = image.open().value();
  std::vector<std::uint64_t> places;
  for (const char* name : {"mask", "scale", "blocks"}) {
    const Tensor tensor = view.tensor(name).value();
    places.push_back(tensor.data_offset() + tensor.byte_count() - 1);
  }
  for (const std::uint64_t at : places) image.bytes[at] ^= std::byte{0x80};
  const VerifyReport report = verify_image(image);
  ASSERT_EQ(report.damages.size(), 3u);
  for (const Damage& damage : report.damages)
    EXPECT_EQ(damage.error.code(), Code::checksum);
}

TEST(Verify, a_damaged_tied_weight_is_named_under_all_its_names) {
  Image image = Image::basic();
  const View view = image.open().value();
  const std::uint64_t at = view.tensor("lm_head.weight")->data_offset();
  image.bytes[at] ^= std::byte{1};
  EXPECT_EQ(verify_image(image).damages.size(), 3u);
}

TEST(Verify, a_damaged_section_does_not_hide_the_tensors) {
  Image image = Image::basic();
  const View view = image.open().value();
  image.bytes[image.section_offset(disk::SectionKind::metadata) + 2] ^= std::byte{1};
  image.bytes[view.tensor("mask")->data_offset()] ^= std::byte{1};
  const VerifyReport report = verify_image(image);
  ASSERT_EQ(report.damages.size(), 2u);
  EXPECT_EQ(report.damages[0].error.code(), Code::corrupt);
  EXPECT_EQ(report.damages[1].error.code(), Code::checksum);
}

// Digests are right, the bytes are nobody's: only verify looks at them.
TEST(Verify, padding_in_the_core_must_be_zero) {
  Image image = Image::basic();
  // Between the section table's end and the first section.
  const std::uint64_t core_end = image.header(48) + 32 * image.header(56);
  ASSERT_LT(core_end, image.section_offset(disk::SectionKind::name_index));
  image.set<std::uint8_t>(core_end, 1);
  image.reseal();
  const VerifyReport report = verify_image(image);
  ASSERT_EQ(report.damages.size(), 1u);
  EXPECT_EQ(report.damages[0].error.code(), Code::corrupt);
}

TEST(Verify, bytes_between_names_and_shapes_must_be_zero) {
  Image image = Image::sealed({{"abc", Dtype::u8, {3}}});
  // "abc" and its NUL take 4 bytes, then 4 of padding before the shape.
  const std::uint64_t name = image.header(image.record(0));
  image.set<std::uint8_t>(name + 5, 1);
  image.reseal();
  EXPECT_EQ(verify_image(image).damages.size(), 1u);
}

TEST(Verify, can_be_stopped) {
  const Folder folder;
  write_file(folder.path("m.weig"), Image::basic().bytes);
  const Model model = Model::open(folder.path("m.weig")).value();
  const auto report =
      verify(model, {.threads = 2, .progress = [](auto, auto) { return false; }});
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().code(), Code::cancelled);
}

TEST(Verify, a_copy_in_memory_outlives_its_file) {
  const Folder folder;
  const std::string path = folder.path("m.weig");
  write_file(path, Image::sealed({{"t", Dtype::u8, {100'000}}}).bytes);
  const Model model = Model::open(path, {.load = {.way = LoadWay::read}}).value();
  std::filesystem::resize_file(path, 0);
  EXPECT_TRUE(verify(model).value().sound());
}

TEST(Verify, looks_at_some_tensors_or_at_none) {
  Image image = Image::basic();
  const View view = image.open().value();
  const Tensor bad = view.tensor("mask").value();
  const Tensor good = view.tensor("scale").value();
  const std::uint64_t bytes = good.byte_count();
  const std::uint32_t bad_one = bad.ordinal();
  const std::uint32_t good_one = good.ordinal();
  image.bytes[bad.data_offset()] ^= std::byte{1};
  const Folder folder;
  write_file(folder.path("m.weig"), image.bytes);
  const Model model = Model::open(folder.path("m.weig")).value();
  const auto look_at = [&](std::vector<std::uint32_t> tensors) {
    return verify(model, {.threads = 2, .progress = {}, .tensors = std::move(tensors)});
  };
  EXPECT_EQ(look_at({bad_one, good_one})->damages.size(), 1u);
  EXPECT_TRUE(look_at({good_one})->sound());
  EXPECT_EQ(look_at({good_one})->bytes, bytes);
  EXPECT_EQ(look_at({good_one})->tensors, 1u);
  EXPECT_TRUE(look_at({})->sound());
  EXPECT_EQ(look_at({})->tensors, 0u);
  EXPECT_EQ(look_at({1000}).error().code(), Code::invalid_argument);
}

constexpr LoadWay kWays[] = {LoadWay::map, LoadWay::stream, LoadWay::populate,
                             LoadWay::read, LoadWay::automatic};

// 40 MiB, so that there is something to follow.
Image long_image() {
  return Image::sealed({{"a", Dtype::f32, {5 << 20}}, {"b", Dtype::f32, {5 << 20}}});
}

TEST(Verify, opening_compares_every_byte_if_asked) {
  const Folder folder;
  const std::string path = folder.path("m.weig");
  Image image = long_image();
  write_file(path, image.bytes);
  for (const LoadWay way : kWays) {
    const auto model =
        Model::open(path, {.load = {.way = way}, .verify = Verify::digests});
    ASSERT_TRUE(model) << load_way_name(way) << model.error().message();
    EXPECT_TRUE(model->load_report().finished);
  }
  const std::uint64_t end = image.open()->data_end();
  image.bytes[end - 5] ^= std::byte{1};
  write_file(path, image.bytes);
  for (const LoadWay way : kWays) {
    EXPECT_TRUE(Model::open(path, {.load = {.way = way}}));
    const auto refused =
        Model::open(path, {.load = {.way = way}, .verify = Verify::digests});
    ASSERT_FALSE(refused) << load_way_name(way);
    EXPECT_EQ(refused.error().code(), Code::checksum);
    EXPECT_EQ(refused.error().fields().tensor, "b");
    EXPECT_EQ(refused.error().fields().file, path);
  }
}

// Changes the last byte of tensors.
Image damaged(Image image, std::initializer_list<const char*> names) {
  const View view = image.open().value();
  std::vector<std::uint64_t> places;
  for (const char* name : names) {
    const Tensor tensor = view.tensor(name).value();
    places.push_back(tensor.data_offset() + tensor.byte_count() - 1);
  }
  for (const std::uint64_t at : places) image.bytes[at] ^= std::byte{1};
  return image;
}

TEST(Verify, stops_at_the_first_damage_if_told) {
  const Folder folder;
  const std::string path = folder.path("m.weig");
  // "a", of 20 MiB, is damaged at its end: "b" and the small one are long done then.
  Image image = Image::sealed({{"a", Dtype::f32, {5 << 20}},
                               {"b", Dtype::f32, {2 << 20}},
                               {"c", Dtype::f32, {100}}});
  write_file(path, damaged(std::move(image), {"a", "b", "c"}).bytes);
  const Model model = Model::open(path).value();
  EXPECT_EQ(verify(model)->damages.size(), 3u);
  for (const unsigned threads : {1u, 2u, 4u}) {
    const VerifyReport report =
        verify(model, {.threads = threads, .on_damage = OnDamage::stop}).value();
    ASSERT_EQ(report.damages.size(), 1u);
    EXPECT_EQ(report.damages[0].error.fields().tensor, "a") << threads;
    if (threads == 1) {
      EXPECT_EQ(report.bytes, 20u << 20);
    }
  }
}

TEST(Verify, a_damaged_section_is_the_first_damage) {
  Image image = Image::basic();
  image.bytes[image.section_offset(disk::SectionKind::metadata) + 2] ^= std::byte{1};
  image = damaged(std::move(image), {"mask"});
  const Folder folder;
  write_file(folder.path("m.weig"), image.bytes);
  const Model model = Model::open(folder.path("m.weig")).value();
  const VerifyReport report = verify(model, {.on_damage = OnDamage::stop}).value();
  ASSERT_EQ(report.damages.size(), 1u);
  EXPECT_EQ(report.damages[0].error.code(), Code::corrupt);
  EXPECT_EQ(report.bytes, 0u);
}

TEST(Verify, opening_names_the_first_damage_and_where_all_is_listed) {
  const Folder folder;
  write_file(folder.path("m.weig"), damaged(long_image(), {"a", "b"}).bytes);
  for (const LoadWay way : kWays) {
    const auto refused = Model::open(folder.path("m.weig"),
                                     {.load = {.way = way}, .verify = Verify::digests});
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().fields().tensor, "a") << load_way_name(way);
    EXPECT_NE(refused.error().message().find("weig verify lists all"),
              std::string::npos);
  }
}

TEST(Verify, opening_a_damaged_file_does_not_load_the_rest) {
  const Folder folder;
  Image image = Image::sealed(
      {{"a", Dtype::u8, {1000}}, {"b", Dtype::f32, {5 << 20}}, {"c", Dtype::u8, {9}}});
  write_file(folder.path("m.weig"), damaged(std::move(image), {"a"}).bytes);
  for (const LoadWay way : {LoadWay::stream, LoadWay::populate}) {
    std::uint64_t loaded = 0;
    std::uint64_t all = 0;
    const auto slowly = [&](std::uint64_t done, std::uint64_t total) {
      loaded = done;
      all = total;
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      return true;
    };
    const auto refused = Model::open(
        folder.path("m.weig"),
        {.load = {.way = way, .progress = slowly}, .verify = Verify::digests});
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code(), Code::checksum);
    EXPECT_EQ(refused.error().fields().tensor, "a");
    EXPECT_GT(loaded, 0u);
    // Where the byte order is another, opening has loaded all.
    if (kNativeOrder == ByteOrder::little) {
      EXPECT_LT(loaded, all) << load_way_name(way);
    }
  }
}

// The file is cut far behind what has been loaded and verified then.
TEST(Verify, a_load_that_fails_while_it_is_verified_says_why) {
  const Folder folder;
  const std::string path = folder.path("m.weig");
  for (const bool is_damaged : {false, true}) {
    for (const LoadWay way : {LoadWay::stream, LoadWay::populate, LoadWay::read}) {
      Image image = long_image();
      if (is_damaged) image = damaged(std::move(image), {"b"});
      write_file(path, image.bytes);
      const auto cut = [&](std::uint64_t, std::uint64_t) {
        std::filesystem::resize_file(path, 16 << 20);
        return true;
      };
      const auto refused =
          Model::open(path, {.load = {.way = way, .threads = 1, .progress = cut},
                             .verify = Verify::digests});
      ASSERT_FALSE(refused) << load_way_name(way);
      EXPECT_EQ(refused.error().code(), Code::corrupt);
      EXPECT_EQ(refused.error().fields().file, path);
      EXPECT_FALSE(refused.error().fields().names_tensor);
    }
  }
}

TEST(Verify, opening_needs_digests_to_compare_with) {
  const Folder folder;
  write_file(folder.path("m.weig"), Image::minimal({{"w", Dtype::f32, {2}}}).bytes);
  const auto refused = Model::open(
      folder.path("m.weig"), {.unsealed = Unsealed::accept, .verify = Verify::digests});
  EXPECT_EQ(refused.error().code(), Code::unsupported);
}

TEST(Verify, opening_with_damaged_digests_is_damage) {
  Image image = Image::basic();
  image.bytes[image.section_offset(disk::SectionKind::digests) + 20] ^= std::byte{1};
  const Folder folder;
  write_file(folder.path("m.weig"), image.bytes);
  const auto refused = Model::open(folder.path("m.weig"), {.verify = Verify::digests});
  EXPECT_EQ(refused.error().code(), Code::corrupt);
}

TEST(Verify, a_load_that_is_stopped_while_it_verifies_says_so) {
  const Folder folder;
  write_file(folder.path("m.weig"), long_image().bytes);
  for (const LoadWay way : {LoadWay::stream, LoadWay::populate, LoadWay::read}) {
    const LoadOptions stopped = {.way = way,
                                 .progress = [](auto, auto) { return false; }};
    const auto refused = Model::open(folder.path("m.weig"),
                                     {.load = stopped, .verify = Verify::digests});
    ASSERT_FALSE(refused) << load_way_name(way);
    EXPECT_EQ(refused.error().code(), Code::cancelled);
    EXPECT_NE(refused.error().message().find("loading"), std::string::npos);
  }
}

TEST(Verify, needs_the_data) {
  const Folder folder;
  write_file(folder.path("m.weig"), Image::basic().bytes);
  const Model model =
      Model::open(folder.path("m.weig"), {.part = Part::metadata}).value();
  EXPECT_EQ(verify(model).error().code(), Code::invalid_argument);
}

}  // namespace
}  // namespace weig::test
