// SPDX-License-Identifier: Apache-2.0
// Elements as bytes: little-endian, as the format stores them, or widened to the type
// that NumPy has.
#pragma once

#include <weig/view.h>

#include "output.h"
#include "slice.h"

namespace weig::cli {

// The type that holds every value of `dtype` exactly and that NumPy knows: f32 for
// narrow floats, i8 and u8 for narrow integers, complex64 for narrow complex numbers;
// itself for all others.
Dtype widened(Dtype dtype) noexcept;

// All bytes of a tensor of any type.
void write_bytes(Output& output, const Tensor& tensor);

// The elements of a selection, in order, as they are stored. Requires a plain type.
// Those that share bytes are packed anew, from the least significant bit up.
void write_elements(Output& output, const Tensor& tensor, const Selection& selection);

// The same as widened(tensor.dtype()). Truth values, of which files may hold any byte
// but 0 for true, become 0 and 1.
void write_widened(Output& output, const Tensor& tensor, const Selection& selection);

}  // namespace weig::cli
