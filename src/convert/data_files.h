// SPDX-License-Identifier: Apache-2.0
// Files that hold the data of tensors which another file lists (Manifest::files):
// found, kept inside its folder, and opened when they are read. There may be thousands:
// one is open at a time.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "formats/manifest.h"
#include "os/os.h"

namespace weig {

struct DataFile {
  std::string path;  // without links
  os::FileStamp opened;
  os::FileId id;
  std::uint64_t size = 0;
  std::uint32_t permissions = 0;
};

// Those that `manifest`, which `lister` holds, names. Each lies in the folder of that
// file or below it, links followed: in the folder of its path, or, where that is a link
// itself, in the one of the file that it leads to. Proves where the tensors lie in
// them. Fails with corrupt and cannot_open, naming a tensor.
Result<std::vector<DataFile>> find_data_files(const os::InputFile& lister,
                                              Manifest& manifest);

// Opens one again. Fails with corrupt where it is not as it was.
Result<os::InputFile> open_data_file(const DataFile& file);

// That none of them was written to. Fails with corrupt.
Status check_unchanged(std::span<const DataFile> files);

}  // namespace weig
