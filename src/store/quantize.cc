// SPDX-License-Identifier: Apache-2.0
// Quantizing: which elements share a scale, which scale they get, and in which pieces
// the work is done. The arithmetic on elements is kernels/affine.cc.
#include <weig/quantize.h>

#include <algorithm>
#include <cmath>
#include <mutex>
#include <string>

#include "core/bytes.h"
#include "core/record.h"
#include "core/try.h"
#include "kernels/affine.h"
#include "store/block_grid.h"
#include "store/codes.h"
#include "store/parallel.h"

namespace weig {
namespace {

// Elements that one scale may have for a piece to hold all of them.
constexpr std::uint64_t kMaxStep = std::uint64_t{1} << 20;
// Elements that a thread takes at a time; and those that it measures and then
// quantizes, few enough to stay in its nearest cache.
constexpr std::uint64_t kPart = std::uint64_t{1} << 17;
constexpr std::uint64_t kChunk = std::uint64_t{1} << 13;

kernels::CodeRange range_of(Dtype dtype) noexcept {
  switch (dtype) {
    case Dtype::i4:
      return {-8, 7};
    case Dtype::u4:
      return {0, 15};
    case Dtype::u8:
      return {0, 255};
    default:
      return {-128, 127};
  }
}

std::uint64_t element_bytes(Dtype dtype) noexcept {
  return dtype_info(dtype)->block_bytes;
}

// The bits of infinity, where kernels::measure() has those of elements.
std::uint32_t infinity_bits(Dtype from) noexcept {
  return from == Dtype::f16 ? 0x7C000000 : 0x7F800000;
}

Status check_types(Dtype from, const QuantizeOptions& options) {
  if (!kernels::is_quantizable(from))
    return Error(Code::invalid_argument, "elements of this type cannot be quantized")
        .found(std::string(dtype_name(from)))
        .expected("f32, f16 or bf16");
  const bool is_signed = options.to == Dtype::i8 || options.to == Dtype::i4;
  const bool is_unsigned = options.to == Dtype::u8 || options.to == Dtype::u4;
  if (is_signed || (is_unsigned && options.scheme == Scheme::asymmetric)) return {};
  return Error(Code::invalid_argument, "elements cannot be quantized to this type")
      .found(std::string(dtype_name(options.to)))
      .expected(options.scheme == Scheme::symmetric ? "i8 or i4" : "i8, u8, i4 or u4");
}

// The axis as a quantization entry has it.
Result<std::uint32_t> axis_of(std::span<const std::uint64_t> shape,
                              const QuantizeOptions& options) {
  if (options.axis && *options.axis >= shape.size())
    return Error(Code::invalid_argument, "the axis of the scales is not there")
        .found(*options.axis)
        .expected("below the rank, " + std::to_string(shape.size()));
  if (options.block == 0) return options.axis.value_or(disk::kNone);
  if (shape.empty())
    return Error(Code::invalid_argument, "blocks need a dimension")
        .found("rank 0")
        .expected("rank 1 or more");
  const auto last = static_cast<std::uint32_t>(shape.size() - 1);
  if (options.axis.value_or(last) != last)
    return Error(Code::invalid_argument, "blocks lie along the last axis")
        .found(*options.axis)
        .expected(last);
  return last;
}

// How many neighbours have scales of their own that nobody else has; `count`: all.
std::uint64_t independent_elements(std::span<const std::uint64_t> shape,
                                   std::uint32_t axis, std::uint32_t block,
                                   std::uint64_t count) {
  const BlockGrid grid = BlockGrid::of(shape, axis, block);
  if (axis == disk::kNone) return count;
  if (block != 0) return grid.row % block == 0 ? block : grid.row;
  return grid.row * shape[axis] == count ? grid.row : count;
}

}  // namespace

Result<QuantizePlan> QuantizePlan::make(Dtype from,
                                        std::span<const std::uint64_t> shape,
                                        const QuantizeOptions& options) {
  WEIG_TRY(check_types(from, options));
  const Implied source = implied_bytes(*dtype_info(from), shape);
  if (source.rule != Rule::none)
    return Error(Code::invalid_argument, std::string(rule_text(source.rule)));
  if (source.bytes == 0)
    return Error(Code::invalid_argument, "a tensor without elements is not quantized");
  WEIG_TRY_ASSIGN(axis, axis_of(shape, options));
  QuantizePlan plan;
  plan.from_ = from;
  plan.to_ = options.to;
  plan.scheme_ = options.scheme;
  plan.axis_ = axis;
  plan.block_ = options.block;
  plan.shape_.assign(shape.begin(), shape.end());
  plan.element_count_ = source.bytes / element_bytes(from);
  plan.scale_shape_ = parameter_shape(shape, axis, options.block);
  for (const std::uint64_t size : plan.scale_shape_) plan.scale_count_ *= size;
  plan.step_ = independent_elements(shape, axis, options.block, plan.element_count_);
  plan.measures_first_ = plan.step_ > kMaxStep;
  if (plan.measures_first_) plan.step_ = 1;
  // A piece begins on a whole byte.
  if (is_nibble(plan.to_) && plan.step_ % 2 != 0) plan.step_ *= 2;
  return plan;
}

std::uint64_t QuantizePlan::source_bytes() const noexcept {
  return element_count_ * element_bytes(from_);
}
std::uint64_t QuantizePlan::quantized_bytes() const noexcept {
  return code_bytes(to_, element_count_);
}
std::uint64_t QuantizePlan::zero_point_bytes() const noexcept {
  return scheme_ == Scheme::asymmetric ? code_bytes(to_, scale_count_) : 0;
}

namespace {

// Elements of the tensor, with their bytes.
struct Elements {
  std::uint64_t first = 0;
  std::uint64_t count = 0;
  const std::byte* bytes = nullptr;
};

// What is measured of some scales that follow each other.
struct Extremes {
  std::uint64_t first = 0;
  std::vector<std::uint32_t> highs;
  std::vector<std::uint32_t> lows;

