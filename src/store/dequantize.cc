// SPDX-License-Identifier: Apache-2.0
// Dequantizing: what goes together is proven here, and taken apart into runs; the
// arithmetic on elements is kernels/affine.cc.
#include "store/dequantize.h"

#include <weig/quantize.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <string>

#include "core/bytes.h"
#include "core/record.h"
#include "core/text.h"
#include "core/try.h"
#include "kernels/affine.h"
#include "kernels/float_cast.h"
#include "store/block_grid.h"
#include "store/codes.h"
#include "store/parallel.h"

namespace weig {
namespace {

// Elements that a thread takes at a time, and those that it has as floats meanwhile:
// even numbers, so that they begin on whole bytes.
constexpr std::uint64_t kPart = std::uint64_t{1} << 17;
constexpr std::uint64_t kChunk = 4096;

Dtype byte_type(Dtype dtype) noexcept {
  if (!is_nibble(dtype)) return dtype;
  return dtype == Dtype::i4 ? Dtype::i8 : Dtype::u8;
}

Status check_size(const char* which, std::uint64_t found, std::uint64_t expected) {
  if (found == expected) return {};
  return Error(Code::invalid_argument, std::string(which) + " another size")
      .found(std::to_string(found) + " bytes")
      .expected(std::to_string(expected));
}

Status check_code_type(Dtype from, Code otherwise) {
  using enum Dtype;
  if (from == i8 || from == u8 || from == i4 || from == u4) return {};
  return Error(otherwise, "elements of this type cannot be dequantized")
      .found(std::string(dtype_name(from)))
      .expected("i8, u8, i4 or u4");
}

Status check_types(Dtype from, Dtype to) {
  WEIG_TRY(check_code_type(from, Code::invalid_argument));
  if (!kernels::is_castable(to))
    return Error(Code::invalid_argument, "elements cannot be dequantized to this type")
        .found(std::string(dtype_name(to)))
        .expected("f32, f16, bf16 or f8_e4m3fn");
  return {};
}

Status check_axis(const QuantizedTensor& tensor) {
  const std::size_t rank = tensor.shape.size();
  if (tensor.axis == disk::kNone && tensor.block == 0) return {};
  if (tensor.axis >= rank)
    return Error(Code::invalid_argument, "the axis of the scales is not there")
        .found(tensor.axis)
        .expected("below the rank, " + std::to_string(rank));
  if (tensor.block != 0 && tensor.axis + 1 != rank)
    return Error(Code::invalid_argument, "blocks lie along another axis than the last")
        .found(tensor.axis)
        .expected(rank - 1);
  return {};
}

// How many scales the tensor has.
std::uint64_t scale_count(const QuantizedTensor& tensor) {
  if (tensor.axis == disk::kNone) return 1;
  if (tensor.block == 0) return tensor.shape[tensor.axis];
  const BlockGrid grid = BlockGrid::of(tensor.shape, tensor.axis, tensor.block);
  return grid.rows * grid.blocks_per_row();
}

// The parameters as the kernels want them.
struct Parameters {
  std::vector<float> scales;
  std::vector<std::int16_t> zeros;  // empty where all are 0

  explicit Parameters(const QuantizedTensor& tensor)
      : scales(tensor.scales.size() / sizeof(float)) {
    if (!scales.empty())
      std::memcpy(scales.data(), tensor.scales.data(), tensor.scales.size());
    if (tensor.zero_points.empty()) return;
    zeros.resize(scales.size());
    std::vector<std::byte> codes(tensor.zero_points.begin(), tensor.zero_points.end());
    if (is_nibble(tensor.dtype)) {
      codes.resize(scales.size());
      kernels::unpack_nibbles(tensor.dtype, tensor.zero_points.data(), scales.size(),
                              codes.data());
    }
    for (std::size_t i = 0; i < zeros.size(); ++i)
      zeros[i] = byte_type(tensor.dtype) == Dtype::i8
                     ? std::int16_t{static_cast<std::int8_t>(codes[i])}
                     : std::int16_t{static_cast<std::uint8_t>(codes[i])};
  }
};

}  // namespace

struct Dequantizer::State {
  State(const QuantizedTensor& tensor, Dtype type, std::uint64_t elements)
      : from(tensor.dtype),
        to(type),
        count(elements),
        grid(BlockGrid::of(tensor.shape, tensor.axis, tensor.block)),
        parameters(tensor) {}

