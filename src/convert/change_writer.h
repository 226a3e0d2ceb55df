// SPDX-License-Identifier: Apache-2.0
// ChangeWriter: how the bytes of tensors come about that Changes names.
#pragma once

#include <functional>
#include <vector>

#include <weig/writer.h>

#include "convert/changes.h"

namespace weig {

// Makes the bytes of changed tensors, in the order of the new file, in pieces.
class ChangeWriter {
 public:
  // Reads bytes of a source's tensor, little-endian, from that offset of it on.
  using Read = std::function<Status(std::uint32_t source, std::uint64_t offset,
                                    MutableBytes out)>;
  // Told how many bytes of the sources were used up.
  using Tell = std::function<Status(std::uint64_t bytes)>;

  ChangeWriter(const Changes& changes, Read read, Tell tell)
      : changes_(changes), read_(std::move(read)), tell_(std::move(tell)) {}

  // All bytes of a tensor that is not copied. Scales and zero points come after their
  // tensor's codes, and are in memory from then on until they are written.
  Status write(Writer& writer, std::size_t spec, Dtype from, std::uint64_t bytes);

 private:
  Status write_cast(Writer& writer, std::size_t spec, Dtype from, std::uint64_t bytes);
  Status write_adapted(Writer& writer, std::size_t spec, Dtype from);
  Status write_codes(Writer& writer, std::size_t spec);
  Status write_numbers(Writer& writer, std::size_t spec);
  Result<std::vector<std::byte>> read_all(std::uint32_t source);
  Status read_piece(std::uint32_t source, Dtype from, std::uint64_t offset,
                    std::uint64_t bytes);

  struct Parameters {
    std::uint32_t source = 0;
    std::vector<std::byte> scales;
    std::vector<std::byte> zero_points;
  };

  const Changes& changes_;
  Read read_;
  Tell tell_;
  std::vector<std::byte> in_;
  std::vector<std::byte> out_;
  std::vector<Parameters> kept_;
};

}  // namespace weig
