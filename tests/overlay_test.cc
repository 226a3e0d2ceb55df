// SPDX-License-Identifier: Apache-2.0
// Overlays: new contents for a tensor, beside a mapping that is never written.
#include <weig/overlay.h>
#include <weig/page_cache.h>
#include <weig/verify.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <string>

#include "image.h"

namespace weig::test {
namespace {

constexpr std::uint64_t kShape[] = {2, 3};

// What smaps says is dirty or private in the mappings of a file, in KiB.
std::uint64_t written_kib(const std::string& path) {
  std::ifstream smaps("/proc/self/smaps");
  std::uint64_t sum = 0;
  bool ours = false;
  for (std::string line; std::getline(smaps, line);) {
    if (line.find("-p ") != line.npos && line.find('-') != line.npos)
      ours = line.ends_with(path);
    for (const char* field : {"Private_Dirty:", "Shared_Dirty:", "Anonymous:"})
      if (ours && line.starts_with(field))
        sum += std::stoull(line.substr(std::string(field).size()));
  }
  return sum;
}

class Overlaid : public testing::Test {
 protected:
  Overlaid() {
    write_file(path_, Image::for_loading().bytes);
    EXPECT_TRUE(
        evict(path_));  // or what was not yet on the disk would count as written
  }

  Folder folder_;
  std::string path_ = folder_.path("m.weig");
};

TEST_F(Overlaid, a_name_leads_to_new_contents_and_back) {
  Model model = Model::open(path_).value();
  const Tensor before = model.tensor("a.1.w").value();
  const Overlay contents = model.overlay("a.1.w", Dtype::f32, kShape).value();
  const auto numbers = contents.as<float>().value();
  ASSERT_EQ(numbers.size(), 6u);
  EXPECT_TRUE(std::ranges::all_of(numbers, [](float each) { return each == 0; }));
  numbers[4] = 2.5F;

  const auto check = [&](const Tensor& now) {
    EXPECT_EQ(now.name(), "a.1.w");
    EXPECT_EQ(now.dtype(), Dtype::f32);
    EXPECT_TRUE(std::ranges::equal(now.shape(), kShape));
    EXPECT_EQ(now.byte_count(), 24u);
    EXPECT_EQ(now.as<float>().value()[4], 2.5F);
    EXPECT_FALSE(model.is_view(now));
  };
  check(model.tensor("a.1.w").value());
  check(*model.find("a.1.w").value());
  check(model[before.ordinal()].value());
  for (const auto& each : model.tensors())
    if (each->name() == "a.1.w") check(*each);
  // What others hold stays as it is.
  EXPECT_TRUE(model.is_view(before));
  EXPECT_EQ(before.byte_count(), 12u << 20);
  EXPECT_TRUE(model.is_view(model.tensor("a.0.w").value()));
  EXPECT_EQ(model.view().tensor("a.1.w")->byte_count(), before.byte_count());

  ASSERT_TRUE(model.drop_overlay("a.1.w"));
  EXPECT_EQ(model.tensor("a.1.w")->data(), before.data());
  numbers[5] = 1;  // a handle keeps its memory
  EXPECT_EQ(model.drop_overlay("a.1.w").error().code(), Code::not_found);
}

TEST_F(Overlaid, contents_come_at_once_when_they_are_whole) {
  Model model = Model::open(path_).value();
  const Overlay first = Overlay::make(Dtype::u8, kShape).value();
  std::ranges::fill(first.bytes(), std::byte{1});
  ASSERT_TRUE(model.overlay("b", first));
  const Overlay second = Overlay::make(Dtype::bf16, kShape).value();
  ASSERT_TRUE(model.overlay("b", second));  // in the first one's place
  EXPECT_EQ(model.tensor("b")->dtype(), Dtype::bf16);
  EXPECT_EQ(model.overlaid("b").value()->bytes().data(), second.bytes().data());
  EXPECT_FALSE(model.overlaid("a.0.w").value());
  ASSERT_TRUE(model.overlay("a.0.w", first));
  EXPECT_EQ(model.memory()->total.overlaid, 6u + 12u);
  model.drop_overlays();
  EXPECT_EQ(model.memory()->total.overlaid, 0u);
  EXPECT_TRUE(model.is_view(model.tensor("b").value()));
}

TEST_F(Overlaid, what_cannot_be_is_refused) {
  Model model = Model::open(path_).value();
  const auto unknown = model.overlay("none", Dtype::f32, kShape);
  EXPECT_EQ(unknown.error().code(), Code::not_found);
  EXPECT_EQ(model.overlaid("none").error().code(), Code::not_found);
  EXPECT_EQ(model.drop_overlay("none").error().code(), Code::not_found);
  const std::uint64_t vast[] = {std::uint64_t{1} << 50};
  const auto large = model.overlay("b", Dtype::f32, vast);
  EXPECT_EQ(large.error().code(), Code::limit);
  EXPECT_EQ(large.error().fields().tensor, "b");
  EXPECT_EQ(large.error().fields().file, path_);
  const std::uint64_t impossible[] = {UINT64_MAX, 2};
  EXPECT_EQ(Overlay::make(Dtype::f32, impossible).error().code(),
            Code::invalid_argument);
  EXPECT_EQ(Overlay::make(static_cast<Dtype>(9999), kShape).error().code(),
            Code::invalid_argument);
  EXPECT_EQ(Overlay::make(Dtype::f32, kShape)->as<double>().error().code(),
            Code::invalid_argument);
  EXPECT_TRUE(model.is_view(model.tensor("b").value()));
}

TEST_F(Overlaid, tensors_without_elements_and_of_many_dimensions) {
  Model model = Model::open(path_).value();
  const std::uint64_t none[] = {0, 5};
  EXPECT_TRUE(model.overlay("b", Dtype::f64, none).value().bytes().empty());
  EXPECT_EQ(model.tensor("b")->shape()[1], 5u);
  EXPECT_TRUE(model.tensor("b")->has_data());
  EXPECT_EQ(model.tensor("b")->as<double>().value().size(), 0u);
  EXPECT_EQ(model.overlay("b", Dtype::i64, {}).value().bytes().size(), 8u);  // a scalar
  const std::vector<std::uint64_t> deep(64, 1);
  EXPECT_EQ(model.overlay("b", Dtype::u8, deep).value().bytes().size(), 1u);
  const std::vector<std::uint64_t> deeper(65, 1);
  EXPECT_EQ(Overlay::make(Dtype::u8, deeper).error().code(), Code::invalid_argument);
}

// A safetensors file may end with one.
TEST_F(Overlaid, an_empty_tensor_at_the_files_end_is_a_view) {
  const std::string path = folder_.path("m.safetensors");
  write_file(path,
             safetensors(R"({"a":{"dtype":"U8","shape":[8],"data_offsets":[0,8]},)"
                         R"("e":{"dtype":"U8","shape":[0],"data_offsets":[8,8]}})",
                         std::vector<std::byte>(8)));
  const Model model = Model::open(path).value();
  EXPECT_TRUE(model.is_view(model.tensor("e").value()));
}

TEST_F(Overlaid, the_mapping_stays_clean) {
  Model model = Model::open(path_, {.load = {.way = LoadWay::populate}}).value();
  const std::uint64_t large[] = {3, 1 << 20};
  const auto clean = [&](const char* after) {
    EXPECT_EQ(written_kib(path_), 0u) << "after " << after;
  };
  const Overlay contents = model.overlay("a.0.w", Dtype::f32, large).value();
  std::ranges::fill(contents.bytes(), std::byte{7});
  clean("writing an overlay");
  ASSERT_TRUE(model.overlay("a.1.w", contents));
  clean("giving it to another");
  EXPECT_TRUE(verify(model, {}).value().sound());  // of the file's bytes
  clean("verifying");
  ASSERT_TRUE(model.drop_overlay("a.0.w"));
  clean("dropping one");
  model.drop_overlays();
  clean("dropping all");
  const Tensor tensor = model.tensor("a.0.w").value();
  EXPECT_TRUE(model.is_view(tensor));
  EXPECT_EQ(contents.bytes()[0], std::byte{7});
}

TEST_F(Overlaid, tensors_that_are_not_mapped_any_more_can_be) {
  Model model = Model::open(path_).value();
  const Tensor tensor = model.tensor("a.0.w").value();
  const std::uint64_t end = tensor.data_offset() + tensor.byte_count();
  ASSERT_TRUE(model.unmap(std::vector{FileRange{tensor.data_offset(), end}}));
  EXPECT_FALSE(model.tensor("a.0.w")->has_data());
  ASSERT_TRUE(model.overlay("a.0.w", Dtype::f32, kShape));
  EXPECT_EQ(model.tensor("a.0.w")->bytes().size(), 24u);
  ASSERT_TRUE(model.drop_overlay("a.0.w"));
  EXPECT_FALSE(model.tensor("a.0.w")->has_data());
}

}  // namespace
}  // namespace weig::test
