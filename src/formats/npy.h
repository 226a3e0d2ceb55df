// SPDX-License-Identifier: Apache-2.0
// npy: NumPy's files, one array (.npy) or an archive of them (.npz). docs/numpy.md says
// what is accepted and refused. Pure.
#pragma once

#include <span>
#include <string_view>

#include <weig/convert.h>

#include "formats/input.h"
#include "formats/manifest.h"
#include "formats/zip.h"

namespace weig {

// The array as a tensor of this name. Lenient ignores what follows it.
Result<Manifest> read_npy(const Input& input, std::string_view name,
                          Strictness strictness);

// Whether the archive's names are those of arrays. An empty archive is one of none.
bool is_npz(std::span<const ZipMember> members);

// The archive's arrays, by their members' names without ".npy". Lenient leaves out
// those that are no tensors.
Result<Manifest> read_npz(const Input& input, std::span<const ZipMember> members,
                          Strictness strictness);

}  // namespace weig
