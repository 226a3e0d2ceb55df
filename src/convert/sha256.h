// SPDX-License-Identifier: Apache-2.0
// SHA-256 of a whole file, for the record of where weights came from.
#pragma once

#include <string>

#include <weig/error.h>
#include <weig/progress.h>

#include "os/os.h"

namespace weig {

// 64 hexadecimal digits. Fails with io, corrupt or cancelled.
Result<std::string> sha256_of(const os::InputFile& file, const Progress& progress);

}  // namespace weig
