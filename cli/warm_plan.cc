// SPDX-License-Identifier: Apache-2.0
#include "warm_plan.h"

#include <weig/model.h>

#include <algorithm>

#include "group_patterns.h"
#include "options.h"

namespace weig::cli {
namespace {

// Of the memory that is available a part stays free, for page tables and for others: a
// kernel that is short of memory drops what was just read.
constexpr std::uint64_t kFreeShare = 16;

// The first `bytes` of `ranges`.
std::vector<FileRange> first_of(const std::vector<FileRange>& ranges,
                                std::uint64_t bytes) {
  std::vector<FileRange> out;
  for (const FileRange& range : ranges) {
    const std::uint64_t length = std::min(range.size(), bytes);
    if (length > 0) out.push_back({range.begin, range.begin + length});
    bytes -= length;
  }
  return out;
}

}  // namespace

Result<WarmPlan> warm_plan(const std::string& file,
                           const std::vector<std::string>& groups) {
  OpenOptions options;
  options.part = Part::metadata;
  options.unsealed = Unsealed::accept;
  options.unknown_dtypes = UnknownDtypes::accept;
  const auto model = open_model(file, options);
  if (!model) return model.error();
  const auto parts = file_parts(*model);
  if (!parts) return Error(parts.error()).file(file);

  WarmPlan plan;
  plan.wanted = {{0, model->file_size()}};
  if (!groups.empty()) {
    auto ranges = group_ranges(*parts, groups);
    if (!ranges) return Error(ranges.error()).file(file);
    plan.wanted = *std::move(ranges);
  }
  plan.memory = memory_limit();
  const std::uint64_t room = plan.memory.available - plan.memory.available / kFreeShare;
  plan.ranges = first_of(plan.wanted, room);
  plan.bytes_left_out = byte_count(plan.wanted) - byte_count(plan.ranges);
  if (plan.bytes_left_out == 0) return plan;
  for (const FilePart& part : *parts)
    for (const FileRange& range : part.ranges)
      if (bytes_within(plan.wanted, range) > bytes_within(plan.ranges, range)) {
        plan.left_out.push_back(part.name);
        break;
      }
  return plan;
}

std::vector<FileRange> small_pieces(const Residency& residency,
                                    const std::vector<FileRange>& ranges) {
  constexpr std::uint64_t kPiece = PageCache::kPieceBytes;
  std::vector<FileRange> small;
  const std::vector<PageCache::Piece>& pieces = residency.cache.pieces;
  const std::uint64_t end =
      std::min<std::uint64_t>(pieces.size(), residency.cache.file_size / kPiece);
  for (std::uint64_t i = 1; i < end; ++i) {
    const FileRange piece{i * kPiece, (i + 1) * kPiece};
    if (pieces[i].folio == PageCache::Folio::small && bytes_within(ranges, piece) > 0)
      small.push_back(piece);
  }
  return joined(std::move(small));
}

}  // namespace weig::cli