  void reset(std::uint64_t first_scale, std::uint64_t count) {
    first = first_scale;
    highs.assign(count, 0);
    lows.assign(count, 0);
  }
  void raise(const Extremes& other) {
    for (std::size_t i = 0; i < other.highs.size(); ++i) {
      const std::size_t at = other.first - first + i;
      // None is negative: both are the largest as unsigned numbers.
      highs[at] = std::max(highs[at], other.highs[i]);
      lows[at] = std::max(lows[at], other.lows[i]);
    }
  }
};

}  // namespace

struct Quantizer::State {
  explicit State(const QuantizePlan& given)
      : plan(given),
        grid(BlockGrid::of(plan.shape(), plan.axis(), plan.block())),
        scales(plan.scale_count(), 1.0f) {
    if (plan.scheme() == Scheme::asymmetric) zeros.resize(plan.scale_count());
    if (plan.measures_first()) measured.reset(0, plan.scale_count());
  }

  // The parts of a piece: each begins at a multiple of the step.
  std::uint64_t part_size() const {
    return plan.step() * std::max<std::uint64_t>(1, kPart / plan.step());
  }
  Elements part(const Elements& piece, std::uint64_t number) const {
    const std::uint64_t at = number * part_size();
    return {piece.first + at, std::min(part_size(), piece.count - at),
            piece.bytes + at * element_bytes(plan.from())};
  }
  std::uint64_t part_count(const Elements& piece) const {
    return piece.count / part_size() + (piece.count % part_size() != 0 ? 1 : 0);
  }

  Result<Elements> piece(std::uint64_t first, Bytes in) const;
  Status measure(const Elements& part, Extremes& extremes) const;
  Error not_finite(const Elements& part) const;
  Status quantize(const Elements& part, std::byte* out);
  void set_scales(const Extremes& extremes);
  void set_scale(std::uint64_t scale, std::uint32_t high, std::uint32_t low);
  void write_codes(const Elements& part, std::byte* out) const;

