// SPDX-License-Identifier: Apache-2.0
#include "bench/runner.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <weig/host.h>

#include <algorithm>

#include "bench/status_line.h"
#include "bench/usage.h"
#include "bench/worker.h"
#include "options.h"
#include "quantity.h"
#include "terminal.h"

namespace weig::cli::bench {
namespace {

void note(std::vector<std::string>& notes, const std::string& text) {
  if (std::ranges::find(notes, text) == notes.end()) notes.push_back(text);
}

// A reading past the page cache says nothing about a warm file.
bool is_measured(Way way, State state) {
  return way != Way::raw_direct || state == State::cold;
}

std::vector<Row> rows_of(const Settings& settings) {
  std::vector<Row> rows;
  for (const State state : settings.states)
    for (const Way way : kAllWays)
      if (is_measured(way, state) &&
          (is_raw(way) || std::ranges::count(settings.ways, way) > 0)) {
        Row& row = rows.emplace_back();
        row.way = way;
        row.state = state;
      }
  return rows;
}

// Which file a path leads to, and in which state; compared with itself only.
struct Stamp {
  explicit Stamp(const std::string& path) {
    struct stat status{};
    if (::stat(path.c_str(), &status) != 0) return;
    device = status.st_dev;
    inode = status.st_ino;
    size = status.st_size;
    seconds = status.st_mtim.tv_sec;
    nanoseconds = status.st_mtim.tv_nsec;
  }
  friend bool operator==(const Stamp&, const Stamp&) = default;

  dev_t device = 0;
  ino_t inode = 0;
  off_t size = 0;
  time_t seconds = 0;
  long nanoseconds = 0;
};

class Measuring {
 public:
  Measuring(const Settings& settings, const Subject& subject, Preparation& prepare,
            Report& report)
      : settings_(settings), subject_(subject), prepare_(prepare), report_(report) {
    const std::size_t kinds = settings.with_fresh ? 2 : 1;
    total_ = report.rows.size() * settings.rounds * kinds;
  }

  Status all_rounds() {
    for (unsigned round = 1; round <= settings_.rounds; ++round)
      for (const State state : settings_.states)
        if (Status status = one_round(round, state); !status) return status;
    return {};
  }

 private:
  // The rows of a state in an order that no way is always first in.
  Status one_round(unsigned round, State state) {
    std::vector<Row*> rows;
    for (Row& row : report_.rows)
      if (row.state == state) rows.push_back(&row);
    std::ranges::rotate(rows, rows.begin() + (round - 1) % std::ssize(rows));
    for (Row* row : rows) {
      if (Status status = one_run(*row, round, Memory::backed); !status) return status;
      if (!settings_.with_fresh) continue;
      if (Status status = one_run(*row, round, Memory::fresh); !status) return status;
    }
    return {};
  }

  Status one_run(Row& row, unsigned round, Memory memory) {
    line_.show(fmt::format("round {} of {}: {} {}", round, settings_.rounds,
                           state_name(row.state), way_name(row.way)),
               done_++, total_);
    const MemoryLimit limit = memory_limit();
    const Fit fit = fit_of(row.way, row.state, subject_, limit);
    if (fit.refused) {
      refuse(row, fit, limit);
      return {};
    }
    if (!fit.reason.empty()) note(row.notes, fit.reason);
    const auto prepared = prepare_(row.state, memory);
    if (!prepared) return prepared.error();
    const Job job{.task = std::string(way_name(row.way)),
                  .file = settings_.file,
                  .threads = settings_.threads,
                  .open = settings_.open};
    row.command = command_of(job);
    const auto ended = run_worker_process(row.command);
    if (!ended) return ended.error();
    Sample sample = sample_of(*prepared, *ended);
    sample.round = round;
    sample.order = ++runs_;
    take(row, std::move(sample), *prepared, memory);
    if (Stamp(settings_.file) != stamp_)
      return Error(Code::corrupt, "the file was changed while it was measured")
          .file(settings_.file);
    return {};
  }

  void refuse(Row& row, const Fit& fit, const MemoryLimit& limit) {
    note(report_.notes, fmt::format("memory is limited to {} by {}",
                                    short_bytes(limit.limit), limit.source));
    if (!row.backed.empty() || !row.fresh.empty())
      return note(row.notes, "later rounds were refused: it " + fit.reason);
    row.refusal = fit.reason;
    row.need = fit.need;
    row.limit = limit;
  }

