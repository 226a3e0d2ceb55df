// SPDX-License-Identifier: Apache-2.0
// One row for each rule of docs/format.md: a file that breaks that rule and no other.
// Digests are made right again after each change, so that only the rule's own guard can
// refuse. What shows later is in late_corruption_test.cc.
#include <gtest/gtest.h>

#include "core/claim.h"
#include "core/digest.h"
#include "corruption.h"

namespace weig::test {
namespace {

// Swaps two slots' worth of data so that digests of the file stay right but a look-up
// does not lead to its record.
void blank_slot_of(Image& image, std::uint32_t ordinal) {
  const std::uint64_t slots = image.section_offset(Kind::name_index) + 64;
  const std::uint64_t count = image.header(image.section_offset(Kind::name_index) + 8);
  for (std::uint64_t i = 0; i < count; ++i)
    if (image.get<std::uint32_t>(slots + 8 * i + 4) == ordinal + 1)
      image.set<std::uint64_t>(slots + 8 * i, 0);
}

// The trailer's check alone.
void set_check(Image& image) {
  image.set(image.trailer() + 56,
            trailer_check(image.bytes, Bytes(image.bytes).subspan(image.trailer())));
}

void rename_to_neighbour(Image& image) {
  // "model.layers.2.mlp.bias" and ".weight" differ in length: point one record's name
  // at the other's.
  const std::uint64_t weight = record_of("model.layers.2.mlp.weight");
  const std::uint64_t other = record_of("model.layers.10.mlp.weight");
  image.set(other, image.get<std::uint64_t>(weight));
}

const std::vector<Row>& rows() {
  static const std::vector<Row> all = {
      // O1
      {"o1_shorter_than_a_header", [](Image& i) { i.bytes.resize(63); }, Code::corrupt,
       "shorter than a header", false},
      {"o1_size_differs", [](Image& i) { i.bytes.resize(i.size() + 64); },
       Code::corrupt, "the file's size", false},
      // O2
      {"o2_magic", put<std::uint8_t>(0, 0x48), Code::corrupt, "not a WEIG file"},
      {"o2_version", put<std::uint32_t>(4, 2), Code::unsupported, "version"},
      {"o2_big_endian", put<std::uint32_t>(0, disk::kSwappedMagic), Code::unsupported,
       "big-endian"},
      // O3
      {"o3_packed", put<std::uint64_t>(40, 7), Code::unsupported, "packed"},
      {"o3_encrypted", put<std::uint64_t>(40, 11), Code::unsupported, "encrypted"},
      {"o3_data_elsewhere", put<std::uint64_t>(40, 19), Code::unsupported,
       "other files"},
      {"o3_unknown_flag", put<std::uint64_t>(40, 3 | 1ull << 31), Code::unsupported,
       "does not know"},
      {"o3_sealed_without_sections", put<std::uint64_t>(40, 1), Code::corrupt,
       "come together"},
      {"o3_sections_without_seal", put<std::uint64_t>(40, 2), Code::corrupt,
       "come together"},
      {"o3_unsealed", put<std::uint64_t>(40, 0), Code::unsupported, "not sealed"},
      // O4
      {"o4_no_room",
       [](Image& i) {
         i.bytes.resize(100);
         i.set<std::uint64_t>(32, 100);
       },
       Code::corrupt, "no room", false},
      {"o4_sentinel", put_in_trailer<std::uint8_t>(7, 0xFE), Code::corrupt,
       "no trailer"},
      {"o4_file_size", put_in_trailer<std::uint64_t>(8, 4096), Code::corrupt,
       "trailer's file_size"},
      {"o4_version", put_in_trailer<std::uint32_t>(32, 2), Code::corrupt,
       "trailer's version"},
      {"o4_reserved", put_in_trailer<std::uint64_t>(40, 1), Code::corrupt, "reserved"},
      {"o4_reserved_second", put_in_trailer<std::uint64_t>(48, 1), Code::corrupt,
       "reserved"},
      {"o4_check", put_in_trailer<std::uint64_t>(56, 1), Code::corrupt, "check", false},
      // O5
      {"o5_meta_overlaps_header", put<std::uint64_t>(16, 56), Code::corrupt,
       "overlaps the header"},
      {"o5_meta_alignment", put<std::uint64_t>(16, 68), Code::corrupt,
       "meta_offset is not aligned"},
      {"o5_tensor_count", put<std::uint64_t>(8, (1ull << 32) - 1), Code::corrupt,
       "tensor_count"},
      {"o5_table_too_long", put<std::uint64_t>(8, 1000), Code::corrupt, "does not fit"},
      {"o5_section_alignment", [](Image& i) { i.set(48, i.header(48) + 4); },
       Code::corrupt, "section_offset is not aligned"},
      {"o5_sections_in_data", put<std::uint64_t>(48, 4096), Code::corrupt,
       "runs into the data"},
      {"o5_section_count",
       [](Image& i) {
         i.set<std::uint64_t>(56, 257);
         set_check(i);
       },
       Code::corrupt, "section_count", false},
      {"o5_data_offset", put<std::uint64_t>(24, 1ull << 40), Code::corrupt,
       "data_offset lies outside"},
      {"o5_data_alignment", [](Image& i) { i.set(24, i.header(24) + 64); },
       Code::corrupt, "data_offset is not aligned"},
      // O6
      {"o6_kinds_ascend", put_in_entry<std::uint32_t>(Kind::digests, 0, 1),
       Code::corrupt, "ascending order"},
      {"o6_flags", put_in_entry<std::uint32_t>(Kind::digests, 4, 2), Code::corrupt,
       "unknown flags"},
      {"o6_critical_unknown",
       [](Image& i) {
         const std::uint64_t at = i.section_entry(Kind::groups);
         i.set<std::uint32_t>(at, 77);
         i.set<std::uint32_t>(at + 4, 1);
       },
       Code::unsupported, "must be understood"},
      {"o6_alignment",
       [](Image& i) {
         const std::uint64_t at = i.section_entry(Kind::groups) + 8;
         i.set(at, i.header(at) + 8);
       },
       Code::corrupt, "is not aligned"},
      {"o6_overlap",
       [](Image& i) {
         i.set(i.section_entry(Kind::groups) + 8, i.section_offset(Kind::metadata));
       },
       Code::corrupt, "overlaps"},
      {"o6_beyond_data_offset",
       put_in_entry<std::uint64_t>(Kind::groups, 16, 1ull << 32), Code::corrupt,
       "overlaps"},
      {"o6_no_index", put_in_entry<std::uint32_t>(Kind::name_index, 0, 0),
       Code::corrupt, "no name index"},
      {"o6_index_short", put_in_entry<std::uint64_t>(Kind::name_index, 16, 32),
       Code::corrupt, "shorter than its head"},
      {"o6_slots_power_of_two", put_in_section<std::uint64_t>(Kind::name_index, 8, 31),
       Code::corrupt, "number of slots"},
      {"o6_slots_enough",
       [](Image& i) {
         i.set<std::uint64_t>(i.section_offset(Kind::name_index) + 8, 16);
         i.set<std::uint64_t>(i.section_entry(Kind::name_index) + 16, 64 + 8 * 16);
       },
       Code::corrupt, "number of slots"},
      {"o6_index_size",
       [](Image& i) {
         const std::uint64_t at = i.section_entry(Kind::name_index) + 16;
         i.set(at, i.header(at) - 8);
       },
       Code::corrupt, "does not fit its slots"},
      {"o6_index_size_odd",
       [](Image& i) {
         // Two tensors' index takes 96 bytes: what follows, on 64, is not in the way.
         const std::uint64_t at = i.section_entry(Kind::name_index) + 16;
         i.set(at, i.header(at) + 4);
       },
       Code::corrupt, "does not fit its slots", true, "few"},
      {"o6_index_head_zeros", put_in_section<std::uint8_t>(Kind::name_index, 63, 1),
       Code::corrupt, "not 0"},
      // R1
      {"r1_name_before_strings", put_in_record<std::uint64_t>("scale", 0, 8),
       Code::corrupt, "outside the names"},
      {"r1_name_after_strings",
       [](Image& i) { i.set(record_of("scale"), i.header(48)); }, Code::corrupt,
       "outside the names"},
      {"r1_name_without_end",
       [](Image& i) {
         // The last bytes before the section table: a shape whose last byte is not 0.
         const std::uint64_t end = i.header(48);
         i.set<std::uint8_t>(end - 1, 'x');
         i.set(record_of("scale"), end - 1);
       },
       Code::corrupt, "has no end"},
      {"r1_name_utf8",
       [](Image& i) {
         i.set<std::uint8_t>(i.get<std::uint64_t>(record_of("scale")), 0xFF);
       },
       Code::corrupt, "not UTF-8"},
      {"r1_name_utf8_long",
       [](Image& i) {
         // No end within the first eight bytes, which are looked at together.
         i.set<std::uint8_t>(i.get<std::uint64_t>(record_of("lm_head.weight")), 0xFF);
       },
       Code::corrupt, "not UTF-8"},
      // R2 - R5
      {"r2_dtype", put_in_record<std::uint32_t>("scale", 8, 0x1000 + 4),
       Code::unsupported, "element type"},
      {"r3_pad", put_in_record<std::uint32_t>("scale", 12, 1), Code::corrupt,
       "padding"},
      {"r4_rank", put_in_record<std::uint64_t>("scale", 24, 65), Code::corrupt, "rank"},
      {"r5_shape_place", put_in_record<std::uint64_t>("mask", 16, 64), Code::corrupt,
       "shape lies outside"},
      {"r5_shape_end", [](Image& i) { i.set(record_of("mask") + 16, i.header(48)); },
       Code::corrupt, "shape lies outside"},
      {"r5_shape_alignment",
       [](Image& i) {
         const std::uint64_t at = record_of("mask") + 16;
         i.set(at, i.get<std::uint64_t>(at) - 4);
       },
       Code::corrupt, "shape is not aligned"},
      // R6: with rank 2, (2^57) x 0 implies 0 bytes: only the product can object.
      {"r6_product",
       [](Image& i) {
         const std::uint64_t at = record_of("empty");
         i.set<std::uint64_t>(i.get<std::uint64_t>(at + 16) + 8, 1ull << 57);
       },
       Code::corrupt, "above 2^56"},
      {"r6_product_wraps",
       [](Image& i) {
         // 2^8 x 2^56 wraps to 0, which is what 0 bytes imply.
         const std::uint64_t at = record_of("empty");
         i.set<std::uint64_t>(i.get<std::uint64_t>(at + 16), 1ull << 8);
         i.set<std::uint64_t>(i.get<std::uint64_t>(at + 16) + 8, 1ull << 56);
       },
       Code::corrupt, "above 2^56"},
      // R7
      {"r7_block_without_dimension",
       [](Image& i) {
         i.set<std::uint32_t>(record_of("scale") + 8, 0x1000 + 8);
         i.set<std::uint64_t>(record_of("scale") + 40, 0);
       },
       Code::corrupt, "needs a dimension"},
      {"r7_block_row",
       [](Image& i) {
         // 2 x 33 elements: 66 / 32 blocks, rounded down, are the 68 bytes stored.
         const std::uint64_t at = record_of("blocks");
         i.set<std::uint64_t>(i.get<std::uint64_t>(at + 16) + 8, 33);
       },
       Code::corrupt, "multiple of the block"},
      // R8 - R10
      {"r8_data_size", put_in_record<std::uint64_t>("mask", 40, 4), Code::corrupt,
       "data_size differs"},
      {"r9_before_data",
       [](Image& i) { i.set(record_of("empty") + 32, i.header(24) - 64); },
       Code::corrupt, "outside the data region"},
      {"r9_into_trailer",
       [](Image& i) { i.set(record_of("empty") + 32, i.trailer() + 64); },
       Code::corrupt, "outside the data region"},
      {"r10_alignment",
       [](Image& i) {
         const std::uint64_t at = record_of("mask") + 32;
         i.set(at, i.get<std::uint64_t>(at) + 32);
       },
       Code::corrupt, "data is not aligned"},
      // F1 - F4
      {"f1_file_id",
       [](Image& i) {
         i.set<std::uint64_t>(i.trailer() + 16, 12345);
         set_check(i);
       },
       Code::corrupt, "names are damaged", false},
      {"f2_index_digest",
       [](Image& i) {
         const std::uint64_t at = i.section_entry(Kind::name_index) + 24;
         i.reseal();
         i.set(at, i.get<std::uint64_t>(at) + 1);
         const Digest id =
             xxh3_128(Bytes(i.bytes).first(i.header(48) + 32 * i.header(56)));
         i.set(i.trailer() + 16, id.low);
         i.set(i.trailer() + 24, id.high);
         set_check(i);
       },
       Code::corrupt, "section 1 is damaged", false},
      {"f3_overlap",
       [](Image& i) {
         // On 64 bytes and inside the region, but in the middle of the one before.
         const std::uint64_t blocks = i.get<std::uint64_t>(record_of("blocks") + 32);
         i.set(record_of("empty") + 32, blocks);
       },
       Code::corrupt, "overlaps"},
      {"f3_order",
       [](Image& i) {
         const std::uint64_t a = record_of("mask") + 32;
         const std::uint64_t b = record_of("scale") + 32;
         const auto at = i.get<std::uint64_t>(a);
         i.set(a, i.get<std::uint64_t>(b));
         i.set(b, at);
       },
       Code::corrupt, "overlaps"},
      {"f3_alias_not_behind_its_owner",
       [](Image& i) {
         const std::uint64_t owner =
             i.get<std::uint64_t>(record_of("lm_head.flat") + 32);
         // "packed" comes two records later; 64 bytes as u16 x 32 it would be an alias.
         const std::uint64_t at = record_of("packed");
         i.set(at + 32, owner);
       },
       Code::corrupt, "overlaps"},
      {"f3_alias_of_another_size",
       [](Image& i) {
         // An alias by its place, but of half the bytes.
         i.set<std::uint32_t>(record_of("lm_head.weight") + 8, 4);
         i.set<std::uint64_t>(record_of("lm_head.weight") + 40, 32);
       },
       Code::corrupt, "overlaps"},
      {"f4_index_misses_a_name",
       [](Image& i) {
         const View view = i.open().value();
         blank_slot_of(i, view.tensor("scale")->ordinal());
       },
       Code::corrupt, "does not lead"},
      {"f4_equal_names", rename_to_neighbour, Code::corrupt, "same name"},
      // Minimal files
      {"m_reserved", put<std::uint64_t>(48, 1), Code::corrupt, "reserved", false,
       "minimal"},
      {"m_reserved_second", put<std::uint64_t>(56, 1), Code::corrupt, "reserved", false,
       "minimal"},
      {"m_flags", put<std::uint64_t>(40, 1ull << 40), Code::corrupt,
       "flags of a minimal file", false, "minimal"},
      {"m_record", [](Image& i) { i.set<std::uint32_t>(i.record(0) + 12, 1); },
       Code::corrupt, "padding", false, "minimal"},
      {"m_table_place", put<std::uint64_t>(8, 100), Code::corrupt, "does not fit",
       false, "minimal"},
      {"m_overlap",
       [](Image& i) {
         i.set(i.record(1) + 32, i.get<std::uint64_t>(i.record(0) + 32) + 2);
       },
       Code::corrupt, "overlaps", false, "minimal"},
      {"m_equal_names",
       [](Image& i) { i.set(i.record(1), i.get<std::uint64_t>(i.record(0))); },
       Code::corrupt, "same name", false, "minimal"},
  };
  return all;
}

Image base_of(const Row& row) {
  if (std::string_view(row.base) == "minimal")
    return Image::minimal({{"a", Dtype::f32, {4}}, {"b", Dtype::f32, {4}}});
  if (std::string_view(row.base) == "few")
    return Image::sealed({{"a", Dtype::f32, {4}}, {"b", Dtype::f32, {4}}});
  return Image::basic();
}

class Corruption : public testing::TestWithParam<Row> {};

TEST_P(Corruption, is_refused) {
  const Row& row = GetParam();
  Image image = base_of(row);
  const ViewOptions options{.unsealed = std::string_view(row.base) == "minimal"
                                            ? Unsealed::accept
                                            : Unsealed::refuse};
  ASSERT_TRUE(image.open(options));
  row.change(image);
  if (row.reseal) image.reseal();
  const auto view = image.open(options);
  ASSERT_FALSE(view);
  EXPECT_EQ(view.error().code(), row.code) << view.error().message();
  EXPECT_NE(view.error().message().find(row.says), std::string::npos)
      << view.error().message();
  EXPECT_EQ(view.error().message().find('\n'), std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(Rules, Corruption, testing::ValuesIn(rows()),
                         [](const auto& row) { return std::string(row.param.name); });

// No file of 2^63 bytes can be made: the rule is asked directly.
TEST(Corruption, o1_size_above_2_63) {
  Image image = Image::basic();
  image.set<std::uint64_t>(32, 1ull << 63);
  const auto status = check_header(image.bytes, 1ull << 63, {});
  ASSERT_FALSE(status);
  EXPECT_NE(status.error().message().find("2^63"), std::string::npos);
}

TEST(Names, f4_names_overlap) {
  const auto view = Image::sealed_overlapping_names(1'100).open();
  ASSERT_FALSE(view);
  EXPECT_EQ(view.error().code(), Code::limit);
  EXPECT_NE(view.error().message().find("names overlap"), std::string::npos);
}

TEST(Names, m_names_overlap) {
  const auto view =
      Image::overlapping_names(1'100).open({.unsealed = Unsealed::accept});
  ASSERT_FALSE(view);
  EXPECT_EQ(view.error().code(), Code::limit);
  EXPECT_NE(view.error().message().find("names overlap"), std::string::npos);
}

}  // namespace
}  // namespace weig::test
