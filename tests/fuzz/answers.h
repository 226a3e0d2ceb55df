// SPDX-License-Identifier: Apache-2.0
// Everything that a View can be asked, asked; as text, so that two Views compare.
#pragma once

#include <string>

#include <weig/view.h>

namespace weig::fuzz {

// Whether answers speak of the data's bytes, or only of where they lie.
enum class Data { read, leave };

// Tensors by ordinal and by name, typed slices, owners, digests, groups, metadata,
// source, shard, quantization, sections of all kinds: values, or messages of failures.
// Ends the process where an answer breaks a rule of its own (a typed slice of another
// size than the tensor, a tensor found under another name).
std::string answers(const View& view, Data data = Data::read);

// One tensor: name, type, shape, bytes; without its place.
std::string tensor_text(const Tensor& tensor, Data data = Data::read);

// What must hold among the tensors of a file that has been proven: order, alignment,
// disjoint ranges, owners, names that lead back. Ends the process where it does not.
void promise_sound(const View& view);

}  // namespace weig::fuzz
