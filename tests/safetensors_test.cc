// SPDX-License-Identifier: Apache-2.0
// Reading safetensors headers: one row for each refusal of docs/safetensors.md.
#include "formats/safetensors.h"

#include <gtest/gtest.h>

#include "image.h"

namespace weig::test {
namespace {

Result<Manifest> read(std::string_view json, std::uint64_t data_bytes,
                      Strictness strictness = Strictness::strict) {
  std::vector<std::byte> padded = to_bytes(json);
  padded.resize(json.size() + kJsonPadding);
  return read_safetensors(padded, json.size(), 8 + json.size() + data_bytes,
                          {.strictness = strictness});
}

// A header entry.
std::string entry(const std::string& name, const std::string& dtype,
                  const std::string& shape, const std::string& offsets) {
  return "\"" + name + "\":{\"dtype\":\"" + dtype + "\",\"shape\":" + shape +
         ",\"data_offsets\":" + offsets + "}";
}

TEST(Safetensors, reads_what_the_reference_writes) {
  const Manifest manifest = read("{\"__metadata__\":{\"format\":\"pt\"}," +
                                     entry("w", "F32", "[2,3]", "[0,24]") + "," +
                                     entry("s", "I64", "[]", "[24,32]") + "," +
                                     entry("e", "F16", "[0,4]", "[32,32]") + "}   ",
                                 32)
                                .value();
  ASSERT_EQ(manifest.entries().size(), 3u);
  EXPECT_EQ(manifest.name(manifest.entries()[0]), "w");
  EXPECT_EQ(manifest.shape(manifest.entries()[0])[1], 3u);
  EXPECT_EQ(*manifest.metadata, R"({"format":"pt"})");
  EXPECT_TRUE(manifest.covers_file);
}

// C04
TEST(Safetensors, absent_and_empty_metadata_differ) {
  EXPECT_FALSE(read("{}", 0)->metadata);
  EXPECT_EQ(*read(R"({"__metadata__":{}})", 0)->metadata, "{}");
}

// A header whose one entry has another key with this value, which is passed over if it
// is JSON.
std::string other_key(const std::string& value) {
  return R"({"a":{"x":)" + value +
         R"(,"dtype":"U8","shape":[1],"data_offsets":[0,1]}})";
}

// Metadata of 40 keys and `last`.
std::string many_keys(const std::string& last) {
  std::string json = R"({"__metadata__":{)";
  for (int i = 0; i < 40; ++i) json += "\"k" + std::to_string(i) + R"(":"",)";
  return json + "\"" + last + R"(":""}})";
}

TEST(Safetensors, passes_over_other_keys_that_are_json) {
  EXPECT_TRUE(read(other_key(R"({"k":[1,-2.5e3,true,false,null,"\u0041",{}]})"), 1));
  EXPECT_TRUE(read(other_key(std::string(63, '[') + std::string(63, ']')), 1));
  EXPECT_TRUE(read(many_keys("k40"), 0));
}

struct Bad {
  const char* name;
  std::string json;
  std::uint64_t data_bytes;
  Code code;
  const char* says;
  bool lenient_accepts = false;
};

