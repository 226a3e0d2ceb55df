// SPDX-License-Identifier: Apache-2.0
// Strip: a stretch of a file as a row of characters that show what of it is in memory.
#pragma once

#include <weig/file_range.h>
#include <weig/page_cache.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace weig::cli {

// What is known of a file's pages.
struct Residency {
  PageCache cache;
  std::vector<FileRange> ranges;  // in memory, in order
};

// Looks. Fails with cannot_open. Nothing of the file is read.
Result<Residency> residency_of(const std::string& path);

// Bytes of some ranges of a file that are in memory, and of those how many are in huge
// and in small folios; the rest is in pieces that are not wholly in memory.
struct ResidentBytes {
  std::uint64_t bytes = 0;
  std::uint64_t resident = 0;
  std::uint64_t huge = 0;
  std::uint64_t small = 0;
};
ResidentBytes resident_bytes(const Residency& residency,
                             std::span<const FileRange> ranges);

enum class Blocks { unicode, ascii };

// At most `width` characters for the bytes of `ranges`, at least one.
std::string strip(const Residency& residency, std::span<const FileRange> ranges,
                  std::size_t width, Blocks blocks);

// What its characters mean, where folios are told apart and where they are not.
std::string strip_legend(Blocks blocks, const ResidentBytes& shown);

}  // namespace weig::cli
