// SPDX-License-Identifier: Apache-2.0
#include <weig/metadata.h>

#include <gtest/gtest.h>

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
