// SPDX-License-Identifier: Apache-2.0
// convert and export_file as a C++ program calls them; the command's tests go further.
#include <weig/convert.h>

#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <thread>

#include <weig/model.h>
#include <weig/verify.h>

#include "core/digest.h"
#include "image.h"

namespace weig::test {
namespace {

using Paths = std::vector<std::string>;

std::string simple_file(const Folder& folder, const std::string& name = "m.safetensors",
                        const std::string& tensor = "w") {
  const std::string header = R"({"__metadata__":{"format":"pt"},")" + tensor +
                             R"(":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";
  write_file(folder.path(name), safetensors(header, to_bytes("12345678")));
  return folder.path(name);
}

TEST(Convert, default_name_is_beside_the_source) {
  const Folder folder;
  const auto report = convert(Paths{simple_file(folder)}, "").value();
  EXPECT_EQ(report.output, folder.path("m.weig"));
  EXPECT_EQ(report.tensors, 1u);
  EXPECT_TRUE(report.exact_source);
  EXPECT_EQ(default_target(Paths{"a/b"}).value(), "a/b.weig");
  EXPECT_FALSE(default_target(Paths{"a", "b"}));
  EXPECT_FALSE(default_target(Paths{"a.weig"}));
}

TEST(Convert, there_and_back_is_the_same_file) {
  const Folder folder;
  const std::string source = simple_file(folder);
  ASSERT_TRUE(convert(Paths{source}, folder.path("a.weig")));
  const auto report =
      export_file(folder.path("a.weig"), folder.path("b.safetensors")).value();
  EXPECT_TRUE(report.exact);
  EXPECT_TRUE(read_file(source) == read_file(folder.path("b.safetensors")));
}

TEST(Convert, several_files_become_one) {
  const Folder folder;
  const Paths sources = {simple_file(folder, "1.safetensors", "a"),
                         simple_file(folder, "2.safetensors", "b")};
  ASSERT_TRUE(convert(sources, folder.path("m.weig")));
  EXPECT_EQ(Model::open(folder.path("m.weig"))->size(), 2u);
  const Paths twice = {sources[0], sources[0]};
  const auto refused = convert(twice, folder.path("n.weig"));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().fields().tensor, "a");
}

TEST(Convert, minimal_and_big_endian_files_are_sealed) {
  const std::vector<ImageTensor> tensors = {{"b", Dtype::f32, {3}},
                                            {"a", Dtype::i16, {5}}};
  const Folder folder;
  write_file(folder.path("l"), Image::minimal(tensors).bytes);
  write_file(folder.path("b"), Image::minimal(tensors, ByteOrder::big).bytes);
  ASSERT_TRUE(convert(Paths{folder.path("l")}, folder.path("l.weig")));
  ASSERT_TRUE(convert(Paths{folder.path("b")}, folder.path("b.weig")));
  EXPECT_TRUE(read_file(folder.path("l.weig")) == read_file(folder.path("b.weig")));
  EXPECT_TRUE(Model::open(folder.path("b.weig"))->sealed());
}

TEST(Convert, a_weig_file_again_is_the_same_file) {
  const Folder folder;
  ASSERT_TRUE(convert(Paths{simple_file(folder)}, folder.path("a.weig")));
  ASSERT_TRUE(convert(Paths{folder.path("a.weig")}, folder.path("b.weig")));
  EXPECT_TRUE(read_file(folder.path("a.weig")) == read_file(folder.path("b.weig")));
  write_file(folder.path("basic"), Image::basic().bytes);
  ASSERT_TRUE(convert(Paths{folder.path("basic")}, folder.path("c.weig")));
  EXPECT_TRUE(read_file(folder.path("c.weig")) == Image::basic().bytes);
}

TEST(Convert, a_damaged_weig_file_is_not_sealed_anew) {
  Image image = Image::basic();
  image.bytes[image.header(24)] ^= std::byte{1};
  const Folder folder;
  write_file(folder.path("m.weig"), image.bytes);
  const auto report = convert(Paths{folder.path("m.weig")}, folder.path("n.weig"));
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().code(), Code::checksum);
  EXPECT_EQ(report.error().fields().tensor, "blocks");
  EXPECT_EQ(folder.names(), (Paths{"m.weig"}));
}

// A sealed file in which `name` is quantized by its own scale, with 8 u32 of one entry.
Image quantized(const std::string& name, std::uint32_t scheme = 1) {
  std::vector<std::byte> section(40);
  std::byte* at = section.data();
  for (const std::uint32_t field :
       {1u, 0u, 0u, scheme, disk::kNone, 0u, 1u, disk::kNone, disk::kNone, 0u}) {
    store(at, field);
    at += sizeof field;
  }
  return Image::sealed({{name, Dtype::i8, {2}}, {name + ".scale", Dtype::f32, {}}},
                       {{disk::SectionKind::quantization, section}});
}

