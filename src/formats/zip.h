// SPDX-License-Identifier: Apache-2.0
// zip: the members of an archive and where their bytes lie, as .npz and PyTorch files
// have them. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "formats/input.h"
#include "formats/manifest.h"

namespace weig {

struct ZipMember {
  std::string name;
  bool is_deflated = false;  // else stored
  std::uint64_t begin = 0;   // of its bytes in the archive
  std::uint64_t size = 0;    // bytes in the archive
  std::uint64_t bytes = 0;   // unpacked, as the archive says
  std::uint32_t crc = 0;     // CRC-32 of these
};

struct ZipOptions {
  std::uint64_t max_members = std::uint64_t{1} << 22;
  std::uint64_t max_directory_bytes = std::uint64_t{1} << 30;
};

// The members in the directory's order. Fails with corrupt where the two directories of
// the archive disagree, where members overlap or lie outside, and for a name that is
// there twice; with unsupported for encrypted members, for packings other than deflate
// and for archives in several parts; with limit.
Result<std::vector<ZipMember>> read_zip(const Input& input,
                                        const ZipOptions& options = {});

// All of a member that is read whole, such as a header. Fails with corrupt where it
// does not unpack to what the archive says or has another checksum, and with limit
// where that is more than `max_bytes`.
Result<std::vector<std::byte>> read_member(const Input& input, const ZipMember& member,
                                           std::uint64_t max_bytes);

// The first bytes of a member, `count` or as many as it has; of a deflated one no more
// is unpacked.
Result<std::vector<std::byte>> read_member_front(const Input& input,
                                                 const ZipMember& member,
                                                 std::uint64_t count);

// How the member's bytes lie in the file, to give to a Manifest.
ElementStorage storage_of(const ZipMember& member);

}  // namespace weig
