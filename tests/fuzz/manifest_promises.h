// SPDX-License-Identifier: Apache-2.0
// What every reader of a foreign format promises of the manifest that it makes.
#pragma once

#include "formats/input.h"
#include "formats/manifest.h"

namespace weig::fuzz {

// Every read is within the bytes.
weig::Input input_over(Bytes bytes);

// Elements lie in the file, names are names, and what is told can be printed.
void promise_manifest(const Result<Manifest>& manifest, std::uint64_t file_size);

}  // namespace weig::fuzz
