// SPDX-License-Identifier: Apache-2.0
// The table of element types against the numbers of docs/format.md.
#include <weig/dtype.h>

#include <gtest/gtest.h>

#include "core/record.h"

namespace weig::test {
namespace {

struct Plain {
  std::uint32_t code;
  const char* name;
  std::uint32_t bits;
};
constexpr Plain kPlain[] = {{0, "f32", 32},
                            {1, "f16", 16},
                            {2, "bf16", 16},
                            {3, "i8", 8},
                            {4, "u8", 8},
                            {5, "i32", 32},
                            {6, "f64", 64},
                            {7, "i64", 64},
                            {8, "i16", 16},
                            {9, "u16", 16},
                            {10, "u32", 32},
                            {11, "u64", 64},
                            {12, "bool", 8},
                            {13, "f8_e4m3fn", 8},
                            {14, "f8_e5m2", 8},
                            {15, "f8_e4m3fnuz", 8},
                            {16, "f8_e5m2fnuz", 8},
                            {17, "f8_e8m0", 8},
                            {18, "f6_e2m3", 6},
                            {19, "f6_e3m2", 6},
                            {20, "f4_e2m1", 4},
                            {21, "i4", 4},
                            {22, "u4", 4},
                            {23, "complex64", 64},
                            {24, "complex128", 128},
                            {25, "complex32", 32},
                            {26, "f8_e4m3", 8},
                            {27, "f8_e3m4", 8},
                            {28, "f8_e4m3b11fnuz", 8},
                            {29, "i2", 2},
                            {30, "u2", 2},
                            {31, "i1", 1},
                            {32, "u1", 1},
                            {33, "bcomplex32", 32}};

struct Block {
  std::uint32_t number;
  const char* name;
  std::uint32_t elements;
  std::uint32_t bytes;
};
constexpr Block kBlocks[] = {
    {2, "q4_0", 32, 18},      {3, "q4_1", 32, 20},      {6, "q5_0", 32, 22},
    {7, "q5_1", 32, 24},      {8, "q8_0", 32, 34},      {9, "q8_1", 32, 36},
    {20, "iq4_nl", 32, 18},   {39, "mxfp4", 32, 17},    {40, "nvfp4", 64, 36},
    {41, "q1_0", 128, 18},    {10, "q2_k", 256, 84},    {11, "q3_k", 256, 110},
    {12, "q4_k", 256, 144},   {13, "q5_k", 256, 176},   {14, "q6_k", 256, 210},
    {15, "q8_k", 256, 292},   {16, "iq2_xxs", 256, 66}, {17, "iq2_xs", 256, 74},
    {18, "iq3_xxs", 256, 98}, {19, "iq1_s", 256, 50},   {21, "iq3_s", 256, 110},
    {22, "iq2_s", 256, 82},   {23, "iq4_xs", 256, 136}, {29, "iq1_m", 256, 56},
    {34, "tq1_0", 256, 54},   {35, "tq2_0", 256, 66}};

TEST(Dtype, plain_types_have_their_codes_names_and_sizes) {
  for (const Plain& plain : kPlain) {
    const auto dtype = static_cast<Dtype>(plain.code);
    const DtypeInfo* info = dtype_info(dtype);
    ASSERT_TRUE(info) << plain.name;
    EXPECT_EQ(info->name, plain.name);
    EXPECT_FALSE(info->is_block());
    EXPECT_EQ(dtype_from_name(plain.name), dtype);
    for (const std::uint64_t count : {0u, 1u, 2u, 3u, 5u, 8u, 1000u})
      EXPECT_EQ(implied_bytes(*info, std::array{count}).bytes,
                (count * plain.bits + 7) / 8)
          << plain.name << " x " << count;
  }
}

TEST(Dtype, blocks_have_ggml_numbers_and_sizes) {
  for (const Block& block : kBlocks) {
    const auto dtype = static_cast<Dtype>(0x1000 + block.number);
    const DtypeInfo* info = dtype_info(dtype);
    ASSERT_TRUE(info) << block.name;
    EXPECT_EQ(info->name, block.name);
    EXPECT_TRUE(info->is_block());
    EXPECT_EQ(info->block_elements, block.elements);
    EXPECT_EQ(info->block_bytes, block.bytes);
    EXPECT_EQ(dtype_from_name(block.name), dtype);
  }
  EXPECT_EQ(kDtypes.size(), std::size(kPlain) + std::size(kBlocks));
}

TEST(Dtype, all_other_codes_are_unknown) {
  std::size_t known = 0;
  for (std::uint32_t code = 0; code < 0x4000; ++code)
    known += dtype_info(static_cast<Dtype>(code)) ? 1 : 0;
  EXPECT_EQ(known, kDtypes.size());
  EXPECT_EQ(dtype_info(static_cast<Dtype>(0x80000000)), nullptr);
  EXPECT_EQ(dtype_info(static_cast<Dtype>(0xFFFFFFFF)), nullptr);
  EXPECT_EQ(dtype_name(static_cast<Dtype>(0x1000)), "unknown");  // GGML's own F32
  EXPECT_FALSE(dtype_from_name("F32"));
}

TEST(Dtype, implied_sizes_never_wrap) {
  const std::uint64_t most = std::uint64_t{1} << 56;
  const auto bytes = [](Dtype dtype, std::vector<std::uint64_t> shape) {
    return implied_bytes(*dtype_info(dtype), shape);
  };
  EXPECT_EQ(bytes(Dtype::complex128, {most}).bytes, most * 16);
  EXPECT_EQ(bytes(Dtype::complex128, {most + 1}).rule, Rule::elements);
  EXPECT_EQ(bytes(Dtype::q8_k, {most}).bytes, most / 256 * 292);
  EXPECT_EQ(bytes(Dtype::f6_e2m3, {most}).bytes, most / 4 * 3);
  EXPECT_EQ(bytes(Dtype::i8, {UINT64_MAX, 2}).rule, Rule::elements);
  EXPECT_EQ(bytes(Dtype::i8, {UINT64_MAX, 0}).rule, Rule::elements);
  EXPECT_EQ(bytes(Dtype::i8, {1ull << 32, 1ull << 32, 0}).rule, Rule::elements);
  EXPECT_EQ(bytes(Dtype::i8, {0, 1ull << 56}).bytes, 0u);
  EXPECT_EQ(bytes(Dtype::q4_k, {}).rule, Rule::block_rank);
  EXPECT_EQ(bytes(Dtype::q4_k, {256, 255}).rule, Rule::block_row);
  EXPECT_EQ(bytes(Dtype::q4_k, {7, 0}).bytes, 0u);
}

}  // namespace
}  // namespace weig::test