  void dequantize(std::uint64_t first, std::uint64_t many, const std::byte* codes,
                  std::byte* out) const;

  const Dtype from;
  const Dtype to;
  const std::uint64_t count;
  const BlockGrid grid;
  const Parameters parameters;
};

// Elements [first, first + many), of at most a chunk.
void Dequantizer::State::dequantize(std::uint64_t first, std::uint64_t many,
                                    const std::byte* codes, std::byte* out) const {
  std::array<std::byte, kChunk> unpacked;
  std::array<float, kChunk> floats;
  if (is_nibble(from)) {
    kernels::unpack_nibbles(from, codes, many, unpacked.data());
    codes = unpacked.data();
  }
  grid.for_each_run(
      first, many, [&](std::uint64_t at, std::uint64_t scale, kernels::Runs runs) {
        const std::int16_t* const zeros =
            parameters.zeros.empty() ? nullptr : parameters.zeros.data() + scale;
        kernels::dequantize(byte_type(from), codes + at, runs,
                            parameters.scales.data() + scale, zeros,
                            floats.data() + at);
      });
  kernels::narrow(to, floats.data(), many, out);
}

Dequantizer::Dequantizer(std::unique_ptr<const State> state)
    : state_(std::move(state)) {}
Dequantizer::Dequantizer(Dequantizer&&) noexcept = default;
Dequantizer& Dequantizer::operator=(Dequantizer&&) noexcept = default;
Dequantizer::~Dequantizer() = default;

Result<Dequantizer> Dequantizer::make(const QuantizedTensor& tensor, Dtype to) {
  WEIG_TRY(check_types(tensor.dtype, to));
  const Implied implied = implied_bytes(*dtype_info(Dtype::u8), tensor.shape);
  if (implied.rule != Rule::none)
    return Error(Code::invalid_argument, std::string(rule_text(implied.rule)));
  WEIG_TRY(check_axis(tensor));
  const std::uint64_t count = implied.bytes;
  const std::uint64_t scales = count == 0 ? 0 : scale_count(tensor);
  if (count > 0)
    WEIG_TRY(
        check_size("the scales have", tensor.scales.size(), scales * sizeof(float)));
  if (count > 0 && !tensor.zero_points.empty())
    WEIG_TRY(check_size("the zero points have", tensor.zero_points.size(),
                        code_bytes(tensor.dtype, scales)));
  return Dequantizer(std::make_unique<const State>(tensor, to, count));
}

Status Dequantizer::dequantize(std::uint64_t first, std::span<const std::byte> in,
                               std::span<std::byte> out) const {
  const State& state = *state_;
  const std::uint64_t unit = dtype_info(state.to)->block_bytes;
  const std::uint64_t count = out.size() / unit;
  if (out.size() % unit != 0 || first % 2 != 0 || !fits(first, count, state.count))
    return Error(Code::invalid_argument, "a piece lies outside its tensor")
        .found(std::to_string(out.size()) + " bytes at element " +
               std::to_string(first))
        .expected("within " + std::to_string(state.count) + " elements of " +
                  std::to_string(unit) + " bytes, from an even number on");
  WEIG_TRY(
      check_size("the quantized tensor has", in.size(), code_bytes(state.from, count)));
  return run_in_parallel(
      (count + kPart - 1) / kPart, [&](std::uint64_t part) -> Status {
        const std::uint64_t end = std::min(count, (part + 1) * kPart);
        for (std::uint64_t at = part * kPart; at < end; at += kChunk)
          state.dequantize(first + at, std::min(kChunk, end - at),
                           in.data() + code_bytes(state.from, at),
                           out.data() + at * unit);
        return {};
      });
}

Status dequantize(const QuantizedTensor& tensor, Dtype to, std::span<std::byte> out) {
  WEIG_TRY_ASSIGN(dequantizer, Dequantizer::make(tensor, to));
  const std::uint64_t count = implied_bytes(*dtype_info(Dtype::u8), tensor.shape).bytes;
  WEIG_TRY(check_size("the quantized tensor has", tensor.bytes.size(),
                      code_bytes(tensor.dtype, count)));
  WEIG_TRY(check_size("the dequantized tensor has", out.size(),
                      count * dtype_info(to)->block_bytes));
  return dequantizer.dequantize(0, tensor.bytes, out);
}

namespace {

// Whether scales, or zero points, go with the tensor.
Status check_parameter(const Quantization& entry, const TensorKind& codes,
                       const TensorKind& parameter, Dtype dtype) {
  const std::string in = " in " + in_quotes(parameter.name);
  if (parameter.dtype != dtype)
    return Error(Code::unsupported, "a parameter of its quantization has another type")
        .found(std::string(dtype_name(parameter.dtype)) + in)
        .expected(std::string(dtype_name(dtype)));
  const auto shape = parameter_shape(codes.shape, entry.axis, entry.block);
  if (is_parameter_shape(parameter.shape, shape)) return {};
  return Error(Code::unsupported, "a parameter of its quantization has another shape")
      .found(shape_text(parameter.shape) + in)
      .expected(shape_text(shape));
}

}  // namespace

Status check_dequantizable(const Quantization& entry, const TensorKind& codes,
                           const TensorKind& scale, const TensorKind* zero_point) {
  constexpr std::uint32_t kKnownScheme = 1;
  if (entry.scheme != kKnownScheme)
    return Error(Code::unsupported, "its quantization scheme is not known")
        .found(entry.scheme)
        .expected(kKnownScheme);
  if (entry.scale2 != disk::kNone)
    return Error(Code::unsupported, "its scales have scales of their own");
  WEIG_TRY(check_code_type(codes.dtype, Code::unsupported));
  const std::size_t rank = codes.shape.size();
  if (entry.block != 0 && entry.axis + 1 != rank)
    return Error(Code::unsupported, "its blocks lie along another axis than the last")
        .found(entry.axis)
        .expected(rank - 1);
  WEIG_TRY(check_parameter(entry, codes, scale, Dtype::f32));
  if (zero_point == nullptr) return {};
  return check_parameter(entry, codes, *zero_point, codes.dtype);
}

namespace {

TensorKind kind_of(const Tensor& tensor) {
  return {.name = tensor.name(), .dtype = tensor.dtype(), .shape = tensor.shape()};
}

// The entry of a tensor: they are in ascending order of ordinals.
Result<std::optional<Quantization>> entry_of(const Model& model,
                                             std::uint32_t ordinal) {
  WEIG_TRY_ASSIGN(count, model.quantization_count());
  std::uint32_t low = 0;
  for (std::uint32_t high = count; low < high;) {
    const std::uint32_t middle = low + (high - low) / 2;
    WEIG_TRY_ASSIGN(entry, model.quantization(middle));
    if (entry.tensor == ordinal) return std::optional(entry);
    entry.tensor < ordinal ? low = middle + 1 : high = middle;
  }
  return std::optional<Quantization>();
}

}  // namespace

Result<QuantizedTensor> quantized_tensor(const Model& model, const Tensor& tensor) {
  WEIG_TRY_ASSIGN(entry, entry_of(model, tensor.ordinal()));
  if (!entry)
    return Error(Code::invalid_argument, "the tensor is not quantized")
        .file(model.path())
        .tensor(tensor.name());
  WEIG_TRY_ASSIGN(scale, model[entry->scale]);
  std::optional<Tensor> zero_point;
  if (entry->zero_point != disk::kNone) {
    WEIG_TRY_ASSIGN(found, model[entry->zero_point]);
    zero_point = found;
  }
  const TensorKind zero_kind = zero_point ? kind_of(*zero_point) : TensorKind{};
  if (auto status = check_dequantizable(*entry, kind_of(tensor), kind_of(scale),
                                        zero_point ? &zero_kind : nullptr);
      !status)
    return std::move(status).error().file(model.path()).tensor(tensor.name());
  return QuantizedTensor{
      .dtype = tensor.dtype(),
      .shape = tensor.shape(),
      .axis = entry->axis,
      .block = entry->block,
      .bytes = tensor.bytes(),
      .scales = scale.bytes(),
      .zero_points = zero_point ? zero_point->bytes() : std::span<const std::byte>()};
}

}  // namespace weig