TEST(Convert, quantization_of_several_files_goes_along) {
  const Folder folder;
  write_file(folder.path("1.weig"), quantized("b").bytes);
  write_file(folder.path("2.weig"), quantized("a").bytes);
  const Paths sources = {folder.path("1.weig"), folder.path("2.weig")};
  ASSERT_TRUE(convert(sources, folder.path("m.weig")));
  const auto model = Model::open(folder.path("m.weig")).value();
  ASSERT_EQ(model.quantization_count().value(), 2u);
  for (std::uint32_t i = 0; i < 2; ++i) {
    const Quantization entry = model.quantization(i).value();
    const std::string name(model[entry.tensor]->name());
    EXPECT_EQ(model[entry.scale]->name(), name + ".scale");
    EXPECT_EQ(entry.zero_point, disk::kNone);
  }
  EXPECT_TRUE(verify(model)->sound());
}

TEST(Convert, a_scheme_that_is_not_known_is_never_moved) {
  const Folder folder;
  write_file(folder.path("1.weig"), quantized("b", 7).bytes);
  write_file(folder.path("2.weig"), quantized("a").bytes);
  ASSERT_TRUE(convert(Paths{folder.path("1.weig")}, folder.path("same.weig")));
  EXPECT_TRUE(read_file(folder.path("same.weig")) == quantized("b", 7).bytes);
  const Paths sources = {folder.path("1.weig"), folder.path("2.weig")};
  const auto refused = convert(sources, folder.path("m.weig"));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), Code::unsupported);
  EXPECT_EQ(refused.error().fields().tensor, "b");
}

// Its digests are right: only what reads the text itself can see it.
TEST(Convert, what_weig_says_of_sources_is_not_taken_from_others) {
  const Folder folder;
  const std::string header = R"({"__metadata__":{"weig.source.sha256":"mine","a":"b"},)"
                             R"("w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";
  write_file(folder.path("m.safetensors"), safetensors(header, to_bytes("12345678")));
  const auto report =
      convert(Paths{folder.path("m.safetensors")}, folder.path("m.weig")).value();
  ASSERT_EQ(report.warnings.size(), 1u);
  EXPECT_NE(report.warnings[0].find("'weig.source.sha256' is left out"),
            std::string::npos);
  const Metadata metadata = Model::open(folder.path("m.weig"))->metadata().value();
  EXPECT_EQ(metadata.text(), R"({"a":"b"})");
  EXPECT_TRUE(export_file(folder.path("m.weig"), folder.path("x"))->exact);
  EXPECT_EQ(read_file(folder.path("x")), read_file(folder.path("m.safetensors")));
}

TEST(Convert, sections_that_are_left_out_are_told) {
  const Folder folder;
  const auto kind = static_cast<disk::SectionKind>(0x80000001);
  write_file(folder.path("m.weig"),
             Image::sealed({{"a", Dtype::u8, {1}}}, {{kind, to_bytes("x")}}).bytes);
  const auto written = convert(Paths{folder.path("m.weig")}, folder.path("n.weig"));
  ASSERT_TRUE(written);
  const std::vector<std::string> told = {
      folder.path("m.weig") + ": a section of an unknown kind is left out: 2147483649"};
  EXPECT_EQ(written->warnings, told);
  const auto exported = export_file(folder.path("m.weig"), folder.path("x")).value();
  EXPECT_EQ(exported.warnings,
            std::vector<std::string>{
                "left out, since safetensors has no place for it: section 2147483649"});
}

TEST(Convert, metadata_that_verify_calls_damaged_is_not_sealed_anew) {
  for (const char* text :
       {R"({"k":{"type":"u40","value":1}})", R"({"k":1})", R"({"k":"1","k":"2"})"}) {
    const Folder folder;
    write_file(folder.path("m.weig"),
               Image::sealed({{"w", Dtype::u8, {1}}},
                             {{disk::SectionKind::metadata, to_bytes(text)}})
                   .bytes);
    const auto report = verify(Model::open(folder.path("m.weig")).value()).value();
    ASSERT_EQ(report.damages.size(), 1u) << text;
    const auto converted = convert(Paths{folder.path("m.weig")}, folder.path("n.weig"));
    ASSERT_FALSE(converted) << text;
    EXPECT_EQ(converted.error().code(), Code::corrupt);
    EXPECT_EQ(converted.error().fields().what, report.damages[0].error.fields().what);
    EXPECT_EQ(converted.error().fields().file, folder.path("m.weig"));
    EXPECT_EQ(folder.names(), (Paths{"m.weig"}));
  }
}

