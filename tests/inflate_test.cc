// SPDX-License-Identifier: Apache-2.0
// What a deflate stream unpacks to, and each way in which it can be damaged: the rows
// of docs/zip.md, "Packed data". And the cursor by which inputs are read.
#include "formats/inflate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "bytes_input.h"
#include "packed.h"

namespace weig::test {
namespace {

TEST(Inflate, unpacks_in_parts_of_any_size) {
  const auto bytes = count_up(300'000);
  const auto packed = deflated(bytes);
  const Input input = input_over(packed);
  for (const std::size_t part : {1u, 1000u, 65536u, 1u << 20}) {
    Inflater inflater(input, 0, packed.size(), bytes.size());
    std::vector<std::byte> out(bytes.size());
    for (std::size_t at = 0; at < out.size(); at += part) {
      ASSERT_EQ(inflater.offset(), at);
      ASSERT_TRUE(inflater.read(
          MutableBytes(out).subspan(at, std::min(part, out.size() - at))));
    }
    EXPECT_TRUE(out == bytes);
  }
}

TEST(Inflate, unpacks_nothing) {
  const auto packed = deflated({});
  const Input input = input_over(packed);
  Inflater inflater(input, 0, packed.size(), 0);
  EXPECT_TRUE(inflater.read({}));
}

struct Damage {
  const char* row;
  const char* says;
  // What becomes of a good stream, and of what is said of its length.
  void (*apply)(std::vector<std::byte>& packed, std::uint64_t& bytes);
};

class InflateDamage : public testing::TestWithParam<Damage> {};

TEST_P(InflateDamage, is_refused) {
  const auto bytes = count_up(200'000);
  auto packed = deflated(bytes);
  std::uint64_t count = bytes.size();
  GetParam().apply(packed, count);
  const Input input = input_over(packed);
  Inflater inflater(input, 0, packed.size(), count);
  std::vector<std::byte> out(count);
  const auto status = inflater.read(out);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code(), Code::corrupt);
  EXPECT_NE(status.error().message().find(GetParam().says), std::string::npos)
      << status.error().message();
}

INSTANTIATE_TEST_SUITE_P(
    All, InflateDamage,
    testing::Values(
        Damage{"packed_cut", "ends too early",
               [](auto& packed, auto&) { packed.resize(packed.size() / 2); }},
        Damage{"packed_short", "ends too early", [](auto&, auto& bytes) { ++bytes; }},
        Damage{"packed_long", "goes on after what it should hold",
               [](auto&, auto& bytes) { --bytes; }},
        Damage{"packed_followed", "more behind the packed data",
               [](auto& packed, auto&) { packed.push_back(std::byte{0}); }},
        Damage{"packed_damaged", "packed data is damaged",
               [](auto& packed, auto&) { packed[0] |= std::byte{0x06}; }}),
    [](const auto& test) { return std::string(test.param.row); });

TEST(Inflate, passes_a_failed_read_on) {
  const Input input{.size = 10, .read = [](std::uint64_t, MutableBytes) -> Status {
                      return Error(Code::io, "the disk failed");
                    }};
  std::vector<std::byte> out(5);
  const auto status = Inflater(input, 0, 10, 5).read(out);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code(), Code::io);
  InputCursor cursor(input, 0, 10);
  EXPECT_FALSE(cursor.take(3));
}

TEST(InputCursor, gives_bytes_in_order) {
  const auto bytes = count_up(200'000);
  const Input input = input_over(bytes);
  InputCursor cursor(input, 10, 190'000);
  std::uint64_t at = 10;
  for (const std::uint64_t count : {1u, 0u, 100u, 70'000u, 65'536u, 7u}) {
    EXPECT_EQ(cursor.offset(), at);
    EXPECT_EQ(cursor.left(), 190'000 - at);
    const auto got = cursor.take(count);
    ASSERT_TRUE(got);
    EXPECT_TRUE(std::ranges::equal(*got, Bytes(bytes).subspan(at, count)));
    at += count;
  }
  cursor.skip(1000);
  EXPECT_EQ(cursor.offset(), at + 1000);
  const auto rest = cursor.take(cursor.left());
  ASSERT_TRUE(rest);
  EXPECT_TRUE(std::ranges::equal(*rest, Bytes(bytes).subspan(at + 1000, rest->size())));
  EXPECT_EQ(cursor.left(), 0u);
}

}  // namespace
}  // namespace weig::test
