// SPDX-License-Identifier: Apache-2.0
#include "bench/status_line.h"

#include <fmt/format.h>

#include <cstdio>
#include <string>

#include "host.h"

namespace weig::cli::bench {
namespace {

// Seconds as people wait for them.
std::string time_left(double seconds) {
  const auto whole = static_cast<std::uint64_t>(seconds + 0.5);
  return fmt::format("{}:{:02}", whole / 60, whole % 60);
}

}  // namespace

StatusLine::StatusLine() : visible_(is_terminal(Stream::talk)), start_(Clock::now()) {}

StatusLine::~StatusLine() {
  if (visible_) std::fputs("\r\x1b[K", stderr);
}

void StatusLine::show(std::string_view text, std::size_t done, std::size_t total) {
  if (!visible_) return;
  std::string line =
      fmt::format("measuring {:3.0f}%  {}",
                  100.0 * static_cast<double>(done) / static_cast<double>(total), text);
  if (done > 0) {
    const double spent = std::chrono::duration<double>(Clock::now() - start_).count();
    line += fmt::format("  {} left", time_left(spent / static_cast<double>(done) *
                                               static_cast<double>(total - done)));
  }
  // One column stays free: a full line would wrap, and then cannot be wiped.
  line.resize(std::min(line.size(), columns(Stream::talk) - 1));
  line = "\r" + line + "\x1b[K";
  std::fwrite(line.data(), 1, line.size(), stderr);
}

}  // namespace weig::cli::bench
