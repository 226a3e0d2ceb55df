// SPDX-License-Identifier: Apache-2.0
// One row for each rule of docs/format.md that a file can break and open all the same:
// a lazily opened one says it when a name is asked for, sections when they are first
// used.
#include <gtest/gtest.h>

#include "corruption.h"

namespace weig::test {
namespace {

// A lazily opened file says it when the name is asked for.
class LazyCorruption : public testing::TestWithParam<Row> {};

// The slot that leads to a tensor of the basic file.
std::uint64_t slot_of(const Image& image, std::string_view name) {
  const std::uint32_t ordinal = image.open()->tensor(name)->ordinal();
  std::uint64_t slot = image.section_offset(Kind::name_index) + 64;
  while (image.get<std::uint32_t>(slot + 4) != ordinal + 1) slot += 8;
  return slot;
}

const std::vector<Row>& lazy_rows() {
  static const std::vector<Row> all = {
      {"l_index_leads_outside",
       [](Image& i) { i.set<std::uint32_t>(slot_of(i, "scale") + 4, 5000); },
       Code::corrupt, "names a record that is not there"},
      {"l_record", put_in_record<std::uint32_t>("scale", 12, 1), Code::corrupt,
       "padding"},
      {"l_index_misses_a_name",
       [](Image& i) { i.set<std::uint64_t>(slot_of(i, "scale"), 0); }, Code::corrupt,
       "does not lead"},
      {"l_damaged_core", [](Image& i) { i.set<std::uint8_t>(i.header(48) - 1, 1); },
       Code::corrupt, "names are damaged", false},
      {"l_damaged_index",
       [](Image& i) { i.set<std::uint64_t>(slot_of(i, "scale"), 0); }, Code::corrupt,
       "section 1 is damaged", false},
  };
  return all;
}

TEST_P(LazyCorruption, is_refused_when_the_name_is_asked_for) {
  const Row& row = GetParam();
  Image image = Image::basic();
  row.change(image);
  if (row.reseal) image.reseal();
  const View view = image.open({.validation = Validation::lazy}).value();
  // Where the tensor itself is sound and found, an absent one shows the damage.
  const std::string_view damaged = row.name;
  const auto found = view.find(damaged == "l_damaged_core" ? "absent" : "scale");
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().code(), row.code) << found.error().message();
  EXPECT_NE(found.error().message().find(row.says), std::string::npos)
      << found.error().message();
}

INSTANTIATE_TEST_SUITE_P(Rules, LazyCorruption, testing::ValuesIn(lazy_rows()),
                         [](const auto& row) { return std::string(row.param.name); });

// Sections are proven at first use: the file opens, the section is refused.
class SectionCorruption : public testing::TestWithParam<Row> {};

const std::vector<Row>& section_rows() {
  constexpr std::uint64_t kEntry = 8;  // the first entry of sections 5 and 6
  static const std::vector<Row> all = {
      {"s_digest",
       [](Image& i) {
         i.set<std::uint8_t>(i.section_offset(Kind::digests), 1);
         i.set<std::uint8_t>(i.section_offset(Kind::digests) + 1, 2);
       },
       Code::corrupt, "section 2 is damaged", false},
      {"s2_size",
       [](Image& i) {
         const std::uint64_t at = i.section_entry(Kind::digests) + 16;
         i.set(at, i.header(at) - 16);
       },
       Code::corrupt, "digests section: its size"},
      {"s3_object", put_in_section<std::uint8_t>(Kind::metadata, 0, '['), Code::corrupt,
       "not a JSON object"},
      {"s3_object_end",
       [](Image& i) {
         const std::uint64_t end =
             i.section_offset(Kind::metadata) + i.section_size(Kind::metadata);
         i.set<std::uint8_t>(end - 1, ']');
       },
       Code::corrupt, "not a JSON object"},
      {"s3_utf8", put_in_section<std::uint8_t>(Kind::metadata, 3, 0xC0), Code::corrupt,
       "not UTF-8"},
      {"s4_size", put_in_entry<std::uint64_t>(Kind::source, 16, 39), Code::corrupt,
       "source section: its size"},
      {"s4_format", put_in_section<std::uint32_t>(Kind::source, 0, 3),
       Code::unsupported, "its format"},
      {"s4_encoding", put_in_section<std::uint32_t>(Kind::source, 4, 2),
       Code::unsupported, "its encoding"},
      {"s4_encoding_of_gguf", put_in_section<std::uint32_t>(Kind::source, 0, 2),
       Code::unsupported, "its encoding"},
      {"s4_header_size", put_in_section<std::uint32_t>(Kind::source, 4, 0),
       Code::corrupt, "differs from the header it holds"},
      {"s4_ordinals",
       [](Image& i) {
         const std::uint64_t at = i.section_entry(Kind::source) + 16;
         i.set(at, i.header(at) - 4);
         i.set<std::uint32_t>(i.section_entry(Kind::shard), 0x80000000);
       },
       Code::corrupt, "number of ordinals"},
      {"s4_half_an_ordinal",
       [](Image& i) {
         const std::uint64_t at = i.section_entry(Kind::source) + 16;
         i.set(at, i.header(at) + 2);
         i.set<std::uint32_t>(i.section_entry(Kind::shard), 0x80000000);
       },
       Code::corrupt, "number of ordinals"},
      {"s4_ordinal",
       [](Image& i) {
         i.set<std::uint32_t>(i.section_offset(Kind::source) + 40, 5);
         i.set<std::uint32_t>(i.section_entry(Kind::shard), 0x80000000);
       },
       Code::corrupt, "past the table"},
      {"s5_size", put_in_entry<std::uint64_t>(Kind::groups, 16, 7), Code::corrupt,
       "groups section: its size"},
      {"s5_zero", put_in_section<std::uint32_t>(Kind::groups, 4, 1), Code::corrupt,
       "after the count"},
      {"s5_count", put_in_section<std::uint32_t>(Kind::groups, 0, 100), Code::corrupt,
       "more entries"},
      {"s5_name_place", put_in_section<std::uint64_t>(Kind::groups, kEntry, 8),
       Code::corrupt, "name lies outside"},
      {"s5_name_past_the_end",
       put_in_section<std::uint64_t>(Kind::groups, kEntry, 1ull << 40), Code::corrupt,
       "name lies outside"},
      {"s5_name_end",
       [](Image& i) {
         const std::uint64_t end =
             i.section_offset(Kind::groups) + i.section_size(Kind::groups);
         i.set<std::uint8_t>(end - 1, 'x');
       },
       Code::corrupt, "name lies outside"},
      {"s5_name_utf8",
       [](Image& i) {
         const std::uint64_t at = i.section_offset(Kind::groups);
         i.set<std::uint8_t>(at + i.header(at + kEntry), 0xFF);
       },
       Code::corrupt, "not UTF-8"},
      {"s5_name_within_another",
       [](Image& i) {
         // The first goes on to the end of the second.
         const std::uint64_t at = i.section_offset(Kind::groups);
         std::uint64_t end = at + i.header(at + kEntry);
         while (i.get<std::uint8_t>(end) != 0) ++end;
         i.set<std::uint8_t>(end, 'x');
       },
       Code::corrupt, "within the one before"},
      {"s5_empty_group", put_in_section<std::uint32_t>(Kind::groups, kEntry + 12, 0),
       Code::corrupt, "is empty"},
      {"s5_overlap", put_in_section<std::uint32_t>(Kind::groups, kEntry + 24, 1),
       Code::corrupt, "overlaps"},
      {"s5_past_the_table", put_in_section<std::uint32_t>(Kind::groups, kEntry + 28, 9),
       Code::corrupt, "leaves the table"},
      {"s6_size",
       [](Image& i) {
         const std::uint64_t at = i.section_entry(Kind::quantization) + 16;
         i.set(at, i.header(at) + 4);
       },
       Code::corrupt, "quantization section: its size"},
      {"s6_short", put_in_entry<std::uint64_t>(Kind::quantization, 16, 7),
       Code::corrupt, "quantization section: its size: found 7, expected at least 8"},
      {"s6_zero", put_in_section<std::uint32_t>(Kind::quantization, 4, 1),
       Code::corrupt, "after the count"},
      {"s6_ascend", put_in_section<std::uint32_t>(Kind::quantization, 40, 0),
       Code::corrupt, "ascending"},
      {"s6_tensor", put_in_section<std::uint32_t>(Kind::quantization, 40, 5),
       Code::corrupt, "tensor's ordinal"},
      {"s6_last_field", put_in_section<std::uint32_t>(Kind::quantization, 36, 1),
       Code::corrupt, "last field"},
      {"s6_axis", put_in_section<std::uint32_t>(Kind::quantization, 16, 2),
       Code::corrupt, "axis"},
      {"s6_block_without_axis",
       put_in_section<std::uint32_t>(Kind::quantization, 52, 32), Code::corrupt,
       "blocks without an axis"},
      {"s6_scale", put_in_section<std::uint32_t>(Kind::quantization, 24, 5),
       Code::corrupt, "scale's ordinal"},
      {"s6_zero_point", put_in_section<std::uint32_t>(Kind::quantization, 28, 5),
       Code::corrupt, "parameter's ordinal"},
      {"s6_scale2", put_in_section<std::uint32_t>(Kind::quantization, 32, 5),
       Code::corrupt, "parameter's ordinal"},
      {"s7_size", put_in_entry<std::uint64_t>(Kind::shard, 16, 31), Code::corrupt,
       "shard section: its size"},
      {"s7_index", put_in_section<std::uint32_t>(Kind::shard, 16, 2), Code::corrupt,
       "shard section: its index"},
      {"s7_tensors", put_in_section<std::uint64_t>(Kind::shard, 24, 4), Code::corrupt,
       "tensors of the set"},
  };
  return all;
}

TEST_P(SectionCorruption, is_refused_at_first_use) {
  const Row& row = GetParam();
  Image image = Image::all_sections();
  ASSERT_TRUE(image.open().value().check_sections());
  row.change(image);
  if (row.reseal) image.reseal();
  const auto view = image.open();
  ASSERT_TRUE(view) << view.error().message();
  const Status status = view->check_sections();
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code(), row.code) << status.error().message();
  EXPECT_NE(status.error().message().find(row.says), std::string::npos)
      << status.error().message();
}

INSTANTIATE_TEST_SUITE_P(Rules, SectionCorruption, testing::ValuesIn(section_rows()),
                         [](const auto& row) { return std::string(row.param.name); });

TEST(SectionCorruption, s_moved_after_open) {
  Image image = Image::all_sections();
  const View view = image.open().value();
  image.set<std::uint64_t>(image.section_entry(Kind::digests) + 8, 1ull << 40);
  const auto digest = view.digest(0);
  ASSERT_FALSE(digest);
  EXPECT_EQ(digest.error().code(), Code::corrupt);
  EXPECT_NE(digest.error().message().find("the file changed"), std::string::npos);
}

TEST(SectionCorruption, metadata_over_the_limit) {
  const Image image = Image::all_sections();
  const auto view = image.open({.max_metadata_bytes = 10});
  ASSERT_TRUE(view);
  const auto text = view->metadata_text();
  ASSERT_FALSE(text);
  EXPECT_EQ(text.error().code(), Code::limit);
}

}  // namespace
}  // namespace weig::test
