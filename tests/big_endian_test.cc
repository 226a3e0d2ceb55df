// SPDX-License-Identifier: Apache-2.0
// Big-endian files that cannot be swapped: one row for each rule of docs/format.md.
#include "formats/big_endian.h"

#include <gtest/gtest.h>

#include <functional>

#include "image.h"

namespace weig::test {
namespace {

constexpr std::uint64_t kName = 0, kDtype = 8, kPad = 12, kData = 32, kSize = 40;

struct Bad {
  const char* name;  // of the row in docs/format.md
  std::function<void(Image&)> change;
  Code code;
  const char* says;
};

// Where a field of a record lies; the fields themselves are big-endian.
std::uint64_t field(std::uint64_t record, std::uint64_t at) {
  return sizeof(disk::Header) + record * sizeof(disk::TensorMeta) + at;
}
void put(Image& image, std::uint64_t at, std::uint64_t value) {
  image.set(at, byteswapped(value));
}
void put32(Image& image, std::uint64_t at, std::uint32_t value) {
  image.set(at, byteswapped(value));
}
// Gives record 1 what record 0 has.
void repeat(Image& image, std::uint64_t at) {
  image.set(field(1, at), image.get<std::uint64_t>(field(0, at)));
}

const std::vector<Bad>& bad_files() {
  static const std::vector<Bad> all = {
      {"b_flags", [](Image& i) { put(i, 40, 1ull << 40); }, Code::unsupported,
       "a big-endian file with flags"},
      {"b_reserved", [](Image& i) { put(i, 48, 1); }, Code::corrupt, "reserved"},
      {"b_record", [](Image& i) { put32(i, field(0, kPad), 1); }, Code::corrupt,
       "padding"},
      {"b_blocks",
       [](Image& i) {
         // 34 bytes, one block, in the room of the 64 that it had.
         put32(i, field(0, kDtype), 0x1000 + 8);
         put(i, field(0, kSize), 34);
       },
       Code::unsupported, "byte order is not known"},
      {"b_unknown_dtype", [](Image& i) { put32(i, field(0, kDtype), 0x80000001); },
       Code::unsupported, "byte order is not known"},
      {"b_equal_names", [](Image& i) { repeat(i, kName); }, Code::corrupt, "same name"},
      {"b_overlap",
       [](Image& i) {
         put(i, field(1, kData),
             byteswapped(i.get<std::uint64_t>(field(0, kData))) + 64);
       },
       Code::corrupt, "overlaps"},
      {"b_shared_widths", [](Image& i) { repeat(i, kData); }, Code::unsupported,
       "different widths"},
  };
  return all;
}

TEST(BigEndian, b_names_overlap) {
  const Image image = Image::overlapping_names(1100, ByteOrder::big);
  const auto manifest =
      read_big_endian(image.bytes, image.size(), {.unsealed = Unsealed::accept});
  ASSERT_FALSE(manifest);
  EXPECT_EQ(manifest.error().code(), Code::limit);
  EXPECT_NE(manifest.error().message().find("names overlap"), std::string::npos);
}

class BigEndianRefuses : public testing::TestWithParam<Bad> {};

TEST_P(BigEndianRefuses, it) {
  const Bad& bad = GetParam();
  // Both take 128 bytes.
  Image image = Image::minimal({{"a", Dtype::f32, {32}}, {"b", Dtype::i16, {64}}},
                               ByteOrder::big);
  const ViewOptions options{.unsealed = Unsealed::accept,
                            .unknown_dtypes = UnknownDtypes::accept};
  ASSERT_TRUE(read_big_endian(image.bytes, image.size(), options));
  bad.change(image);
  const auto manifest = read_big_endian(image.bytes, image.size(), options);
  ASSERT_FALSE(manifest);
  EXPECT_EQ(manifest.error().code(), bad.code) << manifest.error().message();
  EXPECT_NE(manifest.error().message().find(bad.says), std::string::npos)
      << manifest.error().message();
}

INSTANTIATE_TEST_SUITE_P(Rules, BigEndianRefuses, testing::ValuesIn(bad_files()),
                         [](const auto& row) { return std::string(row.param.name); });

}  // namespace
}  // namespace weig::test
