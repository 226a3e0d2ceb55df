// SPDX-License-Identifier: Apache-2.0
// A checkpoint's archive in memory, for tests.
#pragma once

#include <string>

#include "bytes_input.h"
#include "formats/torch_archive.h"
#include "zip_members.h"

namespace weig::test {

struct TorchArchive : ZipMembers<TorchArchive> {
  Result<Manifest> read(const TorchOptions& options = {}) const {
    return read_torch_archive(input_over(bytes), members, options);
  }
};

// Of one pickle, and a storage of 8 bytes.
inline TorchArchive archive_of(const std::string& pickle,
                               const std::string& storage = "12345678") {
  TorchArchive archive;
  archive.add("archive/data.pkl", pickle).add("archive/data/0", storage);
  return archive;
}

}  // namespace weig::test