// A sealed file that says it came from a safetensors file with this header.
Image with_source_header(const std::vector<ImageTensor>& tensors,
                         const std::string& json, std::uint64_t data_bytes) {
  const auto header = safetensors(json, {});
  const Digest digest = xxh3_128(header);
  std::vector<std::byte> section(sizeof(disk::SourceHead));
  store(section.data(), 1u);
  store(section.data() + 8, header.size() + data_bytes);
  store(section.data() + 16, std::uint64_t{header.size()});
  store(section.data() + 24, digest.low);
  store(section.data() + 32, digest.high);
  section.insert(section.end(), header.begin(), header.end());
  return Image::sealed(tensors, {{disk::SectionKind::source, section}});
}

// The header that is kept is a stranger's word too.
TEST(Convert, a_source_header_is_looked_at_without_exporting) {
  const Folder folder;
  ASSERT_TRUE(convert(Paths{simple_file(folder)}, folder.path("m.weig")));
  EXPECT_TRUE(check_source_header(Model::open(folder.path("m.weig")).value()));
  Image image;
  image.bytes = read_file(folder.path("m.weig"));
  const auto section = image.section_offset(disk::SectionKind::source);
  image.bytes[section + 24] ^= std::byte{1};  // the digest
  image.reseal();
  write_file(folder.path("n.weig"), image.bytes);
  const Model model = Model::open(folder.path("n.weig")).value();
  EXPECT_TRUE(verify(model)->sound());
  const auto checked = check_source_header(model);
  ASSERT_FALSE(checked);
  EXPECT_EQ(checked.error().code(), Code::corrupt);
  EXPECT_EQ(checked.error().fields().file, folder.path("n.weig"));
}

TEST(Convert, a_source_header_that_belongs_to_other_tensors_is_refused) {
  const std::string w = R"("w":{"dtype":"U8","shape":[34],"data_offsets":[0,34]})";
  struct Row {
    const char* says;
    std::vector<ImageTensor> tensors;
    std::string json;
    std::uint64_t data_bytes = 34;
  };
  const std::vector<Row> rows = {
      {"type or shape", {{"w", Dtype::q8_0, {32}}}, "{" + w + "}"},
      {"type or shape", {{"w", Dtype::i8, {34}}}, "{" + w + "}"},
      {"type or shape", {{"w", Dtype::u8, {2, 17}}}, "{" + w + "}"},
      {"does not have", {{"v", Dtype::u8, {34}}}, "{" + w + "}"},
      {"not all of", {{"w", Dtype::u8, {34}}, {"v", Dtype::q8_0, {32}}}, "{" + w + "}"},
      {"not the whole file", {{"w", Dtype::u8, {34}}}, "{" + w + "}", 35},
  };
  for (const Row& row : rows) {
    const Folder folder;
    write_file(folder.path("m.weig"),
               with_source_header(row.tensors, row.json, row.data_bytes).bytes);
    const auto converted = convert(Paths{folder.path("m.weig")}, folder.path("n.weig"));
    const auto exported = export_file(folder.path("m.weig"), folder.path("n"));
    ASSERT_FALSE(converted) << row.says;
    ASSERT_FALSE(exported) << row.says;
    for (const Error& error : {converted.error(), exported.error()}) {
      EXPECT_EQ(error.code(), Code::corrupt);
      EXPECT_NE(error.message().find(row.says), std::string::npos) << error.message();
    }
    EXPECT_EQ(folder.names(), (Paths{"m.weig"}));
  }
}

