// SPDX-License-Identifier: Apache-2.0
#include "core/text.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include <weig/error.h>

namespace weig::test {
namespace {

using std::string_literals::operator""s;

TEST(Utf8, accepts_every_boundary_character) {
  for (const char* text :
       {"", "a", "plain ASCII text of some length", "\x7F", "\xC2\x80", "\xDF\xBF",
        "\xE0\xA0\x80", "\xED\x9F\xBF", "\xEE\x80\x80", "\xEF\xBF\xBF",
        "\xF0\x90\x80\x80", "\xF4\x8F\xBF\xBF", "eight by\xC3\xA9 and more"})
    EXPECT_TRUE(is_utf8(text)) << escaped(text);
}

TEST(Utf8, refuses_what_is_not_strict) {
  for (const char* text :
       {"\x80", "\xC0\x80", "\xC1\xBF", "\xC2", "\xE0\x9F\xBF", "\xED\xA0\x80",
        "\xED\xBF\xBF", "\xF0\x8F\xBF\xBF", "\xF4\x90\x80\x80", "\xF5\x80\x80\x80",
        "\xFF", "\xBF\xBF", "\xF8\x90\x80\x80", "\xE2\x82", "a\xE2\x28\xA1",
        "0123456\xFF", "01234567\xFF", "0123456789abcde\xE2\x82"})
    EXPECT_FALSE(is_utf8(text)) << escaped(text);
}

TEST(Escaped, makes_one_line_that_is_safe_on_a_terminal) {
  EXPECT_EQ(in_quotes("plain"), "'plain'");
  EXPECT_EQ(in_quotes("a\nb\tc"), "'a\\nb\\tc'");
  EXPECT_EQ(in_quotes("\x1B[31m"), "'\\x1b[31m'");
  EXPECT_EQ(in_quotes("it's \\"), "'it\\'s \\\\'");
  EXPECT_EQ(in_quotes("\xFF"), "'\\xff'");
  EXPECT_EQ(in_quotes("\xE2\x80\xAE"), "'\\u{202e}'");  // right-to-left override
  EXPECT_EQ(in_quotes("\xC2\x9B"), "'\\u{009b}'");      // C1 control
  EXPECT_EQ(in_quotes("\xE5\xB1\x82"), "'\xE5\xB1\x82'");
  EXPECT_EQ(in_quotes("a\0b"s), "'a\\x00b'");
  EXPECT_EQ(escaped(std::string(1000, 'x')).size(), 256u + 3u);
}

TEST(Escaped, shows_what_is_not_seen) {
  // Soft hyphen, Arabic mark, zero-width, word joiner, isolates, BOM, tag.
  for (const char* unseen : {"\xC2\xAD", "\xD8\x9C", "\xE2\x80\x8B", "\xE2\x80\x8F",
                             "\xE2\x80\xA8", "\xE2\x81\xA0", "\xE2\x81\xA6",
                             "\xE2\x81\xA9", "\xEF\xBB\xBF", "\xF3\xA0\x81\x81"})
    EXPECT_TRUE(escaped(unseen).starts_with("\\u{")) << escaped(unseen);
  for (const char* seen : {"\xC2\xAC", "\xE2\x80\x90", "\xE2\x81\x9E", "\xEF\xBF\xBD"})
    EXPECT_EQ(escaped(seen), seen);
}

TEST(Escaped, messages_hold_whatever_names_hold) {
  const Error error = Error(Code::corrupt, "broken")
                          .file("a\nb")
                          .tensor("x\x1B'")
                          .at(7)
                          .found("1")
                          .expected("2")
                          .hint("look");
  EXPECT_EQ(error.message(),
            "a\\nb: tensor 'x\\x1b\\'', offset 7: broken: found 1, expected 2 (look)");
}

TEST(Json, spells_strings_in_one_way) {
  std::string out;
  append_json_string(out, "\"\\\b\f\n\r\t\x01\x1F\x7F/\xC3\xA9");
  EXPECT_EQ(out, "\"\\\"\\\\\\b\\f\\n\\r\\t\\u0001\\u001f\x7F/\xC3\xA9\"");
}

TEST(NaturalOrder, compares_runs_of_digits_as_numbers) {
  const std::vector<std::string> ordered = {"",
                                            "0",
                                            "1",
                                            "01",
                                            "2",
                                            "10",
                                            "a",
                                            "a-",
                                            "a.1",
                                            "a.1.b",
                                            "a.1.c",
                                            "a.01.a",
                                            "a.2",
                                            "a.10",
                                            "a.010.x",
                                            "a.99999999999999999999999",
                                            "a.100000000000000000000000",
                                            "a1",
                                            "ab",
                                            "\xC3\xA9"};
  for (std::size_t i = 0; i < ordered.size(); ++i)
    for (std::size_t j = 0; j < ordered.size(); ++j) {
      const int order = natural_compare(ordered[i], ordered[j]);
      EXPECT_EQ(order < 0, i < j) << ordered[i] << " | " << ordered[j];
      EXPECT_EQ(order == 0, i == j) << ordered[i] << " | " << ordered[j];
    }
}

TEST(Hex, has_no_leading_zeros) {
  EXPECT_EQ(hex(0), "0x0");
  EXPECT_EQ(hex(0x1F), "0x1f");
  EXPECT_EQ(hex(~std::uint64_t{0}), "0xffffffffffffffff");
}

}  // namespace
}  // namespace weig::test
