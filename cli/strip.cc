// SPDX-License-Identifier: Apache-2.0
#include "strip.h"

#include <fmt/format.h>
#include <weig/parts.h>

#include <algorithm>
#include <string_view>
#include <utility>

namespace weig::cli {
namespace {

// Smaller stretches than a page are all there or not at all.
constexpr std::uint64_t kLeastCell = 4096;

struct Marks {
  std::string_view huge;
  std::string_view small;
  std::string_view part;
  std::string_view none;
};
constexpr Marks kUnicode{"\u2588", "\u2593", "\u2591", "\u00b7"};
constexpr Marks kAscii{"#", "=", "-", "."};

const Marks& marks(Blocks blocks) {
  return blocks == Blocks::unicode ? kUnicode : kAscii;
}

// The bytes [begin, end) of `ranges` laid end to end, as ranges of the file.
std::vector<FileRange> cut(std::span<const FileRange> ranges, std::uint64_t begin,
                           std::uint64_t end) {
  std::vector<FileRange> out;
  for (const FileRange& range : ranges) {
    if (begin < range.size() && end > 0)
      out.push_back({range.begin + begin, range.begin + std::min(end, range.size())});
    begin -= std::min(begin, range.size());
    end -= std::min(end, range.size());
  }
  return out;
}

std::string_view mark_of(const ResidentBytes& cell, const Marks& marks) {
  if (cell.resident == 0) return marks.none;
  if (cell.resident < cell.bytes) return marks.part;
  return cell.huge * 2 > cell.bytes ? marks.huge : marks.small;
}

}  // namespace

Result<Residency> residency_of(const std::string& path) {
  Residency residency;
  auto cache = page_cache(path, Folios::tell);
  if (!cache) return std::move(cache).error();
  auto ranges = resident_ranges(path);
  if (!ranges) return std::move(ranges).error();
  residency.cache = *std::move(cache);
  residency.cache.known = residency.cache.known && ranges->has_value();
  if (*ranges) residency.ranges = **std::move(ranges);
  return residency;
}

ResidentBytes resident_bytes(const Residency& residency,
                             std::span<const FileRange> ranges) {
  constexpr std::uint64_t kPiece = PageCache::kPieceBytes;
  ResidentBytes sum;
  for (const FileRange& range : ranges) {
    sum.bytes += range.size();
    sum.resident += bytes_within(residency.ranges, range);
    const std::vector<PageCache::Piece>& pieces = residency.cache.pieces;
    for (std::uint64_t i = range.begin / kPiece;
         i < pieces.size() && i * kPiece < range.end; ++i) {
      const std::uint64_t bytes =
          std::min(range.end, (i + 1) * kPiece) - std::max(range.begin, i * kPiece);
      if (pieces[i].folio == PageCache::Folio::huge) sum.huge += bytes;
      if (pieces[i].folio == PageCache::Folio::small) sum.small += bytes;
    }
  }
  return sum;
}

std::string strip(const Residency& residency, std::span<const FileRange> ranges,
                  std::size_t width, Blocks blocks) {
  const std::uint64_t bytes = byte_count(ranges);
  const std::uint64_t cells =
      std::clamp<std::uint64_t>(bytes / kLeastCell, 1, std::max<std::size_t>(width, 1));
  std::string text;
  for (std::uint64_t i = 0; i < cells; ++i) {
    // The last cell ends at the end, whatever the division left over.
    const std::uint64_t end = i + 1 == cells ? bytes : bytes / cells * (i + 1);
    const auto cell = resident_bytes(residency, cut(ranges, bytes / cells * i, end));
    text += mark_of(cell, marks(blocks));
  }
  return text;
}

std::string strip_legend(Blocks blocks, const ResidentBytes& shown) {
  const Marks& m = marks(blocks);
  if (shown.huge + shown.small == 0)
    return fmt::format("{} in memory  {} in part  {} not in memory", m.small, m.part,
                       m.none);
  return fmt::format("{} 2 MiB folios  {} small ones  {} in part  {} not in memory",
                     m.huge, m.small, m.part, m.none);
}

}  // namespace weig::cli
