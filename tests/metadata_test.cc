// SPDX-License-Identifier: Apache-2.0
#include <weig/metadata.h>

#include <gtest/gtest.h>

#include "image.h"

namespace weig::test {
namespace {

TEST(Metadata, reads_and_writes_every_kind_of_value) {
  const std::string text =
      R"({"format":"pt","n":{"type":"u32","value":7},"f":{"type":"f64","value":0.1},)"
      R"("inf":{"type":"f32","value":"inf"},"b":{"type":"bool","value":true},)"
      R"("a":{"type":"array","of":"string","value":["x","y"]},)"
      R"("j":{"type":"json","value":{"k":[1,null]}},"raw":{"hex":"ff00"},"":""})";
  const Metadata metadata = Metadata::parse(text).value();
  EXPECT_EQ(metadata.entries().size(), 9u);
  EXPECT_EQ(metadata.find("n")->value, "7");
  EXPECT_EQ(metadata.find("a")->element_type, "string");
  EXPECT_EQ(metadata.find("j")->value, R"({"k":[1,null]})");
  EXPECT_TRUE(metadata.find("raw")->hex);
  EXPECT_EQ(metadata.find("missing"), nullptr);
  EXPECT_EQ(metadata.text(), text);
}

TEST(Metadata, takes_every_value_of_a_type) {
  for (const char* entry :
       {R"("type":"u8","value":255)", R"("type":"i8","value":-128)",
        R"("type":"u64","value":18446744073709551615)",
        R"("type":"i64","value":-9223372036854775808)", R"("type":"f32","value":1e-45)",
        R"("type":"f64","value":-1.5e300)", R"("type":"f64","value":"nan")",
        R"("type":"bool","value":false)", R"("type":"json","value":null)",
        R"("type":"array","of":"u8","value":[])",
        R"("type":"array","of":"string","value":["a,]","\"",{"hex":"ff"}])",
        R"("type":"array","of":"array","value":[[1,2],[],["x"]])",
        R"("type":"array","of":"f32","value":["inf",0,-0.5])"}) {
    const std::string text = std::string(R"({"a":{)") + entry + "}}";
    const auto metadata = Metadata::parse(text);
    ASSERT_TRUE(metadata) << metadata.error().message();
    EXPECT_EQ(metadata->text(), text);
  }
}

TEST(Metadata, respells_strings_in_one_way) {
  const Metadata metadata =
      Metadata::parse("{ \"k\\u00e9\" : \"\\/ \\u0041\\u000a\" }").value();
  EXPECT_EQ(metadata.text(), "{\"k\xC3\xA9\":\"/ A\\n\"}");
}

TEST(Metadata, set_and_remove) {
  Metadata metadata = Metadata::parse(R"({"a":"1","b":"2"})").value();
  metadata.set("a", "3");
  metadata.set("c", "\"");
  EXPECT_TRUE(metadata.remove("b"));
  EXPECT_FALSE(metadata.remove("b"));
  EXPECT_EQ(metadata.text(), R"({"a":"3","c":"\""})");
}

struct Bad {
  const char* name;
  const char* text;
  const char* says;
};

class MetadataRefuses : public testing::TestWithParam<Bad> {};

TEST_P(MetadataRefuses, it) {
  const auto metadata = Metadata::parse(GetParam().text);
  ASSERT_FALSE(metadata);
  EXPECT_NE(metadata.error().message().find(GetParam().says), std::string::npos)
      << metadata.error().message();
}

INSTANTIATE_TEST_SUITE_P(
    Forms, MetadataRefuses,
    testing::Values(
        Bad{"empty", "", "metadata"}, Bad{"array", "[]", "no JSON object"},
        Bad{"open", R"({"a":"b")", "metadata"},
        Bad{"twice", R"({"a":"1","a":"2"})", "there twice"},
        Bad{"twice_by_escape", R"({"a":"1","\u0061":"2"})", "there twice"},
        Bad{"number", R"({"a":1})", "neither a string nor a typed value"},
        Bad{"null", R"({"a":null})", "neither a string nor a typed value"},
        Bad{"unknown_type", R"({"a":{"type":"u128","value":1}})", "not a typed value"},
        Bad{"no_value", R"({"a":{"type":"u8"}})", "not a typed value"},
        Bad{"no_type", R"({"a":{"value":1}})", "not a typed value"},
        Bad{"extra", R"({"a":{"type":"u8","value":1,"x":"y"}})", "do not have"},
        Bad{"nested_twice", R"({"a":{"type":"json","value":{"x":1,"x":2}}})",
            "key twice"},
        Bad{"bad_null", R"({"a":{"type":"json","value":[nul]}})", "a JSON value"},
        Bad{"array_without_of", R"({"a":{"type":"array","value":[]}})", "element type"},
        Bad{"hex_of_other_letters", R"({"a":{"hex":"zz"}})", "no hexadecimal digits"},
        Bad{"hex_of_half_a_byte", R"({"a":{"hex":"abc"}})", "no hexadecimal digits"},
        Bad{"hex_that_ends_its_string", R"({"a":{"hex":"\"},\"b\":{\"hex\":\""}})",
            "no hexadecimal digits"},
        Bad{"number_out_of_range", R"({"a":{"type":"u8","value":300}})",
            "a value of another type"},
        Bad{"negative", R"({"a":{"type":"u32","value":-1}})", "another type"},
        Bad{"fraction", R"({"a":{"type":"i32","value":1.5}})", "another type"},
        Bad{"text_for_a_number", R"({"a":{"type":"u32","value":"7"}})", "another type"},
        Bad{"text_for_a_float", R"({"a":{"type":"f32","value":"x"}})", "another type"},
        Bad{"number_for_a_bool", R"({"a":{"type":"bool","value":1}})", "another type"},
        Bad{"number_for_a_string", R"({"a":{"type":"string","value":1}})",
            "another type"},
        Bad{"object_for_an_array", R"({"a":{"type":"array","of":"u8","value":{}}})",
            "another type"},
        Bad{"element_of_another_type",
            R"({"a":{"type":"array","of":"u8","value":[1,2,"],",256]}})",
            "another type"},
        Bad{"last_element", R"({"a":{"type":"array","of":"u8","value":[1,256]}})",
            "found '256'"},
        Bad{"trailing", R"({"a":"b"} {})", "goes on after"},
        Bad{"utf8", "{\"a\":\"\xFF\"}", "metadata"}),
    [](const auto& row) { return std::string(row.param.name); });

TEST(Metadata, depth_and_size_are_limited) {
  std::string deep = R"({"a":{"type":"json","value":)";
  for (int i = 0; i < 100; ++i) deep += '[';
  for (int i = 0; i < 100; ++i) deep += ']';
  deep += "}}";
  EXPECT_EQ(Metadata::parse(deep).error().code(), Code::limit);
  for (const std::uint32_t depth : {0u, 1u, 2u, 99u})
    EXPECT_EQ(Metadata::parse(deep, {.max_depth = depth}).error().code(), Code::limit);
  EXPECT_EQ(Metadata::parse("{}", {.max_bytes = 1}).error().code(), Code::limit);
  EXPECT_TRUE(Metadata::parse(deep, {.max_depth = 200}));
}

}  // namespace
}  // namespace weig::test
