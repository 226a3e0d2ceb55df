// SPDX-License-Identifier: Apache-2.0
// PyTorch's checkpoints as zip archives: a pickle, and the storages that it mentions.
// TorchScript's are such archives too. Pure.
#pragma once

#include <span>

#include "formats/input.h"
#include "formats/manifest.h"
#include "formats/torch_options.h"
#include "formats/zip.h"

namespace weig {

// Whether archives with these members are checkpoints: one folder with data.pkl in it.
bool is_torch_archive(std::span<const ZipMember> members);

Result<Manifest> read_torch_archive(const Input& input,
                                    std::span<const ZipMember> members,
                                    const TorchOptions& options);

}  // namespace weig
