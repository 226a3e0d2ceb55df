// SPDX-License-Identifier: Apache-2.0
// What the kernel holds of a file in its page cache, and making it let go.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <weig/error.h>
#include <weig/file_range.h>

namespace weig {

// A file's pages, by pieces of 2 MiB from its start (the last may be shorter).
struct PageCache {
  static constexpr std::uint64_t kPieceBytes = std::uint64_t{2} << 20;
  enum class Folio : std::uint8_t {
    unknown,  // not wholly in memory, or the kernel does not tell
    small,
    huge,  // one folio of 2 MiB, which one page-table entry maps
  };
  struct Piece {
    std::uint32_t resident = 0;  // bytes
    Folio folio = Folio::unknown;
  };

  std::uint64_t file_size = 0;
  // False where the kernel does not tell: it tells those who own or may write the file.
  bool known = false;
  std::uint64_t resident = 0;  // bytes; 0 if not known
  std::vector<Piece> pieces;   // empty if not known
};

enum class Folios { tell, leave };

// Looks without reading anything into the cache. Telling huge folios from small ones
// maps the pieces that are in memory for a moment. Fails with cannot_open.
Result<PageCache> page_cache(const std::string& path, Folios folios = Folios::leave);

// Which bytes of the file are in memory, page by page, in order; nothing where the
// kernel does not tell. Fails with cannot_open.
Result<std::optional<std::vector<FileRange>>> resident_ranges(const std::string& path);

// Writes back what is dirty and asks the kernel to drop the file's pages, or those of
// some ranges. Pages that a process has mapped stay: page_cache() tells what is left.
// Fails with cannot_open, io.
Status evict(const std::string& path, std::span<const FileRange> ranges = {});

}  // namespace weig
