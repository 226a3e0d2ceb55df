// SPDX-License-Identifier: Apache-2.0
#include "warm_load.h"

#include <fmt/format.h>
#include <weig/page_cache.h>
#include <weig/parts.h>

#include <algorithm>
#include <utility>

#include "holders.h"
#include "huge_room.h"
#include "progress_bar.h"
#include "quantity.h"
#include "report.h"

namespace weig::cli {
namespace {

// Fewer small pages than this are not worth dropping: a file's front is read in small
// ones on purpose, and its last 2 MiB are seldom whole.
constexpr std::uint64_t kFewBytes = 2 * PageCache::kPieceBytes;

double share(std::uint64_t part, std::uint64_t whole) {
  return whole == 0 ? 1 : static_cast<double>(part) / static_cast<double>(whole);
}

Result<Model> load(const WarmOptions& options, Warmed& warmed) {
  ProgressBar bar("warming");
  OpenOptions open;
  open.unsealed = Unsealed::accept;
  open.unknown_dtypes = UnknownDtypes::accept;
  // No ranges would mean all of the file.
  std::vector<FileRange> ranges = warmed.plan.ranges;
  if (ranges.empty()) ranges.push_back({0, 0});
  open.load = {.way = LoadWay::populate,
               .threads = options.threads,
               .fallback = Fallback::refuse,
               .ranges = std::move(ranges),
               .progress = bar.callback()};
  auto model = Model::open(options.file, open);
  if (!model) return model;
  warmed.load = model->load_report();
  // Where all was there, a major fault is one of the program's own pages.
  warmed.was_there = warmed.load.major_faults == 0 ||
                     warmed.load.resident_before == model->file_size();
  if (warmed.load.huge_mapped)
    warmed.huge_after =
        std::min(share(*warmed.load.huge_mapped, warmed.load.bytes), 1.0);
  return model;
}

// Drops what is in memory as small folios, and sees what stayed.
Status drop(const std::string& file, const std::vector<FileRange>& small,
            Warmed& warmed) {
  if (Status status = evict(file, small); !status) return status;
  const auto left = resident_ranges(file);
  if (!left) return left.error();
  warmed.dropped += byte_count(small);
  if (!*left) return {};
  for (const FileRange& range : small) warmed.stayed += bytes_within(**left, range);
  warmed.dropped -= warmed.stayed;
  if (warmed.stayed > 0)
    warn(fmt::format("{}: {} stay in small folios: {}", file,
                     short_bytes(warmed.stayed), holders_text(holders_of(file))));
  return {};
}

// Before loading: drops small folios where the kernel tells of them.
Status drop_known_small(const WarmOptions& options, Warmed& warmed) {
  const auto residency = residency_of(options.file);
  if (!residency) return residency.error();
  if (!residency->cache.known) return {};
  const ResidentBytes bytes = resident_bytes(*residency, warmed.plan.ranges);
  warmed.huge_before = share(bytes.huge, bytes.bytes);
  const auto storage = storage_of(options.file);
  const auto small = small_pieces(*residency, warmed.plan.ranges);
  const bool droppable = storage && !storage->in_memory;
  if (small.empty() || !droppable) return {};
  return drop(options.file, small, warmed);
}

// What of the ranges to drop so that another load can be huge. Where the kernel does
// not tell which pieces are small: all.
Result<std::vector<FileRange>> small_ranges(const std::string& file,
                                            const WarmPlan& plan) {
  const auto residency = residency_of(file);
  if (!residency) return residency.error();
  return residency->cache.known ? small_pieces(*residency, plan.ranges) : plan.ranges;
}

// Whether a load has come out in small pages that another may mend: not where others
// hold them, nor where the file system cannot.
bool wants_another_try(const WarmOptions& options, const Warmed& warmed) {
  if (options.folios == FolioWish::leave || !has_small_pages(warmed.load)) return false;
  const auto storage = storage_of(options.file);
  return warmed.stayed == 0 && storage && !storage->remote && !storage->in_memory;
}

// Free memory in small pieces makes small folios, and so does what the kernel does not
// tell of and nobody has dropped yet.
Status drop_and_make_room(const WarmOptions& options, Warmed& warmed) {
  if (!warmed.huge_before) warmed.huge_before = warmed.huge_after;
  const auto small = small_ranges(options.file, warmed.plan);
  if (!small) return small.error();
  if (small->empty()) return {};
  if (Status status = drop(options.file, *small, warmed); !status) return status;
  make_huge_room(std::min(warmed.load.bytes - *warmed.load.huge_mapped,
                          warmed.plan.memory.available / 2));
  return {};
}

}  // namespace

bool has_small_pages(const LoadReport& load) {
  return load.huge_mapped && load.bytes > *load.huge_mapped + kFewBytes;
}

Result<Model> load_into_memory(const WarmOptions& options, Warmed& warmed) {
  const auto failed = [&](const Status& status) {
    return Error(status.error()).file(options.file);
  };
  if (options.folios == FolioWish::huge)
    if (const Status status = drop_known_small(options, warmed); !status)
      return failed(status);
  auto model = load(options, warmed);
  if (!model || !wants_another_try(options, warmed)) return model;
  {  // What is mapped is not dropped.
    const Model closed = *std::move(model);
  }
  const LoadReport first = warmed.load;
  if (const Status status = drop_and_make_room(options, warmed); !status)
    return failed(status);
  model = load(options, warmed);
  warmed.load.seconds += first.seconds;
  warmed.load.resident_before = first.resident_before;
  return model;
}

}  // namespace weig::cli
