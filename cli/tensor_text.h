// SPDX-License-Identifier: Apache-2.0
// What is printed of tensors and files by more than one command.
#pragma once

#include <weig/dtype.h>
#include <weig/view.h>

#include <cstdint>
#include <span>
#include <string>

namespace weig::cli {

// The type's name; "unknown:0x2001" where this version has none.
std::string dtype_text(Dtype dtype);

// "[4096,11008]", "[]" for a scalar.
std::string shape_text(std::span<const std::uint64_t> shape);

// 32 hexadecimal digits.
std::string digest_text(const Digest& digest);

}  // namespace weig::cli
