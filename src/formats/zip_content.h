// SPDX-License-Identifier: Apache-2.0
// What a zip archive is, by its members: the second look, where the first bytes say no
// more than that it is one.
#pragma once

#include <span>

#include <weig/error.h>

#include "formats/zip.h"

namespace weig {

enum class ZipContent { torch, npz };

// Fails with corrupt for archives of other things.
Result<ZipContent> sniff_zip(std::span<const ZipMember> members);

}  // namespace weig
