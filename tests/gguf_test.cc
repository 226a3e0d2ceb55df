// SPDX-License-Identifier: Apache-2.0
// Reading GGUF headers: what they may hold, and one row for each refusal of
// docs/gguf.md.
#include "formats/gguf.h"

#include <gtest/gtest.h>

#include <algorithm>

#include <weig/metadata.h>

#include "bytes_input.h"
#include "gguf_image.h"

namespace weig::test {
namespace {

// "t" of f32 [2,3], "u" of f16 [4], and one key.
GgufImage two_tensors() {
  GgufImage image;
  image.keys = {GgufBytes().string("general.name").u32(8).string("two").out,
                key_u32("general.count", 2)};
  image.tensors = {{.name = "t", .dims = {3, 2}},
                   {.name = "u", .dims = {4}, .type = 1, .offset = 32}};
  image.data = std::string(24, 't') + std::string(8, '\0') + std::string(8, 'u') +
               std::string(24, '\0');
  return image;
}

Result<GgufHeader> read(const GgufImage& image,
                        Strictness strictness = Strictness::strict) {
  const auto bytes = image.bytes();
  return read_gguf(input_over(bytes), {.strictness = strictness});
}

TEST(Gguf, tells_of_tensors_and_keys) {
  const GgufImage image = two_tensors();
  const auto header = read(image);
  ASSERT_TRUE(header) << header.error().message();
  const Manifest& manifest = header->manifest;
  ASSERT_EQ(manifest.entries().size(), 2u);
  const Manifest::Entry& t = manifest.entries()[0];
  EXPECT_EQ(manifest.name(t), "t");
  EXPECT_EQ(t.dtype, Dtype::f32);
  EXPECT_TRUE(std::ranges::equal(manifest.shape(t), std::vector<std::uint64_t>{2, 3}));
  EXPECT_EQ(t.begin, manifest.data_begin);
  EXPECT_EQ(manifest.entries()[1].begin, manifest.data_begin + 32);
  EXPECT_EQ(manifest.metadata,
            R"({"general.name":"two","general.count":{"type":"u32","value":2}})");
  EXPECT_TRUE(manifest.covers_file);
  EXPECT_EQ(header->alignment, 32u);
  EXPECT_FALSE(header->split);
  const auto bytes = image.bytes();
  EXPECT_TRUE(has_zero_padding(input_over(bytes), manifest).value());
  for (const std::size_t at : {24u, 40u}) {
    auto other = bytes;
    other[manifest.data_begin + at] = std::byte{1};
    EXPECT_FALSE(has_zero_padding(input_over(other), manifest).value());
  }
}

TEST(Gguf, keeps_every_type_of_value) {
  GgufImage image;
  GgufBytes all;
  all.string("u8").u32(0).u8(255);
  all.string("i8").u32(1).u8(255);
  all.string("u16").u32(2).u16(65535);
  all.string("i16").u32(3).u16(65535);
  all.string("u32").u32(4).u32(0xFFFFFFFF);
  all.string("i32").u32(5).u32(0xFFFFFFFF);
  all.string("f32").u32(6).u32(0x3DCCCCCD);
  all.string("yes").u32(7).u8(1);
  all.string("no").u32(7).u8(0);
  all.string("string").u32(8).string("a \"b\"\n\xC3\xA9");
  all.string("bytes").u32(8).string("\xFF\x80z");
  all.string("u64").u32(10).u64(UINT64_MAX);
  all.string("i64").u32(11).u64(UINT64_MAX);
  all.string("f64").u32(12).u64(0x3FB999999999999A);
  all.string("nan").u32(6).u32(0x7FC00000);
  all.string("inf").u32(6).u32(0x7F800000);
  all.string("-inf").u32(12).u64(0xFFF0000000000000);
  all.string("none").u32(9).u32(4).u64(0);
  all.string("three").u32(9).u32(5).u64(3).u32(1).u32(0xFFFFFFFE).u32(3);
  all.string("texts").u32(9).u32(8).u64(2).string("x").string("\xFF");
  all.string("nested").u32(9).u32(9).u64(2).u32(0).u64(2).u8(1).u8(2).u32(7).u64(1).u8(
      1);
  image.keys = {all.out};
  image.more_keys = 20;
  const auto header = read(image);
  ASSERT_TRUE(header) << header.error().message();
  const std::string expected =
      R"({"u8":{"type":"u8","value":255},"i8":{"type":"i8","value":-1},)"
      R"("u16":{"type":"u16","value":65535},"i16":{"type":"i16","value":-1},)"
      R"("u32":{"type":"u32","value":4294967295},"i32":{"type":"i32","value":-1},)"
      R"("f32":{"type":"f32","value":0.1},"yes":{"type":"bool","value":true},)"
      R"("no":{"type":"bool","value":false},"string":"a \"b\"\n)"
      "\xC3\xA9"
      R"(","bytes":{"hex":"ff807a"},"u64":{"type":"u64","value":18446744073709551615},)"
      R"("i64":{"type":"i64","value":-1},"f64":{"type":"f64","value":0.1},)"
      R"("nan":{"type":"f32","value":"nan"},"inf":{"type":"f32","value":"inf"},)"
      R"("-inf":{"type":"f64","value":"-inf"},)"
      R"("none":{"type":"array","of":"u32","value":[]},)"
      R"("three":{"type":"array","of":"i32","value":[1,-2,3]},)"
      R"("texts":{"type":"array","of":"string","value":["x",{"hex":"ff"}]},)"
      R"("nested":{"type":"array","of":"array","value":[[1,2],[true]]}})";
  EXPECT_EQ(header->manifest.metadata, expected);
  EXPECT_TRUE(Metadata::parse(expected));
}

TEST(Gguf, reads_the_other_byte_order) {
  GgufImage image;
  image.order = ByteOrder::big;
  image.keys = {image.bytes_in_order().string("x").u32(4).u32(7).out};
  image.tensors = {{.name = "t", .dims = {3, 2}}};
  image.data = std::string(24, 't');
  const auto header = read(image);
  ASSERT_TRUE(header) << header.error().message();
  EXPECT_TRUE(header->manifest.big_endian);
  EXPECT_EQ(header->manifest.metadata, R"({"x":{"type":"u32","value":7}})");
  EXPECT_EQ(header->manifest.entries()[0].size, 24u);
}

TEST(Gguf, takes_any_alignment) {
  for (const std::uint32_t alignment : {1u, 8u, 64u, 4096u}) {
    GgufImage image;
    image.keys = {key_u32("general.alignment", alignment)};
    image.alignment = alignment;
    image.tensors = {{.name = "a", .dims = {3}, .type = 24},
                     {.name = "b", .dims = {1}, .offset = align_up(3, alignment)}};
    image.data = std::string(align_up(3, alignment), '\0') + "bbbb";
    const auto header = read(image);
    ASSERT_TRUE(header) << alignment << header.error().message();
    EXPECT_EQ(header->alignment, alignment);
    EXPECT_TRUE(header->manifest.covers_file);
  }
}

TEST(Gguf, takes_few_and_no_dimensions) {
  GgufImage image;
  image.tensors = {{.name = "scalar", .dims = {}},
                   {.name = "empty", .dims = {0, 3}, .offset = 32},
                   {.name = "four", .dims = {1, 2, 1, 2}, .type = 24, .offset = 32}};
  image.data = std::string(36, '\1');
  const auto header = read(image);
  ASSERT_TRUE(header) << header.error().message();
  EXPECT_EQ(header->manifest.entries().size(), 3u);
  GgufImage none;
  EXPECT_EQ(read(none).value().manifest.data_begin, 24u);
  none.version = 2;
  EXPECT_TRUE(read(none));
  // Where nothing has bytes, the file may end before data would begin.
  GgufImage markers;
  markers.tensors = {{.name = "m", .dims = {0}}};
  markers.alignment = 1;
  EXPECT_TRUE(read(markers));
}

TEST(Gguf, tells_which_part_it_is) {
  GgufImage image = two_tensors();
  image.keys = {GgufBytes().string("split.no").u32(2).u16(1).out,
                GgufBytes().string("split.count").u32(2).u16(3).out,
                GgufBytes().string("split.tensors.count").u32(5).u32(9).out};
  const auto header = read(image);
  ASSERT_TRUE(header) << header.error().message();
  ASSERT_TRUE(header->split);
  EXPECT_EQ(header->split->number, 1u);
  EXPECT_EQ(header->split->count, 3u);
  EXPECT_EQ(header->split->tensors, 9u);
}

TEST(Gguf, numbers_types_as_ggml_does) {
  EXPECT_EQ(ggml_type_number(Dtype::q4_k), 12u);
  EXPECT_EQ(ggml_type_number(Dtype::bf16), 30u);
  EXPECT_FALSE(ggml_type_number(Dtype::boolean));
  for (std::uint32_t i = 0; i < 100; ++i)
    if (const auto dtype = ggml_type_numbered(i)) {
      EXPECT_EQ(ggml_type_number(*dtype), i);
    }
  EXPECT_FALSE(ggml_type_numbered(0x2000));
  EXPECT_FALSE(ggml_type_numbered(0x1000));
}

struct Refusal {
  const char* row;
  const char* says;
  Code code;
  bool lenient;  // which accepts it
  void (*change)(GgufImage& image);
};

class GgufRefusal : public testing::TestWithParam<Refusal> {};

TEST_P(GgufRefusal, names_what_is_wrong) {
  GgufImage image = two_tensors();
  GetParam().change(image);
  const auto header = read(image);
  ASSERT_FALSE(header);
  EXPECT_EQ(header.error().code(), GetParam().code) << header.error().message();
  EXPECT_NE(header.error().message().find(GetParam().says), std::string::npos)
      << header.error().message();
  const auto lenient = read(image, Strictness::lenient);
  EXPECT_EQ(lenient.has_value(), GetParam().lenient);
  if (lenient) {
    EXPECT_FALSE(lenient->manifest.covers_file);
    EXPECT_FALSE(lenient->manifest.warnings.empty());
  }
}

constexpr auto kCorrupt = Code::corrupt;
constexpr auto kUnsupported = Code::unsupported;
constexpr bool kNever = false;
constexpr bool kLenient = true;

INSTANTIATE_TEST_SUITE_P(
    All, GgufRefusal,
    testing::Values(
        Refusal{"gguf_mark", "does not begin with GGUF", kCorrupt, kNever,
                [](GgufImage& i) { i.mark = "GGUG"; }},
        Refusal{"gguf_version_1", "a version of GGUF", kUnsupported, kNever,
                [](GgufImage& i) { i.version = 1; }},
        Refusal{"gguf_version_4", "a version of GGUF", kUnsupported, kNever,
                [](GgufImage& i) { i.version = 4; }},
        Refusal{"gguf_key_count", "ends inside its header", kCorrupt, kNever,
                [](GgufImage& i) { i.more_keys = std::uint64_t{1} << 60; }},
        Refusal{"gguf_tensor_count", "ends inside its header", kCorrupt, kNever,
                [](GgufImage& i) { i.more_tensors = std::uint64_t{1} << 60; }},
        Refusal{"gguf_string_length", "ends inside its header", kCorrupt, kNever,
                [](GgufImage& i) {
                  i.keys[0] = GgufBytes().u64(UINT64_MAX).out + std::string(20, 'k');
                }},
        Refusal{"gguf_array_count", "ends inside its header", kCorrupt, kNever,
                [](GgufImage& i) {
                  i.keys[0] =
                      GgufBytes().string("k").u32(9).u32(4).u64(UINT64_MAX / 2).out;
                }},
        Refusal{"gguf_key_text", "a key is not UTF-8", kCorrupt, kNever,
                [](GgufImage& i) {
                  i.keys[0] = GgufBytes().string("\xFF").u32(0).u8(1).out;
                }},
        Refusal{"gguf_key_twice", "a key is there twice", kCorrupt, kNever,
                [](GgufImage& i) { i.keys.push_back(i.keys[0]); }},
        Refusal{"gguf_value_type", "a type of values", kUnsupported, kNever,
                [](GgufImage& i) {
                  i.keys[0] = GgufBytes().string("k").u32(13).u64(0).out;
                }},
        Refusal{"gguf_array_type", "a type of values", kUnsupported, kNever,
                [](GgufImage& i) {
                  i.keys[0] = GgufBytes().string("k").u32(9).u32(77).u64(0).out;
                }},
        Refusal{"gguf_truth_value", "neither 0 nor 1", kCorrupt, kNever,
                [](GgufImage& i) {
                  const std::string two = GgufBytes().string("k").u32(7).u8(2).out;
                  i.keys[0] = two;
                }},
        Refusal{"gguf_deep_arrays", "nested more deeply", Code::limit, kNever,
                [](GgufImage& i) {
                  GgufBytes key;
                  key.string("k").u32(9);
                  for (int d = 0; d < 40; ++d) key.u32(9).u64(1);
                  i.keys[0] = key.u32(0).u64(0).out;
                }},
        Refusal{"gguf_alignment_of_3", "no power of two", kCorrupt, kNever,
                [](GgufImage& i) { i.keys[0] = key_u32("general.alignment", 3); }},
        Refusal{"gguf_alignment_of_0", "no power of two", kCorrupt, kNever,
                [](GgufImage& i) { i.keys[0] = key_u32("general.alignment", 0); }},
        Refusal{"gguf_alignment_type", "no power of two", kCorrupt, kNever,
                [](GgufImage& i) {
                  i.keys[0] =
                      GgufBytes().string("general.alignment").u32(10).u64(32).out;
                }},
        Refusal{"gguf_split_number", "which of the parts", kCorrupt, kNever,
                [](GgufImage& i) {
                  i.keys = {key_u32("split.no", 3), key_u32("split.count", 3),
                            key_u32("split.tensors.count", 2)};
                }},
        Refusal{"gguf_split_without_number", "which of the parts", kCorrupt, kNever,
                [](GgufImage& i) {
                  i.keys = {key_u32("split.count", 3),
                            key_u32("split.tensors.count", 2)};
                }},
        Refusal{"gguf_split_tensors", "how many tensors there are", kCorrupt, kNever,
                [](GgufImage& i) {
                  i.keys = {key_u32("split.no", 0), key_u32("split.count", 3)};
                }},
        Refusal{"gguf_name_too_long", "name is too long", kCorrupt, kNever,
                [](GgufImage& i) { i.tensors[0].name = std::string(65'536, 'n'); }},
        Refusal{"gguf_name_text", "name is no text", kCorrupt, kNever,
                [](GgufImage& i) { i.tensors[0].name = "\xC3"; }},
        Refusal{"gguf_name_with_nul", "name is no text", kCorrupt, kNever,
                [](GgufImage& i) { i.tensors[0].name = std::string("a\0b", 3); }},
        Refusal{"gguf_equal_names", "the same name", kCorrupt, kNever,
                [](GgufImage& i) { i.tensors[1].name = "t"; }},
        Refusal{"gguf_five_dimensions", "more dimensions", kCorrupt, kNever,
                [](GgufImage& i) { i.tensors[0].dims = {3, 2, 1, 1, 1}; }},
        Refusal{"gguf_unknown_type", "does not know", kUnsupported, kNever,
                [](GgufImage& i) { i.tensors[0].type = 999; }},
        Refusal{"gguf_removed_type", "GGML has removed", kUnsupported, kNever,
                [](GgufImage& i) { i.tensors[0].type = 31; }},
        Refusal{"gguf_row_of_33", "last dimension", kCorrupt, kNever,
                [](GgufImage& i) {
                  i.tensors[1].dims = {33, 2};
                  i.tensors[1].type = 8;
                }},
        Refusal{"gguf_too_many_elements", "above 2^56", kCorrupt, kNever,
                [](GgufImage& i) {
                  i.tensors[1].dims = {std::uint64_t{1} << 40, std::uint64_t{1} << 40};
                }},
        Refusal{"gguf_big_endian_blocks", "blocks in a big-endian file", kUnsupported,
                kNever,
                [](GgufImage& i) {
                  i.order = ByteOrder::big;
                  i.keys.clear();
                  i.tensors[1].dims = {32};
                  i.tensors[1].type = 8;
                }},
        Refusal{"gguf_big_endian_two_widths", "elements of different widths",
                kUnsupported, kNever,
                [](GgufImage& i) {
                  i.order = ByteOrder::big;
                  i.keys.clear();
                  i.tensors[0].dims = {2};
                  i.tensors[1].offset = 0;
                }},
        Refusal{"gguf_off_alignment", "on the file's alignment", kCorrupt, kNever,
                [](GgufImage& i) { i.tensors[1].offset = 48; }},
        Refusal{"gguf_data_outside", "data lies outside the file", kCorrupt, kNever,
                [](GgufImage& i) { i.data.resize(39); }},
        Refusal{"gguf_data_far_outside", "data lies outside the file", kCorrupt, kNever,
                [](GgufImage& i) { i.tensors[1].offset = 0 - std::uint64_t{32}; }},
        Refusal{"gguf_partial_overlap", "overlaps that of tensor", kCorrupt, kNever,
                [](GgufImage& i) { i.tensors[1].offset = 0; }},
        Refusal{"gguf_same_bytes", "has the same bytes", kCorrupt, kLenient,
                [](GgufImage& i) {
                  i.tensors[1] = i.tensors[0];
                  i.tensors[1].name = "u";
                  i.data.resize(32);
                }},
        Refusal{"gguf_hole", "a hole of 32 bytes", kCorrupt, kLenient,
                [](GgufImage& i) {
                  i.tensors[1].offset = 64;
                  i.data.insert(32, std::string(32, '\0'));
                }},
        Refusal{"gguf_trailing", "1 byte after the last tensor", kCorrupt, kLenient,
                [](GgufImage& i) { i.data += 'x'; }},
        Refusal{"gguf_joined_by_cat", "keep them apart", kCorrupt, kLenient,
                [](GgufImage& i) { i.data += "GGUF and so on"; }}),
    [](const auto& test) { return std::string(test.param.row); });

TEST(Gguf, has_limits) {
  const auto bytes = two_tensors().bytes();
  const auto long_header = read_gguf(input_over(bytes), {.max_header_bytes = 40});
  ASSERT_FALSE(long_header);
  EXPECT_EQ(long_header.error().code(), Code::limit);
  EXPECT_NE(long_header.error().message().find("header is longer"), std::string::npos);
  // All before the second value; and one string.
  GgufImage one_text;
  one_text.keys = {GgufBytes().string("k").u32(8).string(std::string(20, 'x')).out};
  // Three escapes are longer than three bytes.
  GgufImage escapes;
  escapes.keys = {GgufBytes().string("k").u32(8).string("\1\1\1").out};
  GgufImage numbers;
  numbers.keys = {GgufBytes().string("k").u32(9).u32(0).u64(20).out +
                  std::string(20, '\1')};
  for (const auto& file : {bytes, one_text.bytes(), escapes.bytes(), numbers.bytes()}) {
    const auto long_text = read_gguf(input_over(file), {.max_metadata_bytes = 22});
    ASSERT_FALSE(long_text);
    EXPECT_EQ(long_text.error().code(), Code::limit);
    EXPECT_NE(long_text.error().message().find("more text than"), std::string::npos);
  }
}

TEST(Gguf, has_a_limit_of_one_text) {
  GgufImage one_text;
  one_text.keys = {GgufBytes().string("k").u32(8).string(std::string(20, 'x')).out};
  const auto bytes = one_text.bytes();
  const auto refused = read_gguf(input_over(bytes), {.max_metadata_bytes = 14});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), Code::limit);
  EXPECT_NE(refused.error().message().find("a text is longer"), std::string::npos);
}

TEST(Gguf, values_that_are_cut) {
  for (std::uint32_t type = 0; type < 13; ++type)
    for (const bool in_array : {false, true}) {
      GgufBytes key;
      key.string("k").u32(in_array ? 9 : type);
      if (in_array) key.u32(type).u64(1);
      GgufImage image;
      image.keys = {key.out};
      const auto header = read(image);
      ASSERT_FALSE(header) << type;
      EXPECT_NE(header.error().message().find("ends inside its header"),
                std::string::npos);
    }
}

TEST(Gguf, cut_anywhere_is_refused) {
  const auto bytes = two_tensors().bytes();
  for (std::size_t length = 0; length < bytes.size() - 24; ++length) {
    const std::vector<std::byte> cut(bytes.begin(),
                                     bytes.begin() + static_cast<long>(length));
    ASSERT_FALSE(read_gguf(input_over(cut))) << length;
  }
  const auto none = read_gguf(input_over(Bytes()));
  EXPECT_NE(none.error().message().find("shorter than a GGUF header"),
            std::string::npos);
}

TEST(Gguf, passes_failed_reads_on) {
  const auto bytes = two_tensors().bytes();
  const Input whole = input_over(bytes);
  const auto header = read_gguf(whole).value();
  for (int allowed = 0; allowed < 2; ++allowed) {
    int calls = 0;
    const Input input{.size = bytes.size(),
                      .read = [&](std::uint64_t at, MutableBytes out) -> Status {
                        if (calls++ == allowed)
                          return Error(Code::io, "the disk failed");
                        return whole.read(at, out);
                      }};
    const auto got = read_gguf(input);
    ASSERT_FALSE(got) << allowed;
    EXPECT_EQ(got.error().code(), Code::io);
    calls = 0;
    const auto zero = has_zero_padding(input, header.manifest);
    ASSERT_FALSE(zero);
    EXPECT_EQ(zero.error().code(), Code::io);
  }
}

}  // namespace
}  // namespace weig::test