  const QuantizePlan plan;
  const BlockGrid grid;
  std::vector<float> scales;
  std::vector<std::int16_t> zeros;  // empty where all are 0
  Extremes measured;                // of all scales, where the plan measures first
  bool scales_are_set = false;      // from `measured`
};

// The piece, proven to be one.
Result<Elements> Quantizer::State::piece(std::uint64_t first, Bytes in) const {
  const std::uint64_t unit = element_bytes(plan.from());
  const std::uint64_t count = in.size() / unit;
  if (in.size() % unit != 0 || !fits(first, count, plan.element_count()))
    return Error(Code::invalid_argument, "a piece lies outside its tensor")
        .found(std::to_string(in.size()) + " bytes at element " + std::to_string(first))
        .expected("within " + std::to_string(plan.element_count()) + " elements of " +
                  std::to_string(unit) + " bytes");
  const bool is_last = first + count == plan.element_count();
  if (first % plan.step() != 0 || (count % plan.step() != 0 && !is_last))
    return Error(Code::invalid_argument, "a piece is not made of whole steps")
        .found(std::to_string(count) + " elements at " + std::to_string(first))
        .expected("multiples of " + std::to_string(plan.step()));
  return Elements{first, count, in.data()};
}

// Sets `extremes` to those of the part.
Status Quantizer::State::measure(const Elements& part, Extremes& extremes) const {
  const std::uint64_t last = part.first + part.count - 1;
  const std::uint64_t round = grid.row * grid.rows;  // from here on, scales come again
  if (part.first / round == last / round) {
    const std::uint64_t begin = grid.scale_of(part.first);
    extremes.reset(begin, grid.scale_of(last) - begin + 1);
  } else {
    extremes.reset(0, plan.scale_count());
  }
  const std::uint64_t unit = element_bytes(plan.from());
  grid.for_each_run(part.first, part.count,
                    [&](std::uint64_t at, std::uint64_t scale, kernels::Runs runs) {
                      const std::uint64_t i = scale - extremes.first;
                      kernels::measure(plan.from(), part.bytes + at * unit, runs,
                                       extremes.highs.data() + i,
                                       extremes.lows.data() + i);
                    });
  const std::uint32_t infinity = infinity_bits(plan.from());
  for (std::size_t i = 0; i < extremes.highs.size(); ++i)
    if (extremes.highs[i] >= infinity || (extremes.lows[i] & 0x7FFFFFFF) >= infinity)
      return not_finite(part);
  return {};
}

Error Quantizer::State::not_finite(const Elements& part) const {
  std::uint32_t high = 0;
  std::uint32_t low = 0;
  std::uint64_t i = 0;
  for (; i < part.count && high < infinity_bits(plan.from()) &&
         (low & 0x7FFFFFFF) < infinity_bits(plan.from());
       ++i)
    kernels::measure(plan.from(), part.bytes + i * element_bytes(plan.from()), {1, 1},
                     &high, &low);
  const std::uint32_t infinity = infinity_bits(plan.from());
  const char* what = "NaN";
  if (high == infinity) what = "infinity";
  if ((low & 0x7FFFFFFF) == infinity && low >> 31 != 0) what = "-infinity";
  return Error(Code::invalid_argument,
               "an element is not finite: no integer stands for it")
      .found(what + std::string(" at element ") + std::to_string(part.first + i - 1))
      .expected("finite numbers");
}

void Quantizer::State::set_scale(std::uint64_t scale, std::uint32_t high,
                                 std::uint32_t low) {
  const kernels::CodeRange range = range_of(plan.to());
  const float max = kernels::float_of_bits(plan.from(), high);
  const float min = low >> 31 != 0 ? kernels::float_of_bits(plan.from(), low) : 0.0f;
  float size = 1.0f;
  if (max > 0 || min < 0) {
    // The difference of two floats may be larger than any float.
    size = plan.scheme() == Scheme::symmetric
               ? std::max(max, -min) / static_cast<float>(range.high)
               : static_cast<float>((double{max} - double{min}) /
                                    double(range.high - range.low));
    size = std::max(size, 0x1p-126f);
  }
  scales[scale] = size;
  if (zeros.empty()) return;
  const float zero = std::nearbyint(static_cast<float>(range.low) - min / size);
  zeros[scale] = static_cast<std::int16_t>(
      std::clamp(zero, static_cast<float>(range.low), static_cast<float>(range.high)));
}

void Quantizer::State::set_scales(const Extremes& extremes) {
  for (std::size_t i = 0; i < extremes.highs.size(); ++i)
    set_scale(extremes.first + i, extremes.highs[i], extremes.lows[i]);
}

// Quantizes with the scales that are set.
void Quantizer::State::write_codes(const Elements& part, std::byte* out) const {
  const std::uint64_t unit = element_bytes(plan.from());
  grid.for_each_run(part.first, part.count,
                    [&](std::uint64_t at, std::uint64_t scale, kernels::Runs runs) {
                      kernels::quantize(plan.from(), part.bytes + at * unit, runs,
                                        scales.data() + scale,
                                        zeros.empty() ? nullptr : zeros.data() + scale,
                                        range_of(plan.to()), out + at);
                    });
}

// One part, chunk by chunk: measured where that has not been done, then written.
Status Quantizer::State::quantize(const Elements& part, std::byte* out) {
  const std::uint64_t chunk =
      plan.step() * std::max<std::uint64_t>(1, kChunk / plan.step());
  const std::uint64_t unit = element_bytes(plan.from());
  std::vector<std::byte> codes(is_nibble(plan.to()) ? std::min(chunk, part.count) : 0);
  Extremes extremes;
  for (std::uint64_t at = 0; at < part.count; at += chunk) {
    const Elements now{part.first + at, std::min(chunk, part.count - at),
                       part.bytes + at * unit};
    if (!plan.measures_first()) {
      WEIG_TRY(measure(now, extremes));
      set_scales(extremes);
    }
    std::byte* const target = out + code_bytes(plan.to(), at);
    if (codes.empty()) {
      write_codes(now, target);
    } else {
      write_codes(now, codes.data());
      kernels::pack_nibbles(codes.data(), now.count, target);
    }
  }
  return {};
}

Quantizer::Quantizer(const QuantizePlan& plan)
    : state_(std::make_unique<State>(plan)) {}
Quantizer::Quantizer(Quantizer&&) noexcept = default;
Quantizer& Quantizer::operator=(Quantizer&&) noexcept = default;
Quantizer::~Quantizer() = default;

Status Quantizer::measure(std::uint64_t first, std::span<const std::byte> in) {
  State& state = *state_;
  if (!state.plan.measures_first() || state.scales_are_set)
    return Error(Code::invalid_argument, "nothing is to be measured (any more)");
  WEIG_TRY_ASSIGN(piece, state.piece(first, in));
  std::mutex mutex;  // guards state.measured
  return run_in_parallel(state.part_count(piece), [&](std::uint64_t i) -> Status {
    Extremes extremes;
    WEIG_TRY(state.measure(state.part(piece, i), extremes));
    const std::lock_guard lock(mutex);
    state.measured.raise(extremes);
    return {};
  });
}

Status Quantizer::quantize(std::uint64_t first, std::span<const std::byte> in,
                           std::span<std::byte> out) {
  State& state = *state_;
  WEIG_TRY_ASSIGN(piece, state.piece(first, in));
  const std::uint64_t expected = code_bytes(state.plan.to(), piece.count);
  if (out.size() != expected)
    return Error(Code::invalid_argument,
                 "the output of a quantized piece has another size")
        .found(std::to_string(out.size()) + " bytes")
        .expected(std::to_string(expected));
  if (state.plan.measures_first() && !state.scales_are_set) {
    state.set_scales(state.measured);
    state.scales_are_set = true;
  }
  return run_in_parallel(state.part_count(piece), [&](std::uint64_t i) {
    return state.quantize(
        state.part(piece, i),
        out.data() + code_bytes(state.plan.to(), i * state.part_size()));
  });
}

std::span<const float> Quantizer::scales() const& noexcept { return state_->scales; }

std::vector<std::byte> Quantizer::zero_points() const {
  const std::vector<std::int16_t>& zeros = state_->zeros;
  std::vector<std::byte> codes(zeros.size());
  for (std::size_t i = 0; i < zeros.size(); ++i)
    codes[i] = static_cast<std::byte>(zeros[i]);
  if (!is_nibble(state_->plan.to())) return codes;
  std::vector<std::byte> packed(code_bytes(state_->plan.to(), codes.size()));
  kernels::pack_nibbles(codes.data(), codes.size(), packed.data());
  return packed;
}

}  // namespace weig
