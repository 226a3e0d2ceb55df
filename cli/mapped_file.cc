// SPDX-License-Identifier: Apache-2.0
#include "mapped_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <charconv>
#include <cstdint>

namespace weig::cli {
namespace {

// The path in a line "BEGIN-END MODE OFFSET DEVICE INODE  PATH" that covers `address`.
// No field before the path has a slash.
std::string_view path_at(std::string_view line, std::uintptr_t address) noexcept {
  std::uintptr_t begin = 0;
  std::uintptr_t end = 0;
  const char* last = line.data() + line.size();
  auto read = std::from_chars(line.data(), line.data() + line.size(), begin, 16);
  if (read.ptr == last || *read.ptr != '-') return {};
  read = std::from_chars(read.ptr + 1, last, end, 16);
  if (address < begin || address >= end) return {};
  const std::size_t slash = line.find('/');
  return slash == line.npos ? std::string_view() : line.substr(slash);
}

std::string_view escaped(std::string_view text, std::span<char> room) noexcept {
  constexpr char kDigits[] = "0123456789abcdef";
  std::size_t used = 0;
  for (const char c : text) {
    if (used + 4 > room.size()) break;
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte < 0x7f) {
      room[used++] = c;
      continue;
    }
    for (const char part : {'\\', 'x', kDigits[byte >> 4], kDigits[byte & 15]})
      room[used++] = part;
  }
  return {room.data(), used};
}

}  // namespace

std::string_view mapped_file_at(const void* address, std::span<char> room) noexcept {
  const int maps = ::open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
  if (maps < 0) return {};
  const auto wanted = std::bit_cast<std::uintptr_t>(address);
  std::array<char, 4096 + 128> line;  // the longest path, and the fields before it
  std::array<char, 1024> piece;
  std::size_t length = 0;
  std::string_view found;
  for (ssize_t got;
       found.empty() && (got = ::read(maps, piece.data(), piece.size())) > 0;)
    for (const char c : std::string_view(piece.data(), static_cast<std::size_t>(got))) {
      if (c != '\n') {
        if (length < line.size()) line[length++] = c;
        continue;
      }
      found = path_at({line.data(), length}, wanted);
      if (!found.empty()) break;
      length = 0;
    }
  ::close(maps);
  return escaped(found, room);
}

}  // namespace weig::cli
