// SPDX-License-Identifier: Apache-2.0
// FolderLock: one process at a time gives files of a folder their names.
#pragma once

#include <string>

#include <weig/error.h>

#include "os/os.h"

namespace weig::os {

// Held until destruction, or until the process ends. Advisory (flock on the folder): it
// holds off those who take it as well. Move-only.
class FolderLock {
 public:
  // Of the folder that `path` is in. Waits for who has it, up to ten seconds, and then
  // fails with io. A file system without such locks gives one that holds nobody off.
  static Result<FolderLock> take(const std::string& path);

 private:
  explicit FolderLock(Descriptor folder) : folder_(std::move(folder)) {}
  Descriptor folder_;
};

}  // namespace weig::os
