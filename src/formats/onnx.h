// SPDX-License-Identifier: Apache-2.0
// ONNX models: the tensors of a graph, of the graphs in it, and of its Constant nodes.
#pragma once

#include "formats/input.h"
#include "formats/manifest.h"

namespace weig {

// What is accepted, refused and left behind, and how tensors are named, is in
// docs/onnx.md. Of tensors in other files, the manifest says where they are said to be:
// check_other_files() proves it, once those are found. `input` is read in pieces.
Result<Manifest> read_onnx(const Input& input);

}  // namespace weig