const std::vector<Bad>& bad_headers() {
  const std::string whole = entry("a", "F32", "[2]", "[0,8]");
  static const std::vector<Bad> all = {
      {"not_an_object", "[]", 0, Code::corrupt, "does not start with {"},
      {"cut_json", "{" + whole, 8, Code::corrupt, "a name in the header"},
      {"trailing_text", "{" + whole + "}{}", 8, Code::corrupt, "goes on after"},
      {"trailing_comma", "{" + whole + ",}", 8, Code::corrupt, "a name in the header"},
      {"utf8", "{\"\xFF\":1}", 0, Code::corrupt, "the header's JSON"},
      {"equal_names", "{" + whole + "," + entry("a", "F32", "[2]", "[8,16]") + "}", 16,
       Code::corrupt, "same name"},
      {"equal_names_by_escape",
       "{" + whole + "," + entry("\\u0061", "F32", "[2]", "[8,16]") + "}", 16,
       Code::corrupt, "same name"},
      {"name_with_nul", "{" + entry("a\\u0000", "F32", "[2]", "[0,8]") + "}", 8,
       Code::corrupt, "NUL"},
      {"name_too_long",
       "{" + entry(std::string(65'536, 'n'), "U8", "[1]", "[0,1]") + "}", 1,
       Code::corrupt, "too long"},
      {"entry_is_no_object", R"({"a":1})", 0, Code::corrupt, "no object"},
      {"no_dtype", R"({"a":{"shape":[],"data_offsets":[0,0]}})", 0, Code::corrupt,
       "no dtype"},
      {"no_shape", R"({"a":{"dtype":"U8","data_offsets":[0,0]}})", 0, Code::corrupt,
       "no shape"},
      {"no_offsets", R"({"a":{"dtype":"U8","shape":[0]}})", 0, Code::corrupt,
       "no data_offsets"},
      {"dtype_twice",
       R"({"a":{"dtype":"U8","dtype":"I8","shape":[],"data_offsets":[0,1]}})", 1,
       Code::corrupt, "dtype twice"},
      {"shape_twice",
       R"({"a":{"dtype":"U8","shape":[],"shape":[],"data_offsets":[0,1]}})", 1,
       Code::corrupt, "shape twice"},
      {"offsets_twice",
       R"({"a":{"dtype":"U8","shape":[],"data_offsets":[0,1],"data_offsets":[0,1]}})",
       1, Code::corrupt, "data_offsets twice"},
      {"unknown_dtype", "{" + entry("a", "F7_X", "[1]", "[0,1]") + "}", 1,
       Code::unsupported, "F7_X"},
      {"rank_65",
       "{" +
           entry(
               "a", "U8",
               "[1" +
                   [] {
                     std::string ones;
                     for (int i = 0; i < 64; ++i) ones += ",1";
                     return ones;
                   }() +
                   "]",
               "[0,1]") +
           "}",
       1, Code::corrupt, "too many numbers"},
      {"negative_dimension", "{" + entry("a", "U8", "[-1]", "[0,1]") + "}", 1,
       Code::corrupt, "no whole number"},
      {"fraction", "{" + entry("a", "U8", "[1.5]", "[0,1]") + "}", 1, Code::corrupt,
       "no whole number"},
      {"above_64_bits", "{" + entry("a", "U8", "[18446744073709551616]", "[0,1]") + "}",
       1, Code::corrupt, "no whole number"},
      {"product_overflow",
       "{" + entry("a", "U8", "[4294967296,4294967296]", "[0,0]") + "}", 0,
       Code::corrupt, "2^56"},
      {"one_offset", "{" + entry("a", "U8", "[1]", "[0]") + "}", 1, Code::corrupt,
       "data_offsets"},
      {"three_offsets", "{" + entry("a", "U8", "[1]", "[0,1,2]") + "}", 1,
       Code::corrupt, "too many numbers"},
      {"begin_after_end", "{" + entry("a", "U8", "[1]", "[1,0]") + "}", 1,
       Code::corrupt, "end before they begin"},
      {"beyond_the_file", "{" + entry("a", "U8", "[2]", "[0,2]") + "}", 1,
       Code::corrupt, "outside the file"},
      {"size_differs", "{" + entry("a", "F32", "[1000,1000]", "[0,4]") + "}", 4,
       Code::corrupt, "differ from what dtype and shape imply"},
      {"size_one_too_long", "{" + entry("a", "U8", "[1]", "[0,2]") + "}", 2,
       Code::corrupt, "differ from what"},
      {"half_a_byte", "{" + entry("a", "F4", "[3]", "[0,2]") + "}", 2, Code::corrupt,
       "whole bytes"},
      {"partial_overlap",
       "{" + entry("a", "U8", "[4]", "[0,4]") + "," + entry("b", "U8", "[4]", "[2,6]") +
           "}",
       6, Code::corrupt, "overlaps"},
      {"same_begin",
       "{" + entry("a", "U8", "[4]", "[0,4]") + "," + entry("b", "U8", "[6]", "[0,6]") +
           "}",
       6, Code::corrupt, "overlaps"},
      {"empty_inside_another",
       "{" + entry("a", "U8", "[4]", "[0,4]") + "," + entry("b", "U8", "[0]", "[2,2]") +
           "}",
       4, Code::corrupt, "inside another"},
      {"hole",
       "{" + entry("a", "U8", "[4]", "[0,4]") + "," +
           entry("b", "U8", "[4]", "[8,12]") + "}",
       12, Code::corrupt, "hole of 4 bytes", true},
      {"hole_at_the_start", "{" + entry("a", "U8", "[4]", "[4,8]") + "}", 8,
       Code::corrupt, "hole of 4 bytes", true},
      {"trailing_bytes", "{" + entry("a", "U8", "[4]", "[0,4]") + "}", 5, Code::corrupt,
       "1 byte after", true},
      {"same_range",
       "{" + entry("a", "U8", "[4]", "[0,4]") + "," + entry("b", "U8", "[4]", "[0,4]") +
           "}",
       4, Code::corrupt, "same bytes", true},
      {"metadata_number", R"({"__metadata__":{"k":0}})", 0, Code::corrupt,
       "'k' is not a string", true},
      {"metadata_null", R"({"__metadata__":{"k":null}})", 0, Code::corrupt,
       "'k' is not a string", true},
      {"metadata_object", R"({"__metadata__":{"k":{"a":1}}})", 0, Code::corrupt,
       "'k' is not a string", true},
      {"metadata_twice", R"({"__metadata__":{},"__metadata__":{}})", 0, Code::corrupt,
       "__metadata__ twice"},
      {"metadata_key_twice", R"({"__metadata__":{"k":"1","k":"2"}})", 0, Code::corrupt,
       "key twice"},
      {"metadata_key_twice_of_many", many_keys("k7"), 0, Code::corrupt, "key twice"},
      {"metadata_is_no_object", R"({"__metadata__":[1]})", 0, Code::corrupt,
       "no object"},
      {"metadata_bad_key", R"({"__metadata__":{"\x":"1"}})", 0, Code::corrupt,
       "a key in __metadata__"},
      {"metadata_bad_string", R"({"__metadata__":{"k":"\x"}})", 0, Code::corrupt,
       "a JSON value"},
      {"metadata_no_value", R"({"__metadata__":{"k":}})", 0, Code::corrupt,
       "__metadata__ 'k':"},
      {"unclosed", R"({"a":{"dtype":"U8")", 0, Code::corrupt, "JSON"},
      {"unclosed_text", R"({"a)", 0, Code::corrupt, "JSON"},
      {"name_bad_escape", R"({"\x":{}})", 0, Code::corrupt, "a name in the header"},
      {"no_value", R"({"a":})", 0, Code::corrupt, "header entry"},
      {"entry_bad_key", R"({"a":{"\x":1}})", 0, Code::corrupt,
       "a key of its header entry"},
      {"dtype_is_a_number", R"({"a":{"dtype":1}})", 0, Code::corrupt, "its dtype"},
      {"shape_is_a_number", R"({"a":{"shape":1}})", 0, Code::corrupt,
       "its shape is no list"},
      {"offsets_are_text", R"({"a":{"data_offsets":"01"}})", 0, Code::corrupt,
       "its data_offsets is no list"},
      {"other_bad_key", other_key(R"({"\x":1})"), 1, Code::corrupt,
       "a key in a JSON object"},
      {"other_key_twice", other_key(R"({"k":1,"k":2})"), 1, Code::corrupt,
       "a key twice"},
      {"other_no_value", other_key(R"({"k":})"), 1, Code::corrupt, "a JSON value"},
      {"other_bad_list", other_key("[1 2]"), 1, Code::corrupt, "JSON array"},
      {"other_bad_string", other_key(R"("\x")"), 1, Code::corrupt, "a JSON value"},
      {"other_bad_number", other_key("[01]"), 1, Code::corrupt, "a JSON number"},
      {"other_bad_truth", other_key("[tru]"), 1, Code::corrupt, "a JSON value"},
      {"other_bad_null", other_key("[nul]"), 1, Code::corrupt, "a JSON value"},
      {"other_bad_word", other_key("[x]"), 1, Code::corrupt, "a JSON value"},
      {"other_too_deep", other_key(std::string(64, '[') + std::string(64, ']')), 1,
       Code::limit, "too deep"},
  };
  return all;
}

class SafetensorsRefuses : public testing::TestWithParam<Bad> {};

TEST_P(SafetensorsRefuses, it) {
  const Bad& bad = GetParam();
  const auto strict = read(bad.json, bad.data_bytes);
  ASSERT_FALSE(strict);
  EXPECT_EQ(strict.error().code(), bad.code) << strict.error().message();
  EXPECT_NE(strict.error().message().find(bad.says), std::string::npos)
      << strict.error().message();
  const auto lenient = read(bad.json, bad.data_bytes, Strictness::lenient);
  EXPECT_EQ(lenient.has_value(), bad.lenient_accepts);
  if (lenient) {
    EXPECT_FALSE(lenient->warnings.empty());
  }
}

INSTANTIATE_TEST_SUITE_P(Headers, SafetensorsRefuses, testing::ValuesIn(bad_headers()),
                         [](const auto& row) { return std::string(row.param.name); });

// C45: checked before it is believed. The lengths that a file claims, of 10 bytes.
struct BadLength {
  const char* name;
  std::uint64_t length;
  Code code;
  const char* says;
  std::size_t file_size = 10;
};

const std::vector<BadLength>& bad_lengths() {
  static const std::vector<BadLength> all = {
      {"no_room_for_a_length", 2, Code::corrupt, "shorter than a safetensors header",
       7},
      {"length_past_the_end", 3, Code::corrupt, "longer than the file"},
      {"length_of_2_gib", 1ull << 31, Code::corrupt, "longer than the file"},
      {"length_that_wraps", UINT64_MAX - 7, Code::corrupt, "longer than the file"},
      {"length_0", 0, Code::corrupt, "too short to hold {}"},
      {"length_1", 1, Code::corrupt, "too short to hold {}"},
      {"length_above_the_limit", 200, Code::limit, "longer than allowed", 1000},
  };
  return all;
}

class SafetensorsLength : public testing::TestWithParam<BadLength> {};

TEST_P(SafetensorsLength, is_refused) {
  const BadLength& bad = GetParam();
  std::vector<std::byte> first(8);
  store(first.data(), bad.length);
  first.resize(std::min<std::size_t>(bad.file_size, 8));
  const auto length =
      safetensors_json_bytes(first, bad.file_size, {.max_header_bytes = 100});
  ASSERT_FALSE(length);
  EXPECT_EQ(length.error().code(), bad.code);
  EXPECT_NE(length.error().message().find(bad.says), std::string::npos)
      << length.error().message();
}

INSTANTIATE_TEST_SUITE_P(Lengths, SafetensorsLength, testing::ValuesIn(bad_lengths()),
                         [](const auto& row) { return std::string(row.param.name); });

TEST(Safetensors, shortest_header_is_two_bytes) {
  std::vector<std::byte> first(8);
  store(first.data(), std::uint64_t{2});
  EXPECT_EQ(safetensors_json_bytes(first, 10, {}).value(), 2u);
}

TEST(Safetensors, deep_json_and_long_numbers_are_refused_quickly) {
  EXPECT_FALSE(
      read("{\"a\":" + std::string(100'000, '[') + std::string(100'000, ']') + "}", 0));
  EXPECT_FALSE(read("{\"__metadata__\":{\"a\":" + std::string(100'000, '[') +
                        std::string(100'000, ']') + "}}",
                    0, Strictness::lenient));
  EXPECT_FALSE(read(
      "{" + entry("a", "U8", "[" + std::string(10'000'000, '1') + "]", "[0,1]") + "}",
      1));
}

TEST(Safetensors, order_in_the_header_is_irrelevant) {
  const Manifest manifest = read("{" + entry("b", "U8", "[4]", "[4,8]") + "," +
                                     entry("a", "U8", "[4]", "[0,4]") + "}",
                                 8)
                                .value();
  EXPECT_EQ(manifest.name(manifest.entries()[0]), "a");
}

}  // namespace
}  // namespace weig::test
