// SPDX-License-Identifier: Apache-2.0
// Writing sharded sets: what goes into which member, that merging gives the one file
// again, and that whatever call fails leaves the old set or the new.
#include "convert/set_output.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <filesystem>
#include <set>

#include <weig/convert.h>
#include <weig/model_set.h>
#include <weig/verify.h>

#include "image.h"
#include "output_calls.h"

namespace weig::test {
namespace {

using Paths = std::vector<std::string>;

std::vector<TensorSpec> specs_of(const std::vector<ImageTensor>& tensors) {
  std::vector<TensorSpec> specs;
  for (const ImageTensor& tensor : tensors)
    specs.push_back({.name = tensor.name,
                     .dtype = tensor.dtype,
                     .shape = tensor.shape,
                     .shares = tensor.shares});
  return specs;
}

std::vector<ImageTensor> layers(int count, int weights, std::uint64_t bytes) {
  std::vector<ImageTensor> tensors;
  for (int layer = 0; layer < count; ++layer)
    for (int weight = 0; weight < weights; ++weight)
      tensors.push_back({"l." + std::to_string(layer) + ".w" + std::to_string(weight),
                         Dtype::u8,
                         {bytes}});
  return tensors;
}

std::vector<std::uint32_t> counts(const std::vector<OrdinalRun>& runs) {
  std::vector<std::uint32_t> result;
  for (const OrdinalRun& run : runs) result.push_back(run.count);
  return result;
}

std::vector<OrdinalRun> parts(const std::vector<ImageTensor>& tensors,
                              PartitionRules rules) {
  const auto specs = specs_of(tensors);
  return partition(specs, Plan::make(specs).value(), rules);
}

using Counts = std::vector<std::uint32_t>;

TEST(Partition, layers_stay_whole) {
  // A layer of 40,000 bytes; fronts and padding are below 10,000.
  const auto tensors = layers(4, 4, 10'000);
  EXPECT_EQ(counts(parts(tensors, {.file_bytes = 50'000})), (Counts{4, 4, 4, 4}));
  EXPECT_EQ(counts(parts(tensors, {.file_bytes = 90'000})), (Counts{8, 8}));
  EXPECT_EQ(counts(parts(tensors, {.file_bytes = 130'000})), (Counts{12, 4}));
  EXPECT_EQ(counts(parts(tensors, {.file_bytes = 1'000'000})), (Counts{16}));
}

TEST(Partition, a_layer_that_is_too_large_is_divided) {
  const auto tensors = layers(2, 4, 10'000);
  EXPECT_EQ(counts(parts(tensors, {.file_bytes = 40'000})), (Counts{3, 1, 3, 1}));
  EXPECT_EQ(counts(parts(tensors, {.file_bytes = 1})), (Counts(8, 1)));
}

TEST(Partition, names_of_one_set_of_bytes_stay_together) {
  std::vector<ImageTensor> tensors = layers(2, 2, 10'000);
  tensors[0].shares = 0;
  tensors.push_back({"z", Dtype::u8, {10'000}, 0});
  EXPECT_EQ(counts(parts(tensors, {.file_bytes = 1})), (Counts{2, 1, 1, 1}));
}

TEST(Partition, what_needs_each_other_stays_together) {
  const auto tensors = layers(2, 4, 10'000);
  const std::vector<OrdinalRun> together = {{3, 3}, {0, 2}};
  EXPECT_EQ(counts(parts(tensors, {.file_bytes = 1, .together = together})),
            (Counts{2, 1, 3, 1, 1}));
}

TEST(Partition, metadata_counts_for_the_first_member) {
  const auto tensors = layers(4, 1, 10'000);
  EXPECT_EQ(counts(parts(tensors, {.file_bytes = 40'000})), (Counts{3, 1}));
  EXPECT_EQ(
      counts(parts(tensors, {.file_bytes = 40'000, .first_section_bytes = 20'000})),
      (Counts{1, 3}));
  EXPECT_EQ(
      counts(parts(tensors, {.file_bytes = 40'000, .first_section_bytes = 80'000})),
      (Counts{1, 3}));
}

TEST(Partition, no_tensors_are_one_member) {
  EXPECT_EQ(counts(parts({}, {.file_bytes = 1})), (Counts{0}));
}

ConvertOptions sharded(std::uint64_t bytes, Existing existing = Existing::refuse) {
  ConvertOptions options;
  options.shard_bytes = bytes;
  options.existing = existing;
  return options;
}

// A safetensors file of three layers, with metadata, that can be given back.
std::string safetensors_source(const Folder& folder) {
  write_file(folder.path("plain"),
             Image::sealed(layers(3, 4, 3000), {{disk::SectionKind::metadata,
                                                 to_bytes(R"({"format":"pt"})")}})
                 .bytes);
  EXPECT_TRUE(export_file(folder.path("plain"), folder.path("in.safetensors")));
  return folder.path("in.safetensors");
}

void expect_merged_again(const std::string& source, std::uint64_t shard_bytes) {
  const Folder folder;
  ASSERT_TRUE(convert(Paths{source}, folder.path("one.weig")));
  const auto report =
      convert(Paths{source}, folder.path("m.weig"), sharded(shard_bytes));
  ASSERT_TRUE(report) << report.error().message();
  for (const ConvertedMember& member : report->members) {
    EXPECT_EQ(member.file_size, std::filesystem::file_size(member.path));
    const Model model = Model::open(member.path).value();
    EXPECT_EQ(model.file_id(), member.file_id);
    EXPECT_TRUE(verify(model)->sound());
    std::set<std::uint64_t> owned;
    for (const auto& tensor : model.tensors()) owned.insert(tensor->data_offset());
    const bool one_unit = owned.size() <= 1 || model.quantization_count().value() > 0;
    EXPECT_TRUE(one_unit || member.file_size <= shard_bytes);
  }
  const std::string& any = report->members.back().path;
  const auto merged = convert(Paths{any}, folder.path("merged.weig"));
  ASSERT_TRUE(merged) << merged.error().message();
  EXPECT_TRUE(read_file(folder.path("merged.weig")) ==
              read_file(folder.path("one.weig")))
      << report->members.size();
  EXPECT_EQ(merged->exact_source, report->exact_source);
  // In one pass from one set to another.
  ASSERT_TRUE(convert(Paths{any}, folder.path("again.weig"), sharded(2 * shard_bytes)));
  ASSERT_TRUE(
      convert(Paths{source}, folder.path("direct.weig"), sharded(2 * shard_bytes)));
  for (const std::string& name : folder.names()) {
    if (!name.starts_with("direct-")) continue;
    EXPECT_TRUE(read_file(folder.path(name)) ==
                read_file(folder.path("again" + name.substr(6))))
        << name;
  }
}

TEST(SetOutput, merging_gives_the_one_file_again) {
  const Folder folder;
  write_file(folder.path("basic"), Image::basic().bytes);
  Image small = Image::small_model();  // a member of no set: a kind that is left out
  small.set<std::uint32_t>(small.section_entry(disk::SectionKind::shard), 0x80000000);
  small.reseal();
  write_file(folder.path("small"), small.bytes);
  write_file(folder.path("none"), Image::sealed({}).bytes);
  for (const std::string& source : {folder.path("basic"), folder.path("small"),
                                    folder.path("none"), safetensors_source(folder)})
    for (const std::uint64_t bytes : {1u, 5'000u, 9'000u, 20'000u, 1'000'000u})
      expect_merged_again(source, bytes);
}

TEST(SetOutput, all_members_given_are_one_set) {
  const Folder folder;
  const std::string source = safetensors_source(folder);
  ASSERT_TRUE(convert(Paths{source}, folder.path("one.weig")));
  const auto report =
      convert(Paths{source}, folder.path("m.weig"), sharded(20'000)).value();
  Paths members;
  for (const ConvertedMember& member : report.members) members.push_back(member.path);
  ASSERT_GT(members.size(), 1u);
  ASSERT_TRUE(convert(members, folder.path("two.weig")));
  EXPECT_TRUE(read_file(folder.path("one.weig")) == read_file(folder.path("two.weig")));
}

TEST(SetOutput, a_damaged_member_is_not_merged) {
  const Folder folder;
  const auto report =
      convert(Paths{safetensors_source(folder)}, folder.path("m.weig"), sharded(20'000))
          .value();
  const std::string path = report.members[1].path;
  auto bytes = read_file(path);
  bytes[Model::open(path)->tensor("l.1.w0")->data_offset()] ^= std::byte{1};
  write_file(path, bytes);
  const auto before = folder.names();
  const auto merged = convert(Paths{report.members[0].path}, folder.path("n.weig"));
  ASSERT_FALSE(merged);
  EXPECT_EQ(merged.error().code(), Code::checksum);
  EXPECT_EQ(merged.error().fields().file, path);
  EXPECT_EQ(merged.error().fields().tensor, "l.1.w0");
  EXPECT_EQ(folder.names(), before);
}

TEST(SetOutput, a_set_that_is_there_is_replaced_only_if_told_to) {
  const Folder folder;
  const std::string source = safetensors_source(folder);
  ASSERT_TRUE(convert(Paths{source}, folder.path("m.weig"), sharded(20'000)));
  const auto before = folder.names();
  // A set of another number of members is in the way as well.
  const auto refused = convert(Paths{source}, folder.path("m.weig"), sharded(9'000));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), Code::exists);
  EXPECT_EQ(folder.names(), before);
  write_file(folder.path("m-00001-of-00077.weig"), to_bytes("somebody's"));
  const auto report =
      convert(Paths{source}, folder.path("m.weig"), sharded(9'000, Existing::replace));
  ASSERT_TRUE(report) << report.error().message();
  const auto set = ModelSet::open(report->output);
  ASSERT_TRUE(set) << set.error().message();
  // The old one is gone; what was no member of a set is not.
  Paths expected = {"in.safetensors", "m-00001-of-00077.weig", "plain"};
  for (const ConvertedMember& member : report->members)
    expected.push_back(std::filesystem::path(member.path).filename().string());
  std::ranges::sort(expected);
  EXPECT_EQ(folder.names(), expected);
}

TEST(SetOutput, a_source_is_never_replaced) {
  const Folder folder;
  const auto report =
      convert(Paths{safetensors_source(folder)}, folder.path("m.weig"), sharded(20'000))
          .value();
  const auto before = folder.names();
  const std::string source = report.members[0].path;
  for (const char* target : {"m.weig", "m-00002-of-00003.weig"}) {
    ConvertOptions options = sharded(9'000, Existing::replace);
    if (std::string_view(target) != "m.weig") options.shard_bytes.reset();
    const auto refused = convert(Paths{source}, folder.path(target), options);
    ASSERT_FALSE(refused) << target;
    EXPECT_EQ(refused.error().code(), Code::exists);
    EXPECT_EQ(refused.error().fields().what, "the output is one of the sources");
    EXPECT_EQ(folder.names(), before);
  }
}

TEST(SetOutput, whoever_stops_it_leaves_nothing) {
  const Folder folder;
  const std::string source = safetensors_source(folder);
  const auto before = folder.names();
  for (int allowed = 0; allowed < 3; ++allowed) {
    ConvertOptions options = sharded(20'000);
    int calls = 0;
    options.progress = [&](std::uint64_t, std::uint64_t) { return calls++ < allowed; };
    const auto stopped = convert(Paths{source}, folder.path("m.weig"), options);
    ASSERT_FALSE(stopped);
    EXPECT_EQ(stopped.error().code(), Code::cancelled);
    EXPECT_EQ(folder.names(), before);
  }
}

// Every call that makes the files fails in turn.
class FailingCalls : public testing::TestWithParam<Existing> {
 protected:
  void SetUp() override {
    source_ = safetensors_source(folder_);
    write_file(folder_.path("old"), Image::sealed(layers(3, 4, 2999)).bytes);
  }

  void put_old_set() {
    for (const std::string& name : folder_.names())
      if (name.starts_with("m-") || name.starts_with('.'))
        std::filesystem::remove(folder_.path(name));
    if (GetParam() == Existing::replace) {
      ASSERT_TRUE(
          convert(Paths{folder_.path("old")}, folder_.path("m.weig"), sharded(20'000)));
    }
    before_ = folder_.names();
  }

  bool old_is_whole() const {
    if (folder_.names() != before_) return false;
    if (GetParam() == Existing::refuse) return true;
    const auto set = ModelSet::open(folder_.path("m-00001-of-00003.weig"));
    return set && set->tensor("l.0.w0")->byte_count() == 2999;
  }

  Folder folder_;
  std::string source_;
  Paths before_;
};

TEST_P(FailingCalls, leave_the_old_set) {
  int at = 1;
  for (; at < 1000; ++at) {
    put_old_set();
    interfere({.at = at, .error = ENOSPC, .fate = Fate::fail});
    const auto report =
        convert(Paths{source_}, folder_.path("m.weig"), sharded(20'000, GetParam()));
    const int made = output_calls_made();
    const std::string last = last_output_call();
    interfere({});
    if (made < at) {
      EXPECT_TRUE(report);
      break;
    }
    ASSERT_FALSE(report) << "call " << at << ", " << last;
    EXPECT_TRUE(old_is_whole())
        << "call " << at << ", " << last << ": " << report.error().message();
    EXPECT_NE(report.error().message().find("No space left"), std::string::npos);
  }
  EXPECT_GT(at, 20);
}

// What a kill leaves between two calls: no set that is not whole opens.
TEST_P(FailingCalls, for_good_leave_nothing_that_opens_in_part) {
  for (int at = 1; at < 1000; ++at) {
    put_old_set();
    interfere({.at = at, .error = EIO, .fate = Fate::fail_for_good});
    const auto report =
        convert(Paths{source_}, folder_.path("m.weig"), sharded(20'000, GetParam()));
    const int made = output_calls_made();
    interfere({});
    if (made < at) break;
    for (const std::string& name : folder_.names()) {
      if (!name.starts_with("m-")) continue;
      const auto set = ModelSet::open(folder_.path(name));
      if (!set) continue;
      EXPECT_EQ(set->size(), 12u);
      EXPECT_EQ(set->tensor("l.2.w3")->byte_count(),
                set->tensor("l.0.w0")->byte_count());
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, FailingCalls,
                         testing::Values(Existing::refuse, Existing::replace),
                         [](const auto& instance) {
                           return instance.param == Existing::refuse ? "none" : "old";
                         });

}  // namespace
}  // namespace weig::test
