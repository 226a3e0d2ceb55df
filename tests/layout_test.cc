// SPDX-License-Identifier: Apache-2.0
// Where the planner puts things (docs/format.md, "Layout").
#include "core/layout.h"

#include <gtest/gtest.h>

#include "core/index.h"
#include "image.h"

namespace weig::test {
namespace {

constexpr std::uint64_t kKiB = 1024;
constexpr std::uint64_t kMiB = 1024 * kKiB;

std::vector<TensorSpec> specs_of(const std::vector<ImageTensor>& tensors) {
  std::vector<TensorSpec> specs;
  for (const ImageTensor& t : tensors)
    specs.push_back(
        {.name = t.name, .dtype = t.dtype, .shape = t.shape, .shares = t.shares});
  return specs;
}

std::vector<std::string> order_of(const std::vector<ImageTensor>& tensors) {
  const auto specs = specs_of(tensors);
  const Plan plan = Plan::make(specs).value();
  std::vector<std::string> names;
  for (const std::uint32_t i : plan.order()) names.emplace_back(specs[i].name);
  return names;
}

TEST(Layout, alignment_is_a_32nd_of_the_size) {
  EXPECT_EQ(layout_alignment(0), 64u);
  EXPECT_EQ(layout_alignment(128 * kKiB - 1), 64u);
  EXPECT_EQ(layout_alignment(128 * kKiB), 4 * kKiB);
  EXPECT_EQ(layout_alignment(2 * kMiB - 1), 4 * kKiB);
  EXPECT_EQ(layout_alignment(2 * kMiB), 64 * kKiB);
  EXPECT_EQ(layout_alignment(64 * kMiB - 1), 64 * kKiB);
  EXPECT_EQ(layout_alignment(64 * kMiB), 2 * kMiB);
  EXPECT_EQ(layout_alignment(UINT64_MAX), 2 * kMiB);
}

TEST(Layout, groups_are_named_up_to_the_first_numbered_component) {
  const auto group = [](std::string_view name) {
    return std::string(name.substr(0, group_name_length(name)));
  };
  EXPECT_EQ(group("model.layers.10.mlp.0.weight"), "model.layers.10");
  EXPECT_EQ(group("0.weight"), "0");
  EXPECT_EQ(group("layers.10"), "");  // nothing more after it
  EXPECT_EQ(group("layer10.weight"), "");
  EXPECT_EQ(group("a..b"), "");
  EXPECT_EQ(group("a.1x.2.b"), "a.1x.2");
  EXPECT_EQ(group(""), "");
}

TEST(Layout, order_is_natural_and_does_not_depend_on_the_source) {
  const std::vector<std::string> expected = {"b.2.w", "b.10.w", "b.10.x", "c", "d"};
  EXPECT_EQ(order_of({{"d"}, {"b.10.x"}, {"c"}, {"b.2.w"}, {"b.10.w"}}), expected);
  EXPECT_EQ(order_of({{"b.10.w"}, {"b.2.w"}, {"b.10.x"}, {"d"}, {"c"}}), expected);
}

TEST(Layout, aliases_follow_the_first_of_their_names) {
  EXPECT_EQ(order_of({{"z", Dtype::f32, {2}, 7},
                      {"m", Dtype::f32, {2}},
                      {"b", Dtype::f32, {2}, 7},
                      {"q", Dtype::f32, {2}, 7}}),
            (std::vector<std::string>{"b", "q", "z", "m"}));
}

TEST(Layout, groups_share_no_page_with_neighbours) {
  // 3 MiB a group: aligned on 64 KiB, and so is what follows.
  const std::vector<ImageTensor> tensors = {{"a", Dtype::u8, {100}},
                                            {"l.0.big", Dtype::u8, {3 * kMiB}},
                                            {"l.0.small", Dtype::u8, {10}},
                                            {"l.1.big", Dtype::u8, {3 * kMiB}},
                                            {"z", Dtype::u8, {1}}};
  const auto specs = specs_of(tensors);
  const Plan plan = Plan::make(specs).value();
  EXPECT_EQ(plan.offset(0), 0u);
  EXPECT_EQ(plan.offset(1), 64 * kKiB);
  EXPECT_EQ(plan.offset(2), 64 * kKiB + 3 * kMiB);
  EXPECT_EQ(plan.offset(3), 128 * kKiB + 3 * kMiB);
  EXPECT_EQ(plan.offset(4), 128 * kKiB + 6 * kMiB);
  EXPECT_EQ(plan.data_bytes(), 128 * kKiB + 6 * kMiB + 1);
  ASSERT_EQ(plan.groups().size(), 2u);
  EXPECT_EQ(plan.groups()[0].name, "l.0");
  EXPECT_EQ(plan.groups()[0].first, 1u);
  EXPECT_EQ(plan.groups()[0].count, 2u);
}

TEST(Layout, shapes_are_stored_once) {
  const Image image = Image::sealed(
      {{"a", Dtype::f32, {2, 3}}, {"b", Dtype::f32, {3, 2}}, {"c", Dtype::i8, {2, 3}}});
  EXPECT_EQ(image.header(image.record(0) + 16), image.header(image.record(2) + 16));
  EXPECT_EQ(image.header(image.record(0) + 16) + 16,
            image.header(image.record(1) + 16));
}

// C55: found in the planner too, not only by readers; and in linear time.
TEST(Layout, refuses_what_no_file_can_hold) {
  const auto refused = [](const std::vector<ImageTensor>& tensors, const char* says) {
    const auto specs = specs_of(tensors);
    const auto plan = Plan::make(specs);
    ASSERT_FALSE(plan) << says;
    EXPECT_EQ(plan.error().code(), Code::invalid_argument);
    EXPECT_NE(plan.error().message().find(says), std::string::npos)
        << plan.error().message();
  };
  refused({{"a"}, {"b"}, {"a"}}, "same name");
  refused({{std::string("a\0b", 3)}}, "NUL");
  refused({{"\xFF"}}, "UTF-8");
  refused({{std::string(65'536, 'x')}}, "too long");
  refused({{"a", static_cast<Dtype>(999), {1}}}, "element type");
  refused({{"a", Dtype::f32, std::vector<std::uint64_t>(65, 1)}}, "rank");
  refused({{"a", Dtype::f32, {1ull << 32, 1ull << 32}}}, "2^56");
  refused({{"a", Dtype::q4_k, {100}}}, "multiple of the block");
  refused({{"a", Dtype::q4_k, {}}}, "needs a dimension");
  refused({{"a", Dtype::f32, {2}, 1}, {"b", Dtype::f32, {3}, 1}}, "differ in size");
  refused({{"a", Dtype::f32, {0}, 1}, {"b", Dtype::f32, {0}, 1}}, "differ in size");
}

TEST(Layout, refuses_sections_that_are_its_own_or_come_twice) {
  const std::vector<ImageTensor> tensors = {{"a", Dtype::f32, {1}}};
  const auto specs = specs_of(tensors);
  const Plan plan = Plan::make(specs).value();
  using Kind = disk::SectionKind;
  for (const Kind kind : {Kind::name_index, Kind::digests, Kind::groups}) {
    const std::vector<SectionBytes> given = {{kind, {}}};
    const auto front = build_front(specs, plan, given);
    ASSERT_FALSE(front);
    EXPECT_EQ(front.error().code(), Code::invalid_argument);
    EXPECT_NE(front.error().message().find("the Writer's own"), std::string::npos);
  }
  const std::vector<SectionBytes> twice = {{Kind::metadata, to_bytes("{}")},
                                           {Kind::metadata, to_bytes("{}")}};
  EXPECT_EQ(build_front(specs, plan, twice).error().code(), Code::invalid_argument);
}

TEST(Layout, an_index_has_no_name_twice) {
  const std::vector<std::string_view> names = {"a", "b", "a"};
  EXPECT_EQ(build_index(names).error().code(), Code::invalid_argument);
}

TEST(Layout, refuses_more_tensors_than_a_file_can_count) {
  const TensorSpec spec;
  const std::span<const TensorSpec> endless(&spec, std::size_t{1} << 32);
  EXPECT_EQ(Plan::make(endless).error().code(), Code::limit);
}

// 64 KiB below 2^63: it is the file's front that is too much.
TEST(Layout, refuses_a_front_that_reaches_2_63_bytes) {
  std::vector<ImageTensor> tensors;
  for (int i = 0; i < 7; ++i)
    tensors.push_back({"t" + std::to_string(i), Dtype::complex128, {1ull << 56}});
  tensors.push_back({"t7", Dtype::complex128, {(1ull << 56) - 4096}});
  const auto specs = specs_of(tensors);
  const Plan plan = Plan::make(specs).value();
  EXPECT_EQ(build_front(specs, plan, {}).error().code(), Code::limit);
}

TEST(Layout, refuses_a_file_of_2_63_bytes) {
  std::vector<ImageTensor> tensors;
  for (int i = 0; i < 8; ++i)
    tensors.push_back({"t" + std::to_string(i), Dtype::complex128, {1ull << 56}});
  const auto specs = specs_of(tensors);
  const auto plan = Plan::make(specs);
  ASSERT_FALSE(plan);
  EXPECT_EQ(plan.error().code(), Code::limit);
}

TEST(Layout, longest_name_and_highest_rank_are_fine) {
  const Image image = Image::sealed(
      {{std::string(65'535, 'x'), Dtype::u8, std::vector<std::uint64_t>(64, 1)}});
  const View view = image.open().value();
  EXPECT_EQ(view[0]->rank(), 64u);
  EXPECT_EQ(view[0]->strides()[63], 1u);
}

}  // namespace
}  // namespace weig::test
