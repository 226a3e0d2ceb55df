// SPDX-License-Identifier: Apache-2.0
#include "bench/trace.h"

#include <fmt/format.h>
#include <weig/page_cache.h>

#include <algorithm>

#include "bench/status_line.h"
#include "bench/usage.h"
#include "bench/worker.h"

namespace weig::cli::bench {
namespace {

constexpr auto kPeriod = std::chrono::milliseconds(2);
// More is not seen in a plot: from here on, every second point goes.
constexpr std::size_t kMostPoints = 400;
// Parts of a file that a heat strip tells apart.
constexpr std::size_t kMostParts = 48;

std::vector<std::uint8_t> percent_by_part(const PageCache& cache) {
  const std::size_t pieces = cache.pieces.size();
  const std::size_t parts = std::min(kMostParts, pieces);
  std::vector<std::uint8_t> percent(parts);
  for (std::size_t part = 0; part < parts; ++part) {
    std::uint64_t resident = 0;
    std::uint64_t size = 0;
    for (std::size_t i = part * pieces / parts; i < (part + 1) * pieces / parts; ++i) {
      resident += cache.pieces[i].resident;
      size += std::min(PageCache::kPieceBytes,
                       cache.file_size - i * PageCache::kPieceBytes);
    }
    percent[part] = static_cast<std::uint8_t>(size == 0 ? 0 : resident * 100 / size);
  }
  return percent;
}

// Keeps the points of a run of any length, evenly.
template <typename Point>
class Thinned {
 public:
  void add(Point point) {
    if (skipped_++ % stride_ != 0) return;
    points_.push_back(std::move(point));
    if (points_.size() < kMostPoints) return;
    for (std::size_t i = 0; i < points_.size(); i += 2)
      std::swap(points_[i / 2], points_[i]);
    points_.resize(points_.size() / 2);
    stride_ *= 2;
  }
  std::vector<Point> take() { return std::move(points_); }

 private:
  std::vector<Point> points_;
  std::size_t stride_ = 1;
  std::size_t skipped_ = 0;
};

class Watching {
 public:
  explicit Watching(const std::string& file) : file_(file), begun_(Clock::now()) {}

  void look(int process) {
    if (const auto now = footprint(process))
      memory_.add({since_begin(), now->anonymous, now->file_backed});
    // Looking at a long file takes long; it must not become all that happens.
    if (Clock::now() < next_look_) return;
    const auto begin = Clock::now();
    const double seconds = since_begin();
    const auto cache = page_cache(file_);
    if (cache && cache->known) residency_.add({seconds, percent_by_part(*cache)});
    const auto end = Clock::now();
    next_look_ = end + 2 * (end - begin);
  }

  // What was seen until all was loaded, and how it was then.
  void finish(Trace& trace, const Ending& ending, const Figures& figures) {
    // The watch began a moment before the process.
    const double late = std::chrono::duration<double>(ending.started - begun_).count();
    trace.loaded = figures.total();
    trace.memory = memory_.take();
    trace.residency = residency_.take();
    for (MemoryPoint& point : trace.memory) point.seconds -= late;
    for (ResidencyPoint& point : trace.residency) point.seconds -= late;
    const auto is_after = [&](const auto& point) {
      return point.seconds < 0 || point.seconds > trace.loaded;
    };
    std::erase_if(trace.memory, is_after);
    std::erase_if(trace.residency, is_after);
    trace.memory.insert(trace.memory.begin(), MemoryPoint{});
    trace.memory.push_back({trace.loaded, figures.anonymous, figures.file_backed});
    const auto cache = page_cache(file_);
    if (cache && cache->known)
      trace.residency.push_back({trace.loaded, percent_by_part(*cache)});
  }

 private:
  double since_begin() const {
    return std::chrono::duration<double>(Clock::now() - begun_).count();
  }

  const std::string& file_;
  Clock::time_point begun_;
  Clock::time_point next_look_;
  Thinned<MemoryPoint> memory_;
  Thinned<ResidencyPoint> residency_;
};

Result<Trace> trace(const Settings& settings, Way way, State state,
                    Preparation& prepare) {
  const auto prepared = prepare(state, Memory::backed);
  if (!prepared) return prepared.error();
  const Job job{.task = std::string(way_name(way)),
                .file = settings.file,
                .threads = settings.threads,
                .open = settings.open};
  Watching watching(settings.file);
  const auto ended = run_worker_process(
      command_of(job), [&](int process) { watching.look(process); }, kPeriod);
  if (!ended) return ended.error();
  Trace found{.way = way, .memory = {}, .residency = {}, .failure = {}};
  if (!ended->ok()) {
    found.failure = ended->failure();
    return found;
  }
  const auto figures = figures_of(*ended);
  if (!figures) return figures.error();
  watching.finish(found, *ended, *figures);
  return found;
}

}  // namespace

Result<Traces> trace_all(const Settings& settings, const Report& report,
                         Preparation& prepare) {
  Traces traces{.state = report.states.front(), .ways = {}};
  std::vector<Way> ways;
  for (const Row& row : report.rows)
    if (row.state == traces.state && row.refusal.empty()) ways.push_back(row.way);
  StatusLine line;
  for (const Way way : ways) {
    line.show(
        fmt::format("for the page: {} {}", state_name(traces.state), way_name(way)),
        traces.ways.size(), ways.size());
    auto traced = trace(settings, way, traces.state, prepare);
    if (!traced) return traced.error();
    traces.ways.push_back(*std::move(traced));
  }
  return traces;
}

}  // namespace weig::cli::bench
