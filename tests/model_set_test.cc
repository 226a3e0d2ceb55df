// SPDX-License-Identifier: Apache-2.0
// ModelSet: members found, proven to belong together, and used as one model.
#include <weig/model_set.h>

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cstring>
#include <filesystem>
#include <numeric>

#include <weig/convert.h>
#include <weig/verify.h>

#include "convert/set_output.h"
#include "image.h"
#include "store/member_name.h"

namespace weig::test {
namespace {

using Paths = std::vector<std::string>;

constexpr std::uint64_t kKiB = 1024;

// Three layers of 16 KiB, an embedding and tied weights, as safetensors readers that
// share bytes would not have them: from a WEIG file, with metadata.
std::string source_file(const Folder& folder, std::string_view name = "source") {
  std::vector<ImageTensor> tensors = {{"embed", Dtype::f32, {1024}, 0},
                                      {"head", Dtype::f32, {1024}, 0}};
  for (const char* layer : {"l.0.", "l.1.", "l.2."})
    for (const char* weight : {"a", "b", "c", "d"})
      tensors.push_back({std::string(layer) + weight, Dtype::f32, {1024}});
  write_file(folder.path(name),
             Image::sealed(tensors, {{disk::SectionKind::metadata,
                                      to_bytes(R"({"format":"pt"})")}})
                 .bytes);
  return folder.path(name);
}

ConvertReport convert_to_set(const std::string& source, const std::string& target,
                             std::uint64_t shard_bytes) {
  ConvertOptions options;
  options.shard_bytes = shard_bytes;
  return convert(Paths{source}, target, options).value();
}

// A set of four members (the embedding, and each layer), by their paths.
Paths make_set(const Folder& folder, std::string_view target = "m.weig",
               std::uint64_t shard_bytes = 24 * kKiB) {
  const auto report =
      convert_to_set(source_file(folder), folder.path(target), shard_bytes);
  std::filesystem::remove(folder.path("source"));
  Paths paths;
  for (const ConvertedMember& member : report.members) paths.push_back(member.path);
  return paths;
}

std::string name_of(const std::string& path) {
  return std::filesystem::path(path).filename().string();
}

Error failure(const std::string& path) {
  const auto set = ModelSet::open(path);
  if (set) return Error(Code::ok, "it opens");
  return set.error();
}

Error::Fields refusal(const std::string& path) {
  const Error error = failure(path);
  return error.fields();
}

TEST(MemberName, is_written_and_read) {
  const MemberName name{.stem = "a/m", .number = 2, .count = 5};
  EXPECT_EQ(name.text(), "a/m-00002-of-00005.weig");
  const auto read = parse_member_name(name.text());
  ASSERT_TRUE(read);
  EXPECT_EQ(read->stem, "a/m");
  EXPECT_EQ(read->number, 2u);
  EXPECT_EQ(read->count, 5u);
  EXPECT_EQ(read->text(), name.text());
  const MemberName many{.stem = "m", .number = 7, .count = 100'000};
  EXPECT_EQ(many.text(), "m-000007-of-100000.weig");
}

TEST(MemberName, other_names_are_none) {
  for (const char* name :
       {"m.weig", "m-of-00002.weig", "m-1.weig", "00001-of-00002.weig",
        "y-00001-of-00013/m.weig", "y-00001-of-00013/", "m-00001-of-00002",
        "m-00001-of-.weig", "m--of-00002.weig", "", "/",
        "m-00001-of-99999999999999999999999.weig"})
    EXPECT_FALSE(parse_member_name(name)) << name;
}

TEST(ModelSet, a_set_opens_from_any_member_and_from_its_folder) {
  const Folder folder;
  const Paths paths = make_set(folder);
  ASSERT_EQ(paths.size(), 4u);
  Paths starts = paths;
  starts.push_back(std::filesystem::path(paths[0]).parent_path().string());
  for (const std::string& start : starts) {
    const auto set = ModelSet::open(start);
    ASSERT_TRUE(set) << set.error().message();
    EXPECT_EQ(set->size(), 14u);
    ASSERT_EQ(set->member_count(), 4u);
    std::uint64_t bytes = 0;
    for (std::uint32_t m = 0; m < 4; ++m) {
      EXPECT_EQ(set->path(m), paths[m]);
      EXPECT_EQ(set->member(m)->shard().value()->index, m);
      bytes += std::filesystem::file_size(paths[m]);
    }
    EXPECT_EQ(set->file_size(), bytes);
    EXPECT_EQ(set->metadata()->find("format")->value, "pt");
  }
  EXPECT_EQ(ModelSet::open(paths[2])->shard()->index, 2u);
}

TEST(ModelSet, has_the_tensors_of_the_file_in_its_order) {
  const Folder folder;
  const Model whole = Model::open(source_file(folder)).value();
  convert_to_set(folder.path("source"), folder.path("m.weig"), 24 * kKiB);
  const ModelSet set = ModelSet::open(folder.path("m-00003-of-00004.weig")).value();
  ASSERT_EQ(set.size(), whole.size());
  std::uint64_t ordinal = 0;
  for (const Result<Tensor>& tensor : set.tensors()) {
    ASSERT_TRUE(tensor);
    const Tensor expected = whole[ordinal].value();
    EXPECT_EQ(tensor->name(), expected.name());
    EXPECT_TRUE(std::ranges::equal(tensor->bytes(), expected.bytes()));
    EXPECT_EQ(set.tensor(expected.name())->data(), tensor->data());
    EXPECT_EQ(set.find_ordinal(expected.name()).value(), ordinal);
    const std::uint32_t m = set.member_of(ordinal);
    EXPECT_EQ(set.first(m) + tensor->ordinal(), ordinal);
    ++ordinal;
  }
  EXPECT_EQ(set.tensor("head")->data(), set.tensor("embed")->data());
  EXPECT_FALSE(set.find("none").value());
  EXPECT_EQ(set.tensor("none").error().code(), Code::not_found);
  EXPECT_EQ(set[set.size()].error().code(), Code::invalid_argument);
}

TEST(ModelSet, a_group_that_was_divided_is_one) {
  const Folder folder;
  const Paths paths = make_set(folder, "m.weig", 14 * kKiB);  // two tensors fit
  EXPECT_GT(paths.size(), 4u);
  const ModelSet set = ModelSet::open(paths[1]).value();
  const auto groups = set.groups().value();
  ASSERT_EQ(groups.size(), 3u);
  for (std::uint64_t i = 0; i < 3; ++i) {
    EXPECT_EQ(groups[i].name, "l." + std::to_string(i));
    EXPECT_EQ(groups[i].first, 2 + 4 * i);
    EXPECT_EQ(groups[i].count, 4u);
  }
}

TEST(ModelSet, a_file_alone_is_a_set_of_one) {
  const Folder folder;
  const std::string weig = source_file(folder);
  write_file(folder.path("m.safetensors"),
             safetensors(R"({"w":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}})",
                         to_bytes("12")));
  for (const std::string& path : {weig, folder.path("m.safetensors")}) {
    const ModelSet set = ModelSet::open(path).value();
    const Model model = Model::open(path).value();
    EXPECT_EQ(set.member_count(), 1u);
    EXPECT_EQ(set.size(), model.size());
    EXPECT_FALSE(set.shard());
    EXPECT_EQ(set[0]->name(), model[0]->name());
    EXPECT_TRUE(set.check_set_id());
    EXPECT_EQ(set.tensor("none").error().code(), Code::not_found);
  }
  // The one WEIG file of a folder is its model.
  const auto folder_path = std::filesystem::path(weig).parent_path().string();
  EXPECT_EQ(ModelSet::open(folder_path)->path(0), weig);
}

TEST(ModelSet, a_member_can_be_let_go) {
  const Folder folder;
  const Paths paths = make_set(folder);
  ModelSet set = ModelSet::open(paths[0]).value();
  ASSERT_TRUE(set.tensor("l.1.a"));
  set.release(2);
  EXPECT_EQ(set.member(2), nullptr);
  EXPECT_TRUE(set.tensor("l.0.a"));
  EXPECT_TRUE(set.tensor("l.2.a"));
  for (const auto& tensor : {set.tensor("l.1.a"), set[set.first(2)]}) {
    ASSERT_FALSE(tensor);
    EXPECT_EQ(tensor.error().code(), Code::invalid_argument);
    EXPECT_EQ(tensor.error().fields().file, paths[2]);
    EXPECT_NE(tensor.error().message().find("released"), std::string::npos);
  }
  EXPECT_EQ(set.check_set_id().error().code(), Code::invalid_argument);
  ASSERT_TRUE(set.load({.way = LoadWay::populate}));  // of those that are left
  EXPECT_TRUE(set.metadata());
  set.release(0);
  EXPECT_EQ(set.metadata().error().code(), Code::invalid_argument);
}

TEST(ModelSet, all_members_are_loaded) {
  const Folder folder;
  const Paths paths = make_set(folder);
  std::uint64_t last = 0;
  std::uint64_t all = 0;
  ModelSet set = ModelSet::open(paths[0]).value();
  ASSERT_TRUE(set.load({.way = LoadWay::read, .progress = [&](auto done, auto total) {
                          EXPECT_GE(done, last);
                          last = done;
                          all = total;
                          return true;
                        }}));
  EXPECT_EQ(all, set.file_size());
  for (std::uint32_t m = 0; m < set.member_count(); ++m)
    EXPECT_EQ(set.member(m)->load_report().way, LoadWay::read);
  EXPECT_TRUE(ModelSet::open(
      paths[0], {.load = {.way = LoadWay::populate}, .verify = Verify::digests}));
  const auto stream = ModelSet::open(paths[0], {.load = {.way = LoadWay::stream}});
  ASSERT_FALSE(stream);
  EXPECT_EQ(stream.error().code(), Code::invalid_argument);
}

TEST(ModelSet, a_file_put_in_place_of_a_member_is_not_loaded) {
  const Folder folder;
  const Paths paths = make_set(folder);
  ModelSet set = ModelSet::open(paths[0]).value();
  std::filesystem::copy_file(paths[1], paths[1] + ".new");
  std::filesystem::rename(paths[1] + ".new", paths[1]);
  const auto loaded = set.load({.way = LoadWay::populate});
  ASSERT_FALSE(loaded);
  EXPECT_EQ(loaded.error().fields().file, paths[1]);
}

TEST(ModelSet, renamed_members_are_found) {
  const Folder folder;
  const Paths paths = make_set(folder);
  const Paths names = {"b.weig", "weights", "a.weig", "c"};
  for (std::size_t m = 0; m < 4; ++m)
    std::filesystem::rename(paths[m], folder.path(names[m]));
  for (const std::string& name : names) {
    const auto set = ModelSet::open(folder.path(name));
    ASSERT_TRUE(set) << set.error().message();
    for (std::uint32_t m = 0; m < 4; ++m) EXPECT_EQ(name_of(set->path(m)), names[m]);
  }
  // One of them alone has another name.
  std::filesystem::rename(folder.path("b.weig"), paths[0]);
  EXPECT_TRUE(ModelSet::open(paths[0]));
}

TEST(ModelSet, a_missing_member_is_named) {
  for (const std::size_t gone : {0, 1, 3}) {
    const Folder folder;
    const Paths paths = make_set(folder);
    std::filesystem::remove(paths[gone]);
    const std::string& start = paths[gone == 1 ? 3 : 1];
    const Error error = failure(start);
    EXPECT_EQ(error.code(), Code::cannot_open);
    EXPECT_EQ(error.fields().file, start);
    EXPECT_EQ(error.fields().found, "3 of 4 members");
    EXPECT_TRUE(error.fields().expected.starts_with(paths[gone])) << error.message();
  }
}

TEST(ModelSet, all_missing_members_are_named) {
  const Folder folder;
  const Paths paths = make_set(folder);
  std::filesystem::remove(paths[0]);
  std::filesystem::remove(paths[2]);
  const Error error = failure(paths[3]);
  EXPECT_EQ(error.fields().what, "members of the set are missing");
  EXPECT_EQ(error.fields().found, "2 of 4 members");
  EXPECT_EQ(error.fields().expected,
            name_of(paths[0]) + ", " + name_of(paths[2]) + ", of 4");
}

TEST(ModelSet, a_member_of_another_set_is_named) {
  const Folder folder;
  const Paths paths = make_set(folder);
  const Folder elsewhere;
  write_file(elsewhere.path("w"), Image::sealed({{"l.0.x", Dtype::f32, {4096}},
                                                 {"l.1.x", Dtype::f32, {4096}},
                                                 {"l.2.x", Dtype::f32, {4096}},
                                                 {"l.3.x", Dtype::f32, {4096}}})
                                      .bytes);
  convert_to_set(elsewhere.path("w"), elsewhere.path("m.weig"), 24 * kKiB);
  const auto replace = std::filesystem::copy_options::overwrite_existing;
  std::filesystem::copy_file(elsewhere.path(name_of(paths[2])), paths[2], replace);
  for (const std::size_t start : {0, 3}) {
    const Error error = failure(paths[start]);
    EXPECT_EQ(error.code(), Code::corrupt);
    EXPECT_EQ(error.fields().file, paths[2]);
    EXPECT_TRUE(error.fields().found.starts_with("member 3 of 4 of set "));
    EXPECT_TRUE(error.fields().expected.starts_with("member 3 of 4 of set "));
    EXPECT_NE(error.fields().found, error.fields().expected);
  }
  // A file that is no member at all.
  write_file(paths[2], Image::basic().bytes);
  EXPECT_EQ(refusal(paths[0]).found, "a file that is no member of a set");
}

TEST(ModelSet, members_whose_names_are_mixed_up_are_named) {
  const Folder folder;
  const Paths paths = make_set(folder);
  std::filesystem::rename(paths[1], folder.path("x"));
  std::filesystem::rename(paths[2], paths[1]);
  std::filesystem::rename(folder.path("x"), paths[2]);
  for (const std::size_t start : {0, 1}) {
    const Error error = failure(paths[start]);
    EXPECT_EQ(error.code(), Code::corrupt);
    EXPECT_EQ(error.fields().file, paths[1]);
    EXPECT_TRUE(error.fields().found.starts_with("member 3 of 4 of set "));
    EXPECT_EQ(error.fields().expected, "member 2 of 4, by the name");
  }
  // A number that there cannot be.
  const Folder other;
  const Paths good = make_set(other);
  std::filesystem::rename(good[1], other.path("m-00005-of-00004.weig"));
  EXPECT_EQ(refusal(other.path("m-00005-of-00004.weig")).expected,
            "member 5 of 4, by the name");
  EXPECT_EQ(refusal(good[0]).expected, "member 5 of 4, by the name");
}

TEST(ModelSet, the_same_member_twice_is_named) {
  const Folder folder;
  const Paths paths = make_set(folder);
  // Beside one of the right name, a copy is in nobody's way.
  std::filesystem::copy_file(paths[1], folder.path("copy.weig"));
  EXPECT_TRUE(ModelSet::open(paths[0]));
  std::filesystem::rename(paths[1], folder.path("renamed.weig"));
  const Error error = failure(paths[0]);
  EXPECT_EQ(error.code(), Code::corrupt);
  EXPECT_EQ(error.fields().file, folder.path("renamed.weig"));
  EXPECT_NE(error.fields().expected.find("copy.weig"), std::string::npos);
  // The same file by two names is one.
  std::filesystem::remove(folder.path("copy.weig"));
  std::filesystem::create_hard_link(folder.path("renamed.weig"),
                                    folder.path("copy.weig"));
  EXPECT_TRUE(ModelSet::open(paths[0]));
}

TEST(ModelSet, another_conversion_of_the_model_does_not_mix) {
  const Folder folder;
  const Paths paths = make_set(folder);
  const Folder elsewhere;
  const Paths others = make_set(elsewhere, "m.weig", 12 * kKiB);
  std::filesystem::remove(paths[1]);
  std::filesystem::copy_file(others[1], folder.path("other.weig"));
  EXPECT_EQ(failure(paths[0]).code(), Code::cannot_open);
  std::filesystem::copy_file(others[1], paths[1]);
  const Error error = failure(paths[0]);
  EXPECT_EQ(error.code(), Code::corrupt);
  EXPECT_EQ(error.fields().file, paths[1]);
}

// Members of a set of four tensors, cut where the caller says, under one set's id: that
// of the tensors in order.
Paths members_cut_at(const Folder& folder, const std::vector<std::uint32_t>& counts,
                     Digest set) {
  Paths paths;
  std::uint32_t next = 0;
  for (std::uint32_t m = 0; m < counts.size(); ++m) {
    std::vector<ImageTensor> tensors;
    for (std::uint32_t i = 0; i < counts[m]; ++i)
      tensors.push_back({"t" + std::to_string(next++), Dtype::u8, {8}});
    const auto count = static_cast<std::uint32_t>(counts.size());
    const Shard shard{set.low, set.high, m, count, 5};
    const MemberName name{.stem = folder.path("m"), .number = m + 1, .count = count};
    paths.push_back(name.text());
    write_file(paths.back(), Image::sealed(tensors, {shard_section(shard)}).bytes);
  }
  return paths;
}

TEST(ModelSet, the_set_s_id_tells_cuts_at_other_places) {
  // What the id is, a set with a wrong one says.
  const Folder folder;
  const Paths paths = members_cut_at(folder, {1, 2, 2}, {});
  const Error error = failure(paths[0]);
  EXPECT_EQ(error.code(), Code::corrupt);
  EXPECT_EQ(error.fields().what, "the members do not make the set that they name");
  const std::string& hex = error.fields().found;
  ASSERT_EQ(hex.size(), 32u);
  const Digest id{.low = std::stoull(hex.substr(16), nullptr, 16),
                  .high = std::stoull(hex.substr(0, 16), nullptr, 16)};
  members_cut_at(folder, {1, 2, 2}, id);
  ASSERT_TRUE(ModelSet::open(paths[0]));
  // The same id, count and number of tensors, but the last member begins too early.
  const Folder elsewhere;
  const Paths others = members_cut_at(elsewhere, {1, 3, 1}, id);
  std::filesystem::copy_file(others[2], paths[2],
                             std::filesystem::copy_options::overwrite_existing);
  EXPECT_EQ(refusal(paths[0]).what, "the tensors of all members");
  const Folder third;
  const Paths more = members_cut_at(third, {2, 2, 1}, id);
  std::filesystem::copy_file(more[0], paths[0],
                             std::filesystem::copy_options::overwrite_existing);
  EXPECT_EQ(refusal(paths[1]).what, "two members have a tensor of the same name");
  const auto lazy = ModelSet::open(paths[1], {.validation = Validation::lazy});
  ASSERT_TRUE(lazy);  // it is put off
  EXPECT_EQ(lazy->check_set_id().error().code(), Code::corrupt);
}

TEST(ModelSet, only_the_first_member_has_metadata) {
  const Folder folder;
  const Paths paths = members_cut_at(folder, {2, 3}, {});
  write_file(paths[1],
             Image::sealed(
                 {{"a", Dtype::u8, {8}}, {"b", Dtype::u8, {8}}, {"c", Dtype::u8, {8}}},
                 {{disk::SectionKind::metadata, to_bytes("{}")},
                  shard_section({0, 0, 1, 2, 5})})
                 .bytes);
  const Error error = failure(paths[0]);
  EXPECT_EQ(error.code(), Code::corrupt);
  EXPECT_EQ(error.fields().file, paths[1]);
  EXPECT_EQ(error.fields().found, "section 3 in member 2");
}

TEST(ModelSet, a_number_of_members_that_nobody_has_is_no_memory) {
  const Folder folder;
  write_file(folder.path("m.weig"),
             Image::sealed({{"a", Dtype::u8, {8}}},
                           {shard_section({0, 0, 4'000'000'000, 0xFFFFFFFF, 9})})
                 .bytes);
  const Error error = failure(folder.path("m.weig"));
  EXPECT_EQ(error.code(), Code::cannot_open);
  EXPECT_EQ(error.fields().found, "1 of 4294967295 members");
}

TEST(ModelSet, a_folder_of_several_models_is_refused) {
  const Folder folder;
  const Paths paths = make_set(folder);
  const auto root = std::filesystem::path(paths[0]).parent_path().string();
  ASSERT_TRUE(ModelSet::open(root));
  std::filesystem::create_directory(folder.path("y-00001-of-00013"));
  std::filesystem::create_directory(folder.path("m-00001-of-00005.weig"));
  write_file(folder.path("config.json"), to_bytes("{}"));
  EXPECT_TRUE(ModelSet::open(root));
  write_file(folder.path("z.weig"), Image::basic().bytes);
  const Error error = failure(root);
  EXPECT_EQ(error.code(), Code::invalid_argument);
  EXPECT_NE(error.message().find("z.weig"), std::string::npos);
  const Folder empty;
  EXPECT_EQ(failure(std::filesystem::path(empty.path("x")).parent_path()).code(),
            Code::cannot_open);
}

TEST(ModelSet, a_hundred_members_of_one_tensor_need_few_descriptors) {
  const Folder folder;
  std::vector<ImageTensor> tensors;
  for (int i = 0; i < 100; ++i)
    tensors.push_back({"t" + std::to_string(i), Dtype::u8, {5000}});
  write_file(folder.path("source"), Image::sealed(tensors).bytes);
  const auto report = convert_to_set(folder.path("source"), folder.path("m.weig"), 1);
  ASSERT_EQ(report.members.size(), 100u);
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit few{.rlim_cur = 40, .rlim_max = before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
  auto set = ModelSet::open(report.members[57].path);
  const Status loaded = set ? set->load({.way = LoadWay::populate}) : Status();
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  ASSERT_TRUE(set) << set.error().message();
  EXPECT_TRUE(loaded) << loaded.error().message();
  EXPECT_EQ(set->size(), 100u);
  EXPECT_EQ(set->tensor("t99")->byte_count(), 5000u);
}

}  // namespace
}  // namespace weig::test