// 4 bytes a tensor name one long name again and again: gigabytes, if believed.
TEST(Convert, a_source_header_of_ordinals_cannot_outgrow_its_size) {
  std::vector<ImageTensor> tensors = {{std::string(60'000, 'n'), Dtype::u8, {1}}};
  for (int i = 0; i < 9; ++i) tensors.push_back({std::to_string(i), Dtype::u8, {1}});
  std::vector<std::byte> section(sizeof(disk::SourceHead) + 4 * tensors.size());
  store(section.data(), 1u);
  store(section.data() + 4, 1u);
  store(section.data() + 16, std::uint64_t{100'000});
  for (std::size_t i = 0; i < tensors.size(); ++i)
    store(section.data() + sizeof(disk::SourceHead) + 4 * i, 9u);
  const Folder folder;
  write_file(folder.path("m.weig"),
             Image::sealed(tensors, {{disk::SectionKind::source, section}}).bytes);
  const auto exported = export_file(folder.path("m.weig"), folder.path("n"));
  ASSERT_FALSE(exported);
  EXPECT_EQ(exported.error().code(), Code::corrupt);
  EXPECT_NE(exported.error().message().find("longer header than it says"),
            std::string::npos)
      << exported.error().message();
}

// A header may end in spaces, which the section only counts: 4 KiB must not make 1 GiB.
TEST(Convert, a_source_header_of_spaces_cannot_outgrow_its_file) {
  Image image = Image::all_sections();
  const std::uint64_t section = image.section_offset(disk::SectionKind::source);
  image.set(section + 16, std::uint64_t{64} << 20);
  // The whole of its model, not a member of a set.
  image.set<std::uint32_t>(image.section_entry(disk::SectionKind::shard), 0x80000000);
  image.reseal();
  const Folder folder;
  write_file(folder.path("m.weig"), image.bytes);
  const auto exported = export_file(folder.path("m.weig"), folder.path("n"));
  ASSERT_FALSE(exported);
  EXPECT_EQ(exported.error().code(), Code::limit);
}

// But what convert has kept comes back, however many spaces there were.
TEST(Convert, a_header_of_many_spaces_comes_back) {
  const Folder folder;
  std::string header = R"({"w":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})";
  header.resize(1 << 20, ' ');
  const auto source = safetensors(header, to_bytes("x"));
  write_file(folder.path("m"), source);
  ASSERT_TRUE(convert(Paths{folder.path("m")}, folder.path("m.weig")));
  ASSERT_TRUE(export_file(folder.path("m.weig"), folder.path("n")));
  EXPECT_TRUE(read_file(folder.path("n")) == source);
}

// The bytes of the length may look like text: 123 is '{', 91 is '['.
TEST(Convert, header_lengths_that_spell_other_formats) {
  const Folder folder;
  for (const std::size_t length : {60ul, 66ul, 91ul, 123ul}) {
    std::string header = R"({"w":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})";
    header.resize(length, ' ');
    write_file(folder.path("m"), safetensors(header, to_bytes("x")));
    EXPECT_TRUE(Model::open(folder.path("m"))) << length;
  }
}

TEST(Convert, cancel_leaves_nothing) {
  const Folder folder;
  const std::string source = simple_file(folder);
  ConvertOptions options;
  options.progress = [](auto, auto) { return false; };
  const auto report = convert(Paths{source}, folder.path("a.weig"), options);
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().code(), Code::cancelled);
  EXPECT_EQ(folder.names(), (Paths{"m.safetensors"}));
}

// C97
TEST(Convert, never_writes_over_a_source) {
  const Folder folder;
  const std::string source = simple_file(folder);
  const auto before = read_file(source);
  std::filesystem::create_symlink("m.safetensors", folder.path("link"));
  std::filesystem::create_hard_link(source, folder.path("hard"));
  ConvertOptions force;
  force.existing = Existing::replace;
  for (const char* target : {"m.safetensors", "./m.safetensors", "link", "hard"}) {
    const auto report = convert(Paths{source}, folder.path(target), force);
    ASSERT_FALSE(report) << target;
    EXPECT_EQ(report.error().code(), Code::exists) << target;
  }
  EXPECT_TRUE(read_file(source) == before);
}

TEST(Export, refuses_what_safetensors_cannot_hold) {
  const Folder folder;
  const auto refused = [&](const std::vector<ImageTensor>& tensors,
                           std::vector<SectionBytes> sections, const char* says) {
    write_file(folder.path("m.weig"),
               Image::sealed(tensors, std::move(sections)).bytes);
    const auto report = export_file(folder.path("m.weig"), folder.path("x"));
    ASSERT_FALSE(report) << says;
    EXPECT_EQ(report.error().code(), Code::unsupported);
    EXPECT_NE(report.error().message().find(says), std::string::npos)
        << report.error().message();
    EXPECT_EQ(folder.names(), (Paths{"m.weig"}));
  };
  refused({{"q", Dtype::q8_0, {32}}}, {}, "'q'");
  refused({{"q", Dtype::f8_e4m3, {32}}}, {}, "f8_e4m3");
  refused({{"q", Dtype::f4_e2m1, {3}}}, {}, "whole bytes");
  refused({{"__metadata__", Dtype::u8, {3}}}, {}, "of this name");
  refused(
      {},
      {{disk::SectionKind::metadata, to_bytes(R"({"n":{"type":"u32","value":7}})")}},
      "'n' of type u32");
}

TEST(Export, writes_tied_weights_again) {
  const Folder folder;
  write_file(
      folder.path("m.weig"),
      Image::sealed({{"a", Dtype::f32, {2}, 1}, {"b", Dtype::f32, {2}, 1}}).bytes);
  const auto report = export_file(folder.path("m.weig"), folder.path("x")).value();
  EXPECT_FALSE(report.exact);
  EXPECT_EQ(report.warnings.size(), 1u);
  EXPECT_EQ(Model::open(folder.path("x"))->size(), 2u);
}

TEST(Export, does_not_write_shared_bytes_thousands_of_times) {
  const Folder folder;
  std::vector<ImageTensor> tensors;
  for (int i = 0; i < 200; ++i)
    tensors.push_back({"t" + std::to_string(1000 + i), Dtype::u8, {1 << 20}, 1});
  write_file(folder.path("m.weig"), Image::sealed(tensors).bytes);
  const auto report = export_file(folder.path("m.weig"), folder.path("x"));
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().code(), Code::limit);
  EXPECT_EQ(folder.names(), (Paths{"m.weig"}));
}

TEST(Export, does_not_launder_damage) {
  const Folder folder;
  Image image = Image::sealed({{"a", Dtype::f32, {2}}});
  image.bytes[image.header(24)] ^= std::byte{1};
  write_file(folder.path("m.weig"), image.bytes);
  const auto report = export_file(folder.path("m.weig"), folder.path("x"));
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().code(), Code::checksum);
  EXPECT_EQ(folder.names(), (Paths{"m.weig"}));
}

// Two tensors of 6 MiB, so that a callback comes between them.
class ExportOfAChangingFile : public testing::Test {
 protected:
  ExportOfAChangingFile() {
    write_file(source_,
               Image::sealed({{"a", Dtype::u8, {6 << 20}}, {"b", Dtype::u8, {6 << 20}}})
                   .bytes);
  }

  Code code_of(const std::function<void()>& change) const {
    const auto progress = [&](std::uint64_t, std::uint64_t) { return change(), true; };
    const auto report =
        export_file(source_, folder_.path("out"), {.progress = progress});
    return report ? Code::ok : report.error().code();
  }

  Folder folder_;
  std::string source_ = folder_.path("m.weig");
};

TEST_F(ExportOfAChangingFile, a_cut_is_an_error_and_leaves_nothing) {
  EXPECT_EQ(code_of([&] { std::filesystem::resize_file(source_, 6 << 20); }),
            Code::corrupt);
  EXPECT_EQ(folder_.names(), std::vector<std::string>{"m.weig"});
}

TEST_F(ExportOfAChangingFile, other_bytes_differ_from_their_digest) {
  const auto overwrite = [&] {
    std::fstream file(source_, std::ios::in | std::ios::out | std::ios::binary);
    const auto size = static_cast<std::streamoff>(std::filesystem::file_size(source_));
    file.seekp(size - (1 << 20));
    file << "changed";
  };
  EXPECT_EQ(code_of(overwrite), Code::checksum);
  EXPECT_EQ(folder_.names(), std::vector<std::string>{"m.weig"});
}

// Without digests, its size and times alone tell. Set back, so that any write shows.
TEST(Convert, a_source_that_changes_meanwhile_is_refused) {
  const Folder folder;
  const std::string source = simple_file(folder);
  const auto set_back = [&] { std::filesystem::last_write_time(source, {}); };
  const auto overwrite = [&](std::uint64_t, std::uint64_t) {
    std::fstream file(source, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(-3, std::ios::end);
    file << "new";
    return true;
  };
  // As what unpacks or copies files with their times does.
  const auto overwrite_and_set_back = [&](std::uint64_t done, std::uint64_t total) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    overwrite(done, total);
    set_back();
    return true;
  };
  set_back();
  EXPECT_FALSE(convert(Paths{source}, folder.path("out.weig"),
                       {.progress = overwrite_and_set_back}));
  EXPECT_FALSE(export_file(source, folder.path("out.safetensors"),
                           {.progress = overwrite_and_set_back}));
  const auto converted =
      convert(Paths{source}, folder.path("out.weig"), {.progress = overwrite});
  ASSERT_FALSE(converted);
  EXPECT_EQ(converted.error().code(), Code::corrupt);
  EXPECT_EQ(converted.error().fields().file, source);
  set_back();
  const auto exported =
      export_file(source, folder.path("out.safetensors"), {.progress = overwrite});
  ASSERT_FALSE(exported);
  EXPECT_EQ(exported.error().code(), Code::corrupt);
  EXPECT_EQ(exported.error().fields().file, source);
  EXPECT_EQ(folder.names(), std::vector<std::string>{"m.safetensors"});
}

}  // namespace
}  // namespace weig::test
