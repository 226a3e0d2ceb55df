// SPDX-License-Identifier: Apache-2.0
// ZipWriter: what a zip archive of stored members has around their bytes. Pure: who
// calls it writes what it gives, and the bytes of the members, one after the other.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace weig {

// The CRC-32 of two parts together, of which the second has so many bytes.
std::uint32_t joined_crc(std::uint32_t first, std::uint32_t second,
                         std::uint64_t second_bytes);

class ZipWriter {
 public:
  // `alignment`: of the place of every member's bytes in the archive.
  explicit ZipWriter(std::uint64_t alignment) : alignment_(alignment) {}

  // A member whose bytes are there: all of it.
  std::string member(std::string_view name, std::string_view bytes);

  // What comes before a member of `size` bytes, and what behind it. Its CRC-32 may be
  // told later, until end_member() and finish() are called again for the last time.
  std::string begin_member(std::string_view name, std::uint64_t size);
  std::string end_member(std::size_t member) const;
  // How many members there are, of which each has its number.
  std::size_t size() const noexcept { return members_.size(); }
  void set_crc(std::size_t member, std::uint32_t crc) { members_[member].crc = crc; }

  // The directory, at the end. As long whatever the checksums are.
  std::string finish() const;

 private:
  struct Member {
    std::string name;
    std::uint64_t size = 0;
    std::uint64_t header_at = 0;
    std::uint32_t crc = 0;
    std::uint16_t flags = 0;
  };

  std::string header(const Member& member) const;

  std::uint64_t alignment_;
  std::uint64_t at_ = 0;  // where the next member begins
  std::vector<Member> members_;
};

}  // namespace weig
