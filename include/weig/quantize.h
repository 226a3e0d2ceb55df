// SPDX-License-Identifier: Apache-2.0
// Numbers as other numbers: casts between floating types, and affine quantization to 8
// and 4 bits and back, as ONNX has it (docs/quantization.md).
//
// Bytes are elements in this machine's byte order, as a Model gives them, at any
// alignment; ranges must not overlap. All work is split among the CPUs, by the widest
// instructions that they have, and gives the same bits on every machine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include <weig/dtype.h>
#include <weig/error.h>
#include <weig/model.h>
#include <weig/version.h>
#include <weig/view.h>

namespace weig {

// Whether cast() knows the type: f32, f16, bf16, f8_e4m3fn.
bool is_castable(Dtype dtype) noexcept;

// Every element of `in` as the nearest number of the type `to`, of two as near the one
// whose last bit is 0; subnormal numbers like all others. Between equal types, a copy.
//
// Above the largest number, f16 and bf16 become infinity; f8_e4m3fn, which has none,
// becomes its largest, 448, as infinity does (ONNX Cast with saturate = 1; PyTorch
// makes NaN of them). NaN stays NaN with its sign, quiet, and with the leading bits of
// its payload where `to` has such bits.
//
// Fails with invalid_argument: a type that is not castable; `in` or `out` of another
// size than as many elements take.
Status cast(Dtype from, std::span<const std::byte> in, Dtype to,
            std::span<std::byte> out);

// How an element x becomes an integer q: saturate(round(x / scale) + zero_point), where
// the quotient is rounded to f32 and then to an integer, of two as near the even one
// (ONNX QuantizeLinear). Elements that share a scale are a block below; all of its
// rules:
//
// symmetric: scale = max|x| / 127 (of 4 bits, 7), zero_point is 0 and not stored.
// asymmetric: scale = (max - min) / 255 (of 4 bits, 15), where max is at least 0 and
// min at most 0; zero_point = saturate(round(lowest integer - min / scale)).
//
// Scales are f32, rounded once from the exact quotient of (for max - min, from that of
// doubles); never below 2^-126, so that no quotient needs a subnormal scale: what is
// below 2^-127 becomes 0. A block of zeros has scale 1. A block with NaN or infinity is
// refused: no integer stands for them.
enum class Scheme { symmetric, asymmetric };

// Which elements share a scale.
struct QuantizeOptions {
  // i8 or i4; asymmetric ones may be u8 or u4 as well.
  Dtype to = Dtype::i8;
  Scheme scheme = Scheme::symmetric;
  // Without an axis and a block, all. With an axis, those of one index of it.
  std::optional<std::uint32_t> axis = {};
  // Above 0: so many neighbours along the last axis, which `axis` names if it is given.
  // The last block of a row may have fewer.
  std::uint32_t block = 0;
  friend bool operator==(const QuantizeOptions&, const QuantizeOptions&) = default;
};

// What quantizing a tensor gives: its types, shapes and sizes, as a quantization
// section (docs/format.md, 6) tells of them. The quantized tensor keeps its shape.
class QuantizePlan {
 public:
  // Fails with invalid_argument: `from` is not f32, f16 or bf16; a type, scheme, axis
  // or block that cannot be; a shape that the format refuses, or without any element.
  static Result<QuantizePlan> make(Dtype from, std::span<const std::uint64_t> shape,
                                   const QuantizeOptions& options);

  Dtype from() const noexcept { return from_; }
  Dtype to() const noexcept { return to_; }
  Scheme scheme() const noexcept { return scheme_; }
  // As a quantization entry has them: disk::kNone and 0 where there are none.
  std::uint32_t axis() const noexcept { return axis_; }
  std::uint32_t block() const noexcept { return block_; }

  std::span<const std::uint64_t> shape() const& noexcept WEIG_LIFETIMEBOUND {
    return shape_;
  }
  std::span<const std::uint64_t> shape() const&& = delete;
  std::uint64_t element_count() const noexcept { return element_count_; }
  std::uint64_t source_bytes() const noexcept;
  std::uint64_t quantized_bytes() const noexcept;
  // Of the scales, f32; the zero points, which are of the type to(), have it too. Empty
  // (one number) without axis and block; one dimension with an axis; with blocks that
  // of the tensor, the last dimension counted in blocks.
  std::span<const std::uint64_t> scale_shape() const& noexcept WEIG_LIFETIMEBOUND {
    return scale_shape_;
  }
  std::span<const std::uint64_t> scale_shape() const&& = delete;
  std::uint64_t scale_count() const noexcept { return scale_count_; }
  std::uint64_t zero_point_bytes() const noexcept;  // 0 where they are not stored

