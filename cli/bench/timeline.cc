// SPDX-License-Identifier: Apache-2.0
#include "bench/timeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <map>
#include <string>
#include <string_view>

#include "bench/usage.h"

namespace weig::cli::bench {
namespace {

using Nanoseconds = std::chrono::nanoseconds;

std::int64_t count(Clock::duration time) {
  return std::chrono::duration_cast<Nanoseconds>(time).count();
}
std::int64_t count(Clock::time_point time) { return count(time.time_since_epoch()); }

void put(std::string_view name, auto value) {
  const std::string line = fmt::format("{} {}\n", name, value);
  std::fwrite(line.data(), 1, line.size(), stdout);
}

void put_if(std::string_view name, std::optional<std::uint64_t> value) {
  if (value) put(name, *value);
}

// Lines "NAME VALUE"; of warnings there may be several.
class Lines {
 public:
  explicit Lines(std::string_view text) {
    while (!text.empty()) {
      const std::size_t end = std::min(text.find('\n'), text.size());
      const std::string_view line = text.substr(0, end);
      text.remove_prefix(std::min(end + 1, text.size()));
      const std::size_t space = std::min(line.find(' '), line.size());
      values_.emplace(line.substr(0, space),
                      line.substr(std::min(space + 1, line.size())));
    }
  }

  std::string text(std::string_view name) const {
    const auto found = values_.find(name);
    return found == values_.end() ? std::string() : std::string(found->second);
  }
  std::vector<std::string> texts(std::string_view name) const {
    std::vector<std::string> found;
    for (auto [at, end] = values_.equal_range(name); at != end; ++at)
      found.emplace_back(at->second);
    return found;
  }
  std::optional<std::int64_t> number(std::string_view name) const {
    const auto found = values_.find(name);
    if (found == values_.end()) return {};
    const std::string_view value = found->second;
    std::int64_t number = 0;
    const auto read =
        std::from_chars(value.data(), value.data() + value.size(), number);
    if (read.ec != std::errc()) return {};
    return number;
  }
  std::optional<std::uint64_t> bytes(std::string_view name) const {
    const auto found = number(name);
    if (!found) return {};
    return static_cast<std::uint64_t>(*found);
  }
  double seconds(std::string_view name) const {
    return static_cast<double>(number(name).value_or(0)) / 1e9;
  }

 private:
  std::multimap<std::string_view, std::string_view> values_;
};

}  // namespace

void Timeline::opened_and_resident(double resident_seconds) {
  resident_end_ = Clock::now();
  open_end_ = resident_end_ - std::chrono::duration_cast<Clock::duration>(
                                  std::chrono::duration<double>(resident_seconds));
}

void Timeline::loaded() {
  const Clock::time_point loaded = Clock::now();
  const Usage used = usage();
  const Footprint memory = footprint(0).value_or(Footprint{});
  put("begun", count(begun_));
  put("open", count(open_end_ - begun_));
  put("resident", count(resident_end_ - open_end_));
  put("first_use", count(loaded - resident_end_));
  put("user", static_cast<std::int64_t>(used.user * 1e9));
  put("system", static_cast<std::int64_t>(used.system * 1e9));
  // What was there once and is no more was a buffer of ours: mappings of the file stay.
  const std::uint64_t now = memory.anonymous + memory.file_backed;
  put("anonymous", memory.anonymous + (memory.peak > now ? memory.peak - now : 0));
  put("file_backed", memory.file_backed);
  put_if("huge_mapped", huge_mapped());
  put_if("device", device_bytes());
  std::fflush(stdout);
}

void Timeline::tell(const LoadReport& report) const {
  put("chosen", load_way_name(report.way));
  put("direct_io", report.direct_io ? 1 : 0);
  if (!report.reason.empty()) put("reason", report.reason);
  for (const std::string& warning : report.warnings) put("warning", warning);
  std::fflush(stdout);
}

Result<Figures> figures_of(const Ending& ending) {
  const Lines lines(ending.output);
  const auto begun = lines.number("begun");
  if (!begun) return Error(Code::io, "a process that was measured said nothing");
  Figures figures;
  figures.start = static_cast<double>(*begun - count(ending.started)) / 1e9;
  figures.open = lines.seconds("open");
  figures.resident = lines.seconds("resident");
  figures.first_use = lines.seconds("first_use");
  figures.user = lines.seconds("user");
  figures.system = lines.seconds("system");
  figures.major_faults = ending.major_faults;
  figures.minor_faults = ending.minor_faults;
  figures.anonymous = lines.bytes("anonymous").value_or(0);
  figures.file_backed = lines.bytes("file_backed").value_or(0);
  figures.huge_mapped = lines.bytes("huge_mapped");
  figures.device_bytes = lines.bytes("device");
  figures.chosen = lines.text("chosen");
  figures.reason = lines.text("reason");
  figures.warnings = lines.texts("warning");
  figures.direct_io = lines.number("direct_io").value_or(0) == 1;
  return figures;
}

}  // namespace weig::cli::bench
