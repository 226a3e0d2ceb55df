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
      {"cut_json", "{" + whole, 8, Code::corrupt, "JSON"},
      {"trailing_text", "{" + whole + "}{}", 8, Code::corrupt, "goes on after"},
      {"trailing_comma", "{" + whole + ",}", 8, Code::corrupt, "header"},
      {"utf8", "{\"\xFF\":1}", 0, Code::corrupt, "header"},
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
       "1 bytes after", true},
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
      {"metadata_is_no_object", R"({"__metadata__":[1]})", 0, Code::corrupt,
       "no object"},
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

// C45
TEST(Safetensors, header_length_is_checked_before_it_is_believed) {
  const auto length = [](std::uint64_t value, std::uint64_t file_size,
                         std::uint64_t limit = 1 << 30) {
    std::vector<std::byte> first(8);
    store(first.data(), value);
    return safetensors_json_bytes(first, file_size, {.max_header_bytes = limit});
  };
  EXPECT_EQ(length(2, 10).value(), 2u);
  for (const std::uint64_t lie :
       {std::uint64_t{3}, std::uint64_t{1} << 31, std::uint64_t{1} << 63, UINT64_MAX})
    EXPECT_EQ(length(lie, 10).error().code(), Code::corrupt) << lie;
  EXPECT_EQ(length(0, 10).error().code(), Code::corrupt);
  EXPECT_EQ(length(1, 10).error().code(), Code::corrupt);
  EXPECT_EQ(length(200, 1000, 100).error().code(), Code::limit);
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
