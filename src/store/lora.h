// SPDX-License-Identifier: Apache-2.0
// What a file and an overlay have in common where an adapter is added: which tensor is
// whose, and the sum.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <weig/dtype.h>
#include <weig/error.h>
#include <weig/lora.h>

namespace weig {

// The number of the base's tensor of that name, if there is one.
using FindTensor =
    std::function<Result<std::optional<std::uint64_t>>(std::string_view name)>;

// For each module the number of its tensor. Fails with not_found and corrupt, as
// apply_lora() does.
Result<std::vector<std::uint64_t>> match_modules(const LoraAdapter& adapter,
                                                 const FindTensor& find);

// Whether a module can be added to a tensor of such a type and shape.
Status check_base(const LoraAdapter& adapter, const LoraModule& module, Dtype dtype,
                  std::span<const std::uint64_t> shape);

// A part of a matrix whose elements follow each other: whole rows, or some columns of
// one.
struct LoraPiece {
  std::uint64_t row = 0;
  std::uint64_t rows = 0;
  std::uint64_t column = 0;
  std::uint64_t columns = 0;
};

// One module, ready to be added to its tensor piece by piece. Borrows the adapter.
class LoraDelta {
 public:
  // `dtype` is the tensor's.
  LoraDelta(const LoraAdapter& adapter, const LoraModule& module, Dtype dtype);

  // Adds to the elements of a piece, in this machine's byte order. Has all CPUs help.
  Status add(const LoraPiece& piece, std::span<std::byte> elements) const;

 private:
  void add_part(const LoraPiece& part, std::byte* elements,
                std::uint64_t row_bytes) const;
  void read_left(std::uint64_t row, std::uint64_t rows, std::span<double> left) const;

  const LoraModule& module_;
  Dtype dtype_;
  Dtype factor_dtype_;               // of the left factor
  std::span<const std::byte> left_;  // rows x rank, or the other way round
  std::vector<float> right_;         // rank x columns
  std::uint64_t stride_ = 0;         // between rows of `right_`
};

}  // namespace weig
