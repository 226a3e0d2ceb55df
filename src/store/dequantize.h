// SPDX-License-Identifier: Apache-2.0
// Which entries of a quantization section Dequantizer takes.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include <weig/dtype.h>
#include <weig/error.h>
#include <weig/view.h>

namespace weig {

// A tensor, by what the table says of it.
struct TensorKind {
  std::string_view name;
  Dtype dtype{};
  std::span<const std::uint64_t> shape;
};

// Whether an entry is of a known scheme, and its tensors go together; its axis was
// proven to be there when the file was opened. `zero_point` is null where there is
// none. Fails with unsupported.
Status check_dequantizable(const Quantization& entry, const TensorKind& codes,
                           const TensorKind& scale, const TensorKind* zero_point);

}  // namespace weig
