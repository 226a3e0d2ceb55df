// SPDX-License-Identifier: Apache-2.0
#include "bench/sheet.h"

#include <fmt/format.h>

#include <algorithm>

#include "quantity.h"

namespace weig::cli::bench {
namespace {

using Cells = std::vector<std::string>;

std::string median_of(const std::optional<Spread>& spread) {
  return spread ? seconds_text(spread->median) : "-";
}

template <typename Figure>
std::string seconds_of(const Row& row, Figure figure) {
  return median_of(spread(
      row.backed, [figure](const Figures& f) { return std::optional(f.*figure); }));
}

template <typename Figure>
std::string bytes_of(const Row& row, Figure figure) {
  const auto found = spread(row.backed, figure);
  return found ? short_bytes(static_cast<std::uint64_t>(found->median)) : "-";
}

template <typename Figure>
std::string count_of(const Row& row, Figure figure) {
  const auto found = spread(row.backed, [figure](const Figures& figures) {
    return std::optional(static_cast<double>(figures.*figure));
  });
  return found ? grouped(static_cast<std::uint64_t>(found->median)) : "-";
}

std::optional<double> as_number(std::optional<std::uint64_t> number) {
  if (!number) return {};
  return static_cast<double>(*number);
}

std::string percent(std::optional<double> share) {
  return share ? fmt::format("{:.0f} %", 100 * *share) : "-";
}

std::optional<double> huge_share(const Row& row, const Subject& subject) {
  const auto huge = spread(row.backed, [](const Figures& figures) {
    return as_number(figures.huge_mapped);
  });
  if (!huge || subject.file_size == 0) return {};
  return std::min(huge->median / static_cast<double>(subject.file_size), 1.0);
}

std::string ratio_text(double ratio) {
  return fmt::format("{:.{}f}", ratio, ratio < 99.995 ? 2 : 0);
}

Cells time_cells(const Report& report, const Row& row) {
  const auto total = total_of(row.backed);
  const auto limit = raw_limit(report, row.state);
  Cells cells{std::string(way_name(row.way)), median_of(total)};
  cells.push_back(
      total ? fmt::format("{}-{}", seconds_text(total->low), seconds_text(total->high))
            : "-");
  for (const auto figure : {&Figures::start, &Figures::open, &Figures::resident,
                            &Figures::first_use, &Figures::user, &Figures::system})
    cells.push_back(seconds_of(row, figure));
  cells.push_back(total && limit ? ratio_text(total->median / *limit) : "-");
  if (report.with_fresh) cells.push_back(median_of(total_of(row.fresh)));
  return cells;
}

Cells memory_cells(const Report& report, const Row& row) {
  Cells cells{
      std::string(way_name(row.way)),
      std::string(proof_text(proof_of(row.backed), row.state)),
      count_of(row, &Figures::major_faults), count_of(row, &Figures::minor_faults),
      percent(is_raw(row.way) ? std::nullopt : huge_share(row, report.subject))};
  cells.push_back(bytes_of(row, [](const Figures& figures) {
    return std::optional(static_cast<double>(figures.anonymous));
  }));
  cells.push_back(bytes_of(row, [](const Figures& figures) {
    return std::optional(static_cast<double>(figures.file_backed));
  }));
  cells.push_back(bytes_of(
      row, [](const Figures& figures) { return as_number(figures.device_bytes); }));
  if (row.state == State::cold) return cells;
  std::vector<double> folios;
  for (const Sample& sample : row.backed)
    if (sample.huge_folios) folios.push_back(*sample.huge_folios);
  const auto cached = spread_of(folios);
  cells.push_back(percent(cached ? std::optional(cached->median) : std::nullopt));
  return cells;
}

}  // namespace

std::string seconds_text(double seconds) {
  if (seconds < 0.00005) return "0";
  const int digits = seconds < 0.0995  ? 4
                     : seconds < 9.995 ? 3
                     : seconds < 99.95 ? 2
                                       : 1;
  return fmt::format("{:.{}f}", seconds, digits);
}

Sheet time_sheet(const Report& report, State state) {
  Sheet sheet;
  sheet.head = {fmt::format("{}, s", state_name(state)),
                "total",
                "min-max",
                "start",
                "open",
                "resident",
                "use",
                "user",
                "system",
                "x raw"};
  if (report.with_fresh) sheet.head.push_back("fresh");
  for (const Row& row : report.rows) {
    if (row.state != state) continue;
    if (row.refusal.empty())
      sheet.lines.push_back(time_cells(report, row));
    else
      sheet.lines.push_back(
          {std::string(way_name(row.way)), "refused: " + row.refusal});
  }
  return sheet;
}

Sheet memory_sheet(const Report& report, State state) {
  Sheet sheet;
  sheet.head = {fmt::format("{}", state_name(state)),
                "state",
                "major",
                "minor",
                "huge",
                "anonymous",
                "file-backed",
                "device"};
  if (state == State::warm) sheet.head.push_back("huge cache");
  for (const Row& row : report.rows)
    if (row.state == state && row.refusal.empty())
      sheet.lines.push_back(memory_cells(report, row));
  return sheet;
}

std::vector<Remark> remarks(const Report& report) {
  std::vector<Remark> all;
  all.reserve(report.notes.size());
  for (const std::string& text : report.notes) all.push_back({"note", text});
  for (const State state : report.states) {
    const std::ptrdiff_t begin = std::ssize(all);
    for (const Row& row : report.rows) {
      if (row.state != state) continue;
      for (const std::string& text : row.notes) {
        const auto same =
            std::ranges::find(all.begin() + begin, all.end(), text, &Remark::text);
        if (same == all.end())
          all.push_back(
              {fmt::format("{} {}", state_name(state), way_name(row.way)), text});
        else
          same->about += fmt::format(", {}", way_name(row.way));
      }
    }
  }
  return all;
}

}  // namespace weig::cli::bench
