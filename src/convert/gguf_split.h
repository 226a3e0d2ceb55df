// SPDX-License-Identifier: Apache-2.0
// A GGUF model in several files, found from any of them: NAME-00001-of-00003.gguf and
// so on, which say the same inside as their names do.
#pragma once

#include "convert/sources.h"

namespace weig {

// Adds all files of the model that `part` is one of, in order. Fails with corrupt where
// names and keys differ, and with cannot_open naming all that are missing.
Status add_gguf_split(SourceFile part, const ConvertOptions& options, Sources& sources);

}  // namespace weig
