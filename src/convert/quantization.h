// SPDX-License-Identifier: Apache-2.0
// Quantization of the sources in what is made of them: their entries, with the ordinals
// of the new table.
#pragma once

#include <span>
#include <vector>

#include <weig/writer.h>

#include "convert/changes.h"
#include "convert/partition.h"
#include "convert/sources.h"

namespace weig {

// All entries of the sources, and of what is quantized on the way, in ascending order
// of their tensors in `plan`. Fails with unsupported where a tensor that one needs is
// left out, and where a scheme is not known whose numbers would have to change.
Result<std::vector<Quantization>> gather_quantization(const Sources& sources,
                                                      const Changes& changes,
                                                      const Plan& plan);

// The tensors that each entry needs beside its own: what a set must not divide.
std::vector<OrdinalRun> needed_together(std::span<const Quantization> entries);

// Adds the section of those entries whose tensors are in `member`, if there are any.
// Fails as above.
Status add_quantization(std::span<const Quantization> entries, const OrdinalRun& member,
                        std::vector<SectionBytes>& sections);

}  // namespace weig
