// SPDX-License-Identifier: Apache-2.0
// Numbers as text that reads back as the same number, in Python's spelling: 1.0, 0.25,
// 1e-05, nan, inf.
#pragma once

#include <concepts>
#include <cstdint>
#include <string>

#include "small_float.h"

namespace weig::cli {

void append_number(std::string& out, double value);
void append_number(std::string& out, float value);
void append_number(std::string& out, std::integral auto value) {
  out += std::to_string(value);
}

// The shortest text that `format` rounds to this code: 0.1 for the f16 nearest to 0.1,
// as NumPy has it, where its exact value is 0.0999755859375.
void append_shortest(std::string& out, const SmallFloat& format, std::uint32_t code);

}  // namespace weig::cli
