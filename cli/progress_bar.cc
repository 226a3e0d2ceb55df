// SPDX-License-Identifier: Apache-2.0
#include "progress_bar.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "host.h"
#include "quantity.h"

namespace weig::cli {
namespace {

constexpr auto kRedraw = std::chrono::milliseconds(100);

// Short work needs no bar: one that flashes by is noise.
constexpr auto kPatience = std::chrono::milliseconds(300);

constexpr std::size_t kMaxBar = 30;

std::string bar(double part, std::size_t width) {
  const auto full = static_cast<std::size_t>(part * static_cast<double>(width));
  std::string text(std::min(full, width), '=');
  if (text.size() < width) text += '>';
  text.resize(width, ' ');
  return text;
}

std::string time_left(double seconds) {
  const auto whole = static_cast<std::uint64_t>(seconds + 0.5);
  if (whole >= 3600)
    return fmt::format("{}:{:02}:{:02} left", whole / 3600, whole / 60 % 60,
                       whole % 60);
  return fmt::format("{}:{:02} left", whole / 60, whole % 60);
}

}  // namespace

ProgressBar::ProgressBar(std::string_view verb)
    : verb_(verb),
      visible_(is_terminal(Stream::talk)),
      start_(Clock::now()),
      next_(start_ + kPatience) {}

ProgressBar::~ProgressBar() {
  if (drawn_) std::fputs("\r\x1b[K", stderr);
}

Progress ProgressBar::callback() {
  return
      [this](std::uint64_t done, std::uint64_t total) { return advance(done, total); };
}

bool ProgressBar::advance(std::uint64_t done, std::uint64_t total) {
  poll_for_stops();
  if (stop_signal() != 0) return false;
  const auto now = Clock::now();
  // Work of several passes (hashing sources, then copying) starts over.
  if (done < done_) start_ = now;
  done_ = done;
  if (!visible_ || now < next_) return true;
  next_ = now + kRedraw;
  const double seconds = std::chrono::duration<double>(now - start_).count();
  const std::string text = "\r" + line(done, total, seconds) + "\x1b[K";
  std::fwrite(text.data(), 1, text.size(), stderr);
  drawn_ = true;
  return true;
}

std::string ProgressBar::line(std::uint64_t done, std::uint64_t total,
                              double seconds) const {
  const double part =
      total == 0 ? 1 : static_cast<double>(done) / static_cast<double>(total);
  const std::string head = fmt::format("{} {:3.0f}%", verb_, part * 100);
  std::string tail = rate(done, seconds);
  if (done > 0 && total >= done) tail += "  " + time_left(seconds / part - seconds);
  // One column stays free: a full line would wrap, and then cannot be wiped.
  const std::size_t width = columns(Stream::talk);
  const std::size_t used = head.size() + tail.size() + 7;
  if (width < used + 4) return head.substr(0, width > 1 ? width - 1 : 0);
  return fmt::format("{} [{}]  {}", head, bar(part, std::min(width - used, kMaxBar)),
                     tail);
}

}  // namespace weig::cli
