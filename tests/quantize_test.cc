// SPDX-License-Identifier: Apache-2.0
// Casts and quantization: what is refused, and what the header promises of single
// numbers. Every number is compared in tests/python/test_quantize.py.
#include <weig/convert.h>
#include <weig/quantize.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "image.h"

namespace weig::test {
namespace {

using Values = std::vector<float>;
using Shape = std::vector<std::uint64_t>;

std::vector<std::byte> bytes_of(const Values& values) {
  const auto bytes = std::as_bytes(std::span(values));
  return {bytes.begin(), bytes.end()};
}

std::uint32_t cast_one(float value, Dtype to) {
  std::uint32_t code = 0;
  const auto size = dtype_info(to)->block_bytes;
  cast(Dtype::f32, std::as_bytes(std::span(&value, 1)), to,
       std::as_writable_bytes(std::span(&code, 1)).first(size))
      .value();
  return std::endian::native == std::endian::little ? code : code >> (32 - 8 * size);
}

struct Quantized {
  std::vector<std::byte> codes;
  Values scales;
  std::vector<std::byte> zero_points;
};

Quantized quantize_all(const Values& values, const Shape& shape,
                       const QuantizeOptions& options) {
  const auto plan = QuantizePlan::make(Dtype::f32, shape, options).value();
  Quantizer quantizer(plan);
  if (plan.measures_first()) quantizer.measure(0, bytes_of(values)).value();
  Quantized all{std::vector<std::byte>(plan.quantized_bytes()), {}, {}};
  quantizer.quantize(0, bytes_of(values), all.codes).value();
  all.scales.assign(quantizer.scales().begin(), quantizer.scales().end());
  all.zero_points = quantizer.zero_points();
  return all;
}

int signed_code(std::byte code) { return static_cast<std::int8_t>(code); }

TEST(Cast, ends_of_the_numbers) {
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(cast_one(448, Dtype::f8_e4m3fn), 0x7Eu);
  EXPECT_EQ(cast_one(1e30f, Dtype::f8_e4m3fn), 0x7Eu);
  EXPECT_EQ(cast_one(-infinity, Dtype::f8_e4m3fn), 0xFEu);
  EXPECT_EQ(cast_one(std::nanf(""), Dtype::f8_e4m3fn), 0x7Fu);
  EXPECT_EQ(cast_one(0x1p-10f, Dtype::f8_e4m3fn), 0u) << "a tie";
  EXPECT_EQ(cast_one(0x1.8p-9f, Dtype::f8_e4m3fn), 2u) << "a tie";
  EXPECT_EQ(cast_one(65519, Dtype::f16), 0x7BFFu);
  EXPECT_EQ(cast_one(65520, Dtype::f16), 0x7C00u);
  EXPECT_EQ(cast_one(-1e30f, Dtype::f16), 0xFC00u);
  EXPECT_EQ(cast_one(0x1p-24f, Dtype::f16), 1u);
  EXPECT_EQ(cast_one(std::numeric_limits<float>::max(), Dtype::bf16), 0x7F80u);
  EXPECT_EQ(cast_one(-0.0f, Dtype::bf16), 0x8000u);
}

TEST(Cast, refuses_other_types_and_sizes) {
  std::vector<std::byte> in(8);
  std::vector<std::byte> out(4);
  EXPECT_TRUE(cast(Dtype::f32, in, Dtype::f16, out));
  EXPECT_EQ(cast(Dtype::i8, in, Dtype::f16, out).error().code(),
            Code::invalid_argument);
  EXPECT_EQ(cast(Dtype::f32, in, Dtype::f64, out).error().code(),
            Code::invalid_argument);
  EXPECT_EQ(cast(Dtype::f32, in, Dtype::f32, out).error().code(),
            Code::invalid_argument);
  in.resize(7);
  out.resize(2);
  EXPECT_EQ(cast(Dtype::f32, in, Dtype::f16, out).error().code(),
            Code::invalid_argument);
}

TEST(Quantize, rounds_ties_to_the_even_integer) {
  const auto q = quantize_all({0.5f, 1.5f, -2.5f, 127}, {4}, {});
  EXPECT_EQ(q.scales, Values{1});
  EXPECT_EQ(signed_code(q.codes[0]), 0);
  EXPECT_EQ(signed_code(q.codes[1]), 2);
  EXPECT_EQ(signed_code(q.codes[2]), -2);
  EXPECT_EQ(signed_code(q.codes[3]), 127);
}

TEST(Quantize, four_bits_fill_bytes_from_the_low_half) {
  const auto q = quantize_all({7, -7, 1}, {3}, {.to = Dtype::i4});
  EXPECT_EQ(q.codes, (std::vector{std::byte{0x97}, std::byte{0x01}}));
}

TEST(Quantize, an_asymmetric_zero_point_stands_for_zero) {
  const auto q =
      quantize_all({-51, 0, 204}, {3}, {.to = Dtype::u8, .scheme = Scheme::asymmetric});
  EXPECT_EQ(q.scales, Values{1});
  EXPECT_EQ(q.zero_points, std::vector{std::byte{51}});
  EXPECT_EQ(q.codes, (std::vector{std::byte{0}, std::byte{51}, std::byte{255}}));
}

TEST(Quantize, zeros_have_scale_1_and_no_scale_is_subnormal) {
  const auto q = quantize_all({0, -0.0f, 1e-44f, 0, 0x1p-119f, 0}, {3, 2}, {.axis = 0});
  EXPECT_EQ(q.scales, (Values{1, 0x1p-126f, 0x1p-119f / 127}));
  EXPECT_EQ(signed_code(q.codes[0]), 0);
  EXPECT_EQ(signed_code(q.codes[2]), 0);
  EXPECT_EQ(signed_code(q.codes[4]), 127);
}

TEST(Quantize, refuses_what_no_integer_stands_for) {
  const float bad[] = {std::nanf(""), -std::nanf(""),
                       std::numeric_limits<float>::infinity(),
                       -std::numeric_limits<float>::infinity()};
  for (const float value : bad)
    for (const std::size_t place : {0u, 5u, 8u}) {
      Values values(9, 1.0f);
      values[place] = value;
      const auto plan = QuantizePlan::make(Dtype::f32, Shape{9}, {}).value();
      std::vector<std::byte> out(9);
      const auto status = Quantizer(plan).quantize(0, bytes_of(values), out);
      ASSERT_FALSE(status);
      EXPECT_EQ(status.error().code(), Code::invalid_argument);
      EXPECT_EQ(status.error().fields().found, std::string(std::isnan(value) ? "NaN"
                                                           : value > 0 ? "infinity"
                                                                       : "-infinity") +
                                                   " at element " +
                                                   std::to_string(place));
    }
}

TEST(Quantize, refuses_plans_that_cannot_be) {
  const auto code = [](Dtype from, const Shape& shape, const QuantizeOptions& options) {
    const auto plan = QuantizePlan::make(from, shape, options);
    return plan ? Code::ok : plan.error().code();
  };
  const Shape shape{4, 8};
  EXPECT_EQ(code(Dtype::f16, shape, {.axis = 1}), Code::ok);
  EXPECT_EQ(code(Dtype::f64, shape, {}), Code::invalid_argument);
  EXPECT_EQ(code(Dtype::f16, shape, {.to = Dtype::u8}), Code::invalid_argument);
  EXPECT_EQ(code(Dtype::f16, shape, {.to = Dtype::i16}), Code::invalid_argument);
  EXPECT_EQ(code(Dtype::f16, shape, {.axis = 2}), Code::invalid_argument);
  EXPECT_EQ(code(Dtype::f16, shape, {.axis = 0, .block = 4}), Code::invalid_argument);
  EXPECT_EQ(code(Dtype::f16, {}, {.block = 4}), Code::invalid_argument);
  EXPECT_EQ(code(Dtype::f16, {4, 0}, {}), Code::invalid_argument);
  EXPECT_EQ(code(Dtype::f16, {1ull << 40, 1ull << 40}, {}), Code::invalid_argument);
}

TEST(Quantize, refuses_pieces_that_are_not_whole_steps) {
  const auto plan =
      QuantizePlan::make(Dtype::f32, Shape{4, 6}, {.to = Dtype::i4, .block = 3})
          .value();
  EXPECT_EQ(plan.step(), 6u);
  const auto code = [&plan](std::uint64_t first, std::size_t count, std::size_t size) {
    std::vector<std::byte> out(size);
    const auto status = Quantizer(plan).quantize(first, bytes_of(Values(count)), out);
    return status ? Code::ok : status.error().code();
  };
  EXPECT_EQ(code(6, 12, 6), Code::ok);
  EXPECT_EQ(code(3, 6, 3), Code::invalid_argument);
  EXPECT_EQ(code(6, 9, 5), Code::invalid_argument);
  EXPECT_EQ(code(6, 12, 7), Code::invalid_argument);
  EXPECT_EQ(code(18, 12, 6), Code::invalid_argument);
  EXPECT_EQ(Quantizer(plan).measure(0, bytes_of(Values(6))).error().code(),
            Code::invalid_argument);
}

TEST(Dequantize, refuses_what_does_not_go_together) {
  const Shape shape{2, 3};
  const std::vector<std::byte> codes(6);
  const Values scales(2, 0.5f);
  std::vector<std::byte> out(24);
  const QuantizedTensor good{.dtype = Dtype::i8,
                             .shape = shape,
                             .axis = 0,
                             .bytes = codes,
                             .scales = std::as_bytes(std::span(scales)),
                             .zero_points = {}};
  const auto code = [&out](const QuantizedTensor& tensor, Dtype to = Dtype::f32) {
    const auto status = dequantize(tensor, to, out);
    return status ? Code::ok : status.error().code();
  };
  EXPECT_EQ(code(good), Code::ok);
  EXPECT_EQ(code(good, Dtype::i8), Code::invalid_argument);
  EXPECT_EQ(code(good, Dtype::f16), Code::invalid_argument) << "half of the output";
  QuantizedTensor bad = good;
  bad.dtype = Dtype::i16;
  EXPECT_EQ(code(bad), Code::invalid_argument);
  bad = good;
  bad.axis = 1;
  EXPECT_EQ(code(bad), Code::invalid_argument) << "three scales";
  bad.axis = 2;
  EXPECT_EQ(code(bad), Code::invalid_argument);
  bad.axis = 0;
  bad.block = 2;
  EXPECT_EQ(code(bad), Code::invalid_argument) << "blocks along the first axis";
  bad = good;
  bad.zero_points = std::span(codes).first(1);
  EXPECT_EQ(code(bad), Code::invalid_argument);
  bad = good;
  bad.bytes = std::span(codes).first(5);
  EXPECT_EQ(code(bad), Code::invalid_argument);
}

TEST(Dequantizer, gives_in_pieces_what_it_gives_at_once) {
  const Shape shape{7, 9};
  Values values(63);
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = std::sin(static_cast<float>(i));
  for (const Dtype to : {Dtype::i8, Dtype::i4}) {
    const Quantized all = quantize_all(values, shape, {.to = to, .block = 4});
    const QuantizedTensor tensor{.dtype = to,
                                 .shape = shape,
                                 .axis = 1,
                                 .block = 4,
                                 .bytes = all.codes,
                                 .scales = std::as_bytes(std::span(all.scales)),
                                 .zero_points = {}};
    std::vector<std::byte> whole(63 * 4);
    ASSERT_TRUE(dequantize(tensor, Dtype::f32, whole));
    const auto dequantizer = Dequantizer::make(tensor, Dtype::f32).value();
    const auto piece = [&](std::uint64_t first, std::uint64_t count,
                           std::uint64_t more_codes = 0) {
      const std::uint64_t a_byte = to == Dtype::i4 ? 2 : 1;
      const auto codes =
          std::span(all.codes).subspan(std::min<std::size_t>(first / a_byte, 32),
                                       (count + a_byte - 1) / a_byte + more_codes);
      std::vector<std::byte> out(count * 4);
      const auto status = dequantizer.dequantize(first, codes, out);
      if (!status) return status.error().code();
      EXPECT_TRUE(
          std::ranges::equal(out, std::span(whole).subspan(first * 4, count * 4)));
      return Code::ok;
    };
    for (const std::uint64_t first : {0, 2, 10, 30})
      for (const std::uint64_t count : {0, 1, 8, 20})
        EXPECT_EQ(piece(first, count), Code::ok) << first << " " << count;
    EXPECT_EQ(piece(3, 8), Code::invalid_argument) << "odd";
    EXPECT_EQ(piece(62, 2), Code::invalid_argument) << "past the end";
    EXPECT_EQ(piece(2, 8, 1), Code::invalid_argument) << "codes of more elements";
  }
}

// What a file says of its quantized tensor is what dequantize() wants.
TEST(QuantizedTensor, is_found_in_a_model) {
  const Folder folder;
  const std::string path = folder.path("m.weig");
  const Shape shape{4, 6};
  Values values(24);
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = std::cos(static_cast<float>(i));
  const auto bytes = bytes_of(values);
  const TensorData tensors[] = {
      {{.name = "w", .dtype = Dtype::f32, .shape = shape}, bytes},
      {{.name = "x", .dtype = Dtype::f32, .shape = shape}, bytes}};
  ASSERT_TRUE(save(folder.path("plain.weig"), tensors));
  const QuantizeOptions how{.to = Dtype::u8, .scheme = Scheme::asymmetric, .block = 4};
  const std::string source = folder.path("plain.weig");
  ASSERT_TRUE(convert({&source, 1}, path,
                      {.change = [&](std::string_view name, Dtype,
                                     std::span<const std::uint64_t>) -> TensorChange {
                         if (name == "w") return how;
                         return Keep{};
                       },
                       .progress = {}}));

  const Model model = Model::open(path).value();
  const Tensor changed = model.tensor("w").value();
  const QuantizedTensor found = quantized_tensor(model, changed).value();
  const Quantized expected = quantize_all(values, shape, how);
  EXPECT_EQ(found.dtype, Dtype::u8);
  EXPECT_EQ(found.axis, 1u);
  EXPECT_EQ(found.block, 4u);
  EXPECT_TRUE(std::ranges::equal(found.shape, shape));
  EXPECT_TRUE(std::ranges::equal(found.bytes, expected.codes));
  EXPECT_TRUE(std::ranges::equal(found.scales, bytes_of(expected.scales)));
  EXPECT_TRUE(std::ranges::equal(found.zero_points, expected.zero_points));
  for (const char* name : {"x", "w.scale"}) {
    const Tensor tensor = model.tensor(name).value();
    const auto none = quantized_tensor(model, tensor);
    ASSERT_FALSE(none);
    EXPECT_EQ(none.error().code(), Code::invalid_argument);
    EXPECT_EQ(none.error().fields().tensor, name);
  }
}

}  // namespace
}  // namespace weig::test
