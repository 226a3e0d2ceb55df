// SPDX-License-Identifier: Apache-2.0
// SourceReader: the tensors of one source file as a WEIG file has them, proven against
// their digests where the source has such.
#pragma once

#include <cstdint>

#include "convert/sources.h"
#include "convert/tensor_reader.h"
#include "core/digest.h"

namespace weig {

// Memory: that of a TensorReader.
class SourceReader {
 public:
  // The source must outlive the object.
  explicit SourceReader(const SourceFile& source);

  // As TensorReader::read(), of an entry of the manifest. Bits behind the last element,
  // where elements have less than a byte, are 0. Fails with checksum at the end of a
  // tensor whose bytes differ from its digest.
  Status read(std::uint32_t entry, std::uint64_t offset, MutableBytes out);

 private:
  Status check_digest(std::uint32_t entry) const;

  const SourceFile* source_;
  TensorReader reader_;
  Hasher hasher_;
};

}  // namespace weig
