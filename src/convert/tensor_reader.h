// SPDX-License-Identifier: Apache-2.0
// TensorReader: the bytes of a file's tensors as a WEIG file has them, little-endian
// and in row-major order, whatever their storage is, in bounded memory.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "convert/data_files.h"
#include "core/bytes.h"
#include "formats/input.h"
#include "formats/manifest.h"
#include "os/os.h"

namespace weig {

// A file as readers of formats see it. The file must outlive it.
Input input_of(const os::InputFile& file);

// Memory: 1 MiB; for strided tensors 72 MiB more, for deflated ones 0.3 MiB.
class TensorReader {
 public:
  // All must outlive the object. `others`: manifest.files, found.
  TensorReader(const os::InputFile& file, const Manifest& manifest,
               std::span<const DataFile> others = {});
  TensorReader(TensorReader&&) noexcept;
  ~TensorReader();

  // Fills `out` with a tensor's bytes from `offset` on. The parts of a tensor follow
  // each other from its first byte to its last, each but the last a multiple of its
  // element's size. Fails as reading does, and with corrupt where what is packed does
  // not unpack to what the file says.
  Status read(const Manifest::Entry& entry, std::uint64_t offset, MutableBytes out);

 private:
  class Window;
  class Unpacked;
  class Gather;

  Status read_plain(const Manifest::Entry& entry, std::uint64_t offset,
                    MutableBytes out);
  Status read_stored(const Manifest::Entry& entry, std::uint64_t offset,
                     MutableBytes out);

  Result<const os::InputFile*> file_of(const ElementStorage& storage);

  const os::InputFile* file_;
  const Manifest* manifest_;
  std::span<const DataFile> others_;
  std::unique_ptr<os::InputFile> other_;  // the one that is open,
  std::uint32_t other_number_ = 0;        // as storages count them
  std::unique_ptr<Window> window_;
  std::unique_ptr<Unpacked> unpacked_;  // of the tensor that is being read
  std::unique_ptr<Gather> gather_;      // the same, where it is strided
};

}  // namespace weig