  static Sample sample_of(const Preparation::Outcome& prepared, const Ending& ended) {
    Sample sample{.proof = prepared.proof,
                  .cached = prepared.cached,
                  .huge_folios = prepared.huge_folios,
                  .backed = prepared.backed,
                  .figures = {},
                  .failure = {},
                  .status = ended.status};
    if (!ended.ok()) {
      sample.failure = ended.failure();
      return sample;
    }
    auto figures = figures_of(ended);
    if (figures)
      sample.figures = *std::move(figures);
    else
      sample.failure = figures.error().message();
    return sample;
  }

  void take(Row& row, Sample sample, const Preparation::Outcome& prepared,
            Memory memory) {
    for (const std::string& text : prepared.notes)
      // Not known holds for all rows, and is said once.
      note(prepared.proof == Proof::unknown ? report_.notes : row.notes, text);
    if (!sample.failure.empty())
      note(row.notes, "failed: " + printable(sample.failure));
    if (sample.figures) {
      const Figures& figures = *sample.figures;
      if (!figures.reason.empty())
        note(row.notes, fmt::format("chose {}: {}", figures.chosen, figures.reason));
      for (const std::string& warning : figures.warnings) note(row.notes, warning);
    }
    (memory == Memory::backed ? row.backed : row.fresh).push_back(std::move(sample));
  }

  const Settings& settings_;
  const Subject& subject_;
  Preparation& prepare_;
  Report& report_;
  const Stamp stamp_{settings_.file};
  StatusLine line_;
  std::size_t done_ = 0;  // runs and refusals
  std::size_t runs_ = 0;
  std::size_t total_ = 0;
};

}  // namespace

Result<Subject> subject_of(const Settings& settings) {
  OpenOptions options = settings.open;
  options.part = Part::metadata;
  const auto model = Model::open(settings.file, options);
  if (!model) return with_option_hint(model.error(), settings.file, options);
  tell_if_member(*model);
  Subject subject;
  subject.file = settings.file;
  subject.format = model->format();
  subject.file_size = model->file_size();
  subject.tensors = model->size();
  for (const auto& tensor : model->tensors()) {
    if (!tensor) return tensor.error();
    subject.data_bytes += tensor->byte_count();
  }
  auto storage = storage_of(settings.file);
  if (!storage) return storage.error();
  subject.storage = *std::move(storage);
  subject.memory = memory_limit();
  subject.kernel = kernel_name();
  subject.processor = processor_name();
  subject.cpus = usable_cpus();
  subject.threads = settings.threads == 0 ? subject.cpus : settings.threads;
  return subject;
}

Fit fit_of(Way way, State state, const Subject& subject, const MemoryLimit& limit) {
  Fit fit;
  fit.need = memory_need(way, subject.file_size, subject.data_bytes);
  const std::string have = short_bytes(limit.available) + " are available";
  if (fit.need > limit.available) {
    fit.refused = true;
    fit.reason = fmt::format("needs {} of memory, {}", short_bytes(fit.need), have);
  } else if (state == State::warm && subject.file_size > limit.available) {
    fit.refused = true;
    fit.need = subject.file_size;
    fit.reason = fmt::format("the page cache cannot hold the file of {}: {}",
                             short_bytes(subject.file_size), have);
  } else if (state == State::warm && fit.need > 0 &&
             subject.file_size > limit.available - fit.need) {
    fit.reason = fmt::format(
        "the file and a copy of it do not fit into memory together: {}", have);
  }
  return fit;
}

Result<Report> measure(const Settings& settings, const Subject& subject,
                       Preparation& prepare) {
  Report report;
  report.subject = subject;
  report.rounds = settings.rounds;
  report.with_fresh = settings.with_fresh;
  report.states = settings.states;
  report.rows = rows_of(settings);
  if (subject.storage.in_memory)
    report.notes.push_back(subject.storage.file_system + " keeps files in memory");
  Measuring measuring(settings, subject, prepare, report);
  if (Status status = measuring.all_rounds(); !status) return std::move(status).error();
  return report;
}

}  // namespace weig::cli::bench
