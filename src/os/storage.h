// SPDX-License-Identifier: Apache-2.0
// Where an open file lies.
#pragma once

#include <weig/host.h>

#include "os/os.h"

namespace weig::os {

Result<Storage> storage_of(const InputFile& file);

}  // namespace weig::os