  // Pieces of a tensor begin at multiples of so many elements.
  std::uint64_t step() const noexcept { return step_; }
  // Whether all pieces have to be measured before the first is quantized: where a scale
  // belongs to elements that are far apart, or to more than a million.
  bool measures_first() const noexcept { return measures_first_; }

 private:
  Dtype from_{};
  Dtype to_{};
  Scheme scheme_{};
  std::uint32_t axis_ = 0;
  std::uint32_t block_ = 0;
  bool measures_first_ = false;
  std::vector<std::uint64_t> shape_;
  std::uint64_t element_count_ = 1;
  std::vector<std::uint64_t> scale_shape_;
  std::uint64_t scale_count_ = 1;
  std::uint64_t step_ = 1;
};

// Quantizes one tensor, piece by piece, so that its bytes need not be in memory at
// once; its scales are. One thread at a time, which has others help.
class Quantizer {
 public:
  explicit Quantizer(const QuantizePlan& plan);
  Quantizer(Quantizer&&) noexcept;
  Quantizer& operator=(Quantizer&&) noexcept;
  ~Quantizer();

  // A piece of the tensor: `in` are the elements from number `first` on, which is a
  // multiple of step(); as many as a multiple of it, but for the last piece. Fails with
  // invalid_argument where that does not hold, `out` has not the size of the result, or
  // an element is NaN or infinite, which is named by its number.
  //
  // Only where the plan measures first: every piece once, in any order.
  Status measure(std::uint64_t first, std::span<const std::byte> in);
  // Then every piece once, in any order. What is written to `out` lies as in a file: of
  // 4 bits, two elements a byte, the first in the low half.
  Status quantize(std::uint64_t first, std::span<const std::byte> in,
                  std::span<std::byte> out);

  // When all is quantized. The spans live as long as this Quantizer.
  std::span<const float> scales() const& noexcept WEIG_LIFETIMEBOUND;
  std::span<const float> scales() const&& = delete;
  // As they lie in memory and, being bytes, in a file; empty where they are not stored.
  std::vector<std::byte> zero_points() const;

 private:
  struct State;  // src/store/quantize.cc
  std::unique_ptr<State> state_;
};

// A tensor's quantized bytes with what turns them back.
struct QuantizedTensor {
  Dtype dtype{};                         // i8, u8, i4, u4
  std::span<const std::uint64_t> shape;  // of the tensor
  std::uint32_t axis = disk::kNone;      // as in its quantization entry
  std::uint32_t block = 0;
  std::span<const std::byte> bytes;
  std::span<const std::byte> scales;       // f32
  std::span<const std::byte> zero_points;  // of the tensor's type; empty: all 0
};

// (q - zero_point) * scale in f32 (ONNX DequantizeLinear), cast to `to` by the rules of
// cast(). Fails with invalid_argument: types that are not those named above or not
// castable; an axis that is not there; blocks along another axis than the last; sizes
// that do not go together.
Status dequantize(const QuantizedTensor& tensor, Dtype to, std::span<std::byte> out);

// The same, piece by piece, so that a tensor's bytes need not be in memory at once.
class Dequantizer {
 public:
  // Does not look at the tensor's bytes, and copies all else. Fails as dequantize().
  static Result<Dequantizer> make(const QuantizedTensor& tensor, Dtype to);
  Dequantizer(Dequantizer&&) noexcept;
  Dequantizer& operator=(Dequantizer&&) noexcept;
  ~Dequantizer();

  // A piece: as many codes as `out` takes elements, from number `first` on, which is
  // even. Fails with invalid_argument where that does not hold. For many threads.
  Status dequantize(std::uint64_t first, std::span<const std::byte> in,
                    std::span<std::byte> out) const;

 private:
  struct State;  // src/store/dequantize.cc
  explicit Dequantizer(std::unique_ptr<const State> state);
  std::unique_ptr<const State> state_;
};

// A tensor of a model, both of which must outlive it, and what its quantization names.
// Fails with invalid_argument where it has none, and with unsupported where scheme,
// types or shapes are not those of dequantize().
Result<QuantizedTensor> quantized_tensor(const Model& model,
                                         const Tensor& tensor WEIG_LIFETIMEBOUND);

}  // namespace weig
