// SPDX-License-Identifier: Apache-2.0
// diff as a C++ program calls it; the command's tests go further.
#include <weig/diff.h>

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include <weig/convert.h>

#include "image.h"

namespace weig::test {
namespace {

using Paths = std::vector<std::string>;

// Two floats called w, and a byte called b.
std::string model(const Folder& folder, const std::string& name,
                  const std::string& data) {
  write_file(folder.path(name),
             safetensors(R"({"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
                         R"("b":{"dtype":"U8","shape":[1],"data_offsets":[8,9]}})",
                         to_bytes(data)));
  return folder.path(name);
}

const std::string kZeros(9, '\0');

TEST(Diff, a_model_is_the_same_as_itself) {
  const Folder folder;
  const std::string path = model(folder, "m.safetensors", kZeros);
  const auto report = diff(path, path).value();
  EXPECT_TRUE(report.same());
  EXPECT_EQ(report.equal, 2u);
  EXPECT_EQ(report.equal_by_digest, 0u);
  EXPECT_EQ(report.bytes_a, 9u);
}

TEST(Diff, a_float_and_a_byte_that_changed) {
  const Folder folder;
  std::string other = kZeros;
  other[6] = '\x80';  // 1.0f
  other[7] = '\x3f';
  other[8] = 1;
  const auto report = diff(model(folder, "a.safetensors", kZeros),
                           model(folder, "b.safetensors", other))
                          .value();
  ASSERT_EQ(report.tensors.size(), 2u);
  EXPECT_EQ(report.tensors[0].name, "b");
  EXPECT_FALSE(report.tensors[0].numbers);
  const auto& numbers = report.tensors[1].numbers;
  ASSERT_TRUE(numbers);
  EXPECT_EQ(numbers->elements, 2u);
  EXPECT_EQ(numbers->differing, 1u);
  EXPECT_EQ(numbers->max, 1);
  EXPECT_EQ(numbers->mean, 0.5);
}

TEST(Diff, digests_are_believed_unless_all_is_read) {
  const Folder folder;
  const std::string source = model(folder, "m.safetensors", kZeros);
  ASSERT_TRUE(convert(Paths{source}, folder.path("m.weig")));
  const std::string path = folder.path("m.weig");
  EXPECT_EQ(diff(path, path)->equal_by_digest, 2u);
  const auto read = diff(path, path, {.read_all = true}).value();
  EXPECT_EQ(read.equal, 2u);
  EXPECT_EQ(read.equal_by_digest, 0u);
}

TEST(Diff, byte_order_is_no_difference) {
  const Folder folder;
  const std::string big = std::string(WEIG_GOLDEN_FOLDER) + "/big_endian.weig";
  ASSERT_TRUE(convert(Paths{big}, folder.path("little.weig")));
  const auto report = diff(big, folder.path("little.weig")).value();
  EXPECT_TRUE(report.same());
  EXPECT_EQ(report.equal, 3u);
}

TEST(Diff, only_chosen_tensors_are_compared) {
  const Folder folder;
  std::string other = kZeros;
  other[8] = 1;
  DiffOptions options;
  options.choose = [](std::string_view name) { return name == "w"; };
  const auto report = diff(model(folder, "a.safetensors", kZeros),
                           model(folder, "b.safetensors", other), options)
                          .value();
  EXPECT_TRUE(report.same());
  EXPECT_EQ(report.tensors_a, 1u);
}

TEST(Diff, stops_when_it_is_told_to) {
  const Folder folder;
  const std::string path = model(folder, "m.safetensors", kZeros);
  DiffOptions options;
  options.progress = [](std::uint64_t, std::uint64_t) { return false; };
  const auto report = diff(path, path, options);
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().code(), Code::cancelled);
}

}  // namespace
}  // namespace weig::test
