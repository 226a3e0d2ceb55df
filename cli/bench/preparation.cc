// SPDX-License-Identifier: Apache-2.0
#include "bench/preparation.h"

#include <fmt/format.h>
#include <weig/host.h>
#include <weig/page_cache.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "bench/worker.h"
#include "host.h"
#include "quantity.h"

namespace weig::cli::bench {
namespace {

// Memory that lay idle for so long may have gone back to a virtual machine's host.
constexpr auto kPause = std::chrono::seconds(5);
constexpr auto kStep = std::chrono::milliseconds(50);

constexpr int kAttempts = 3;
// What the process that backs memory needs itself.
constexpr std::uint64_t kOwn = std::uint64_t{8} << 20;
// Folios of the last, shorter pieces come and go.
constexpr double kTolerance = 0.01;

Status pause_for(std::chrono::milliseconds time) {
  for (auto left = time; left.count() > 0; left -= kStep) {
    if (stop_signal() != 0) return Error(Code::cancelled, "interrupted");
    std::this_thread::sleep_for(std::min(left, kStep));
  }
  return {};
}

// The share of the file that lies in huge folios.
double huge_share(const PageCache& cache) {
  std::uint64_t huge = 0;
  for (const PageCache::Piece& piece : cache.pieces)
    if (piece.folio == PageCache::Folio::huge) huge += piece.resident;
  return cache.file_size == 0
             ? 0
             : static_cast<double>(huge) / static_cast<double>(cache.file_size);
}

bool is_whole(const PageCache& cache) {
  return cache.known && cache.resident == cache.file_size;
}

}  // namespace

Status Preparation::make_cold() {
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    if (Status status = evict(file_); !status) return status;
    const auto cache = page_cache(file_);
    if (!cache) return cache.error();
    if (!cache->known || cache->resident == 0) return {};
  }
  if (!may_drop_all_ || !may_drop_caches()) return {};
  if (Status status = drop_all(Drop::pages); !status) return status;
  const auto cache = page_cache(file_);
  may_drop_all_ = cache && cache->resident == 0;
  return {};
}

// The program itself goes too, and comes back, so that no run has to wait for it.
Status Preparation::drop_all(Drop drop) {
  drop_caches(drop);
  const Job nothing{.task = "back", .file = {}, .open = {}};
  const auto ended = run_worker_process(command_of(nothing));
  return ended ? Status() : Status(ended.error());
}

Status Preparation::make_warm() {
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    const auto cache = page_cache(file_, Folios::tell);
    if (!cache) return cache.error();
    const double huge = huge_share(*cache);
    if (is_whole(*cache) && best_huge_ && huge >= *best_huge_ - kTolerance) {
      best_huge_ = std::max(*best_huge_, huge);
      return {};
    }
    // What lies there in small folios stays so: it has to be read again.
    if (attempt == 0)
      if (Status status = evict(file_); !status) return status;
    const Job job{.task = "warm", .file = file_, .open = open_};
    const auto warmed = run_worker_process(command_of(job));
    if (!warmed) return warmed.error();
    if (!cache->known) return {};
    const auto after = page_cache(file_, Folios::tell);
    if (!after) return after.error();
    best_huge_ =
        best_huge_ ? std::min(*best_huge_, huge_share(*after)) : huge_share(*after);
  }
  return {};
}

Status Preparation::make(State state) {
  return state == State::cold ? make_cold() : make_warm();
}

Status Preparation::back(State state, Outcome& outcome) {
  const std::uint64_t want = file_size_ + file_size_ / 2;
  // What is cached counts as available; a warm file must stay, and so must others' air.
  const std::uint64_t available = memory_limit().available;
  const std::uint64_t kept =
      (state == State::warm ? file_size_ : 0) + available / 16 + kOwn;
  const std::uint64_t may = available > kept ? available - kept : 0;
  const Job job{.task = "back", .file = {}, .bytes = std::min(want, may), .open = {}};
  if (job.bytes < want)
    outcome.notes.push_back(fmt::format("of {} of memory only {} could be backed",
                                        short_bytes(want), short_bytes(job.bytes)));
  if (job.bytes == 0) return {};
  const auto ended = run_worker_process(command_of(job));
  if (!ended) return ended.error();
  if (ended->ok())
    outcome.backed = job.bytes;
  else
    outcome.notes.push_back("memory could not be backed: " + ended->failure());
  return {};
}

Status Preparation::check(State state, Outcome& outcome) const {
  const bool warm = state == State::warm;
  const auto cache = page_cache(file_, warm ? Folios::tell : Folios::leave);
  if (!cache) return cache.error();
  outcome.proof = Proof::unknown;
  outcome.cached = {};
  outcome.huge_folios = {};
  if (!cache->known) return {};
  outcome.cached = cache->resident;
  const std::uint64_t wanted = warm ? cache->file_size : 0;
  outcome.proof = cache->resident == wanted ? Proof::proven : Proof::wrong;
  if (warm) outcome.huge_folios = huge_share(*cache);
  return {};
}

Result<Preparation::Outcome> Preparation::operator()(State state, Memory memory) {
  Outcome outcome;
  Status status = memory == Memory::fresh ? drop_all(Drop::everything) : Status();
  if (!status) return std::move(status).error();
  if (status = make(state); !status) return std::move(status).error();
  status = memory == Memory::fresh ? pause_for(kPause) : back(state, outcome);
  if (!status) return std::move(status).error();
  if (status = check(state, outcome); !status) return std::move(status).error();
  if (outcome.proof == Proof::wrong) {
    // Backing memory may have cost a warm file some pages.
    if (status = make(state); !status) return std::move(status).error();
    if (status = check(state, outcome); !status) return std::move(status).error();
  }
  if (outcome.proof == Proof::wrong)
    outcome.notes.push_back(fmt::format(
        "{}: {} of {} are in the page cache", proof_text(outcome.proof, state),
        short_bytes(outcome.cached.value_or(0)), short_bytes(file_size_)));
  if (outcome.proof == Proof::unknown)
    outcome.notes.push_back(
        "not known: the kernel tells what is cached of a file to those who own it or "
        "may write it");
  return outcome;
}

}  // namespace weig::cli::bench
