// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "bench/axis.h"
#include "bench/plots.h"
#include "bench/sheet.h"
#include "quantity.h"

namespace weig::cli::bench {
namespace {

// Pixels.
constexpr int kMemoryTop = 6;
constexpr int kMemory = 100;
constexpr int kStripTop = kMemoryTop + kMemory + 8;
constexpr int kStrip = 72;
constexpr int kBottom = 20;
constexpr int kHeight = kStripTop + kStrip + kBottom;

// Places under the pointer that say what was there and then.
constexpr int kHits = 40;

struct Scales {
  Axis time;
  Axis bytes;
};

Scales scales_of(const Traces& traces) {
  double seconds = 0;
  double bytes = 0;
  for (const Trace& trace : traces.ways) {
    seconds = std::max(seconds, trace.loaded);
    for (const MemoryPoint& point : trace.memory)
      bytes = std::max(bytes, static_cast<double>(point.anonymous + point.file_backed));
  }
  return {Axis(seconds, 4), Axis(bytes, 2, Axis::Top::mark)};
}

// The area below a line, in a box of 1000 by 100 with 0 at its foot.
template <typename Bytes>
std::string area(const Trace& trace, const Scales& scales, Bytes bytes) {
  std::string path = "M0 100";
  double last = 0;
  for (const MemoryPoint& point : trace.memory) {
    last = 10 * scales.time.percent(point.seconds);
    path +=
        fmt::format("L{:.1f} {:.2f}", last, 100 - scales.bytes.percent(bytes(point)));
  }
  return path + fmt::format("L{:.1f} 100Z", last);
}

void print_memory(Output& output, const Trace& trace, const Scales& scales) {
  output.print(
      "<svg x=\"0\" y=\"{}\" width=\"100%\" height=\"{}\" viewBox=\"0 0 1000 "
      "100\" preserveAspectRatio=\"none\">",
      kMemoryTop, kMemory);
  // Anonymous memory in front, all memory behind it.
  output.print("<path class=\"file\" d=\"{}\"/>",
               area(trace, scales, [](const auto& p) {
                 return static_cast<double>(p.anonymous + p.file_backed);
               }));
  output.print("<path class=\"anonymous\" d=\"{}\"/></svg>\n",
               area(trace, scales,
                    [](const auto& p) { return static_cast<double>(p.anonymous); }));
  for (const double mark : scales.bytes.marks()) {
    const double y = kMemoryTop + kMemory * (1 - scales.bytes.percent(mark) / 100);
    output.print(
        "<line class=\"grid\" x1=\"0\" x2=\"100%\" y1=\"{0:.1f}\" "
        "y2=\"{0:.1f}\"/>",
        y);
    if (mark > 0)
      output.print(
          "<text x=\"100%\" dx=\"-2\" y=\"{:.1f}\" text-anchor=\"end\">{}</text>",
          y + 12, bytes_mark(mark, scales.bytes.step()));
  }
}

// 0: nothing, 5: all.
int level_of(std::uint8_t percent) {
  return percent == 0 ? 0 : percent >= 100 ? 5 : 1 + percent / 25;
}

// One rectangle a time in which a part of the file did not change.
void print_strip(Output& output, const Trace& trace, const Scales& scales) {
  const std::size_t parts = trace.residency.front().percent.size();
  const double width = 10 * scales.time.percent(trace.loaded);
  output.print(
      "<svg x=\"0\" y=\"{}\" width=\"100%\" height=\"{}\" viewBox=\"0 0 1000 "
      "{}\" preserveAspectRatio=\"none\" shape-rendering=\"crispEdges\">"
      "<rect class=\"h0\" width=\"{:.1f}\" height=\"{}\"/>",
      kStripTop, kStrip, parts, width, parts);
  for (std::size_t part = 0; part < parts; ++part) {
    double begin = 0;
    int level = 0;
    const auto draw_until = [&](double end) {
      if (level > 0 && end > begin)
        output.print(
            "<rect class=\"h{}\" x=\"{:.1f}\" y=\"{}\" width=\"{:.1f}\" "
            "height=\"1\"/>",
            level, begin, part, end - begin);
      begin = end;
    };
    for (const ResidencyPoint& point : trace.residency) {
      const int now = level_of(point.percent[part]);
      if (now == level) continue;
      draw_until(10 * scales.time.percent(point.seconds));
      level = now;
    }
    draw_until(width);
  }
  output.write("</svg>\n");
}

void print_time_axis(Output& output, const Scales& scales) {
  const auto texts = second_marks(scales.time);
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const double at = scales.time.percent(scales.time.marks()[i]);
    output.print("<text x=\"{:.2f}%\" y=\"{}\" text-anchor=\"{}\">{}</text>", at,
                 kHeight - 5,
                 at < 1    ? "start"
                 : at > 90 ? "end"
                           : "middle",
                 texts[i]);
  }
  output.write("\n");
}

// The last of some points in time at or before `seconds`.
template <typename Point>
const Point& point_at(const std::vector<Point>& points, double seconds) {
  auto after = std::ranges::upper_bound(points, seconds, {}, &Point::seconds);
  return after == points.begin() ? *after : *std::prev(after);
}

std::string cached_text(const ResidencyPoint& point) {
  unsigned sum = 0;
  for (const std::uint8_t percent : point.percent) sum += percent;
  return fmt::format("{} % of the file in the page cache", sum / point.percent.size());
}

void print_hits(Output& output, const Trace& trace, const Scales& scales) {
  const double width = scales.time.percent(trace.loaded) / kHits;
  for (int i = 0; i < kHits; ++i) {
    const double seconds = trace.loaded * (i + 0.5) / kHits;
    const MemoryPoint& memory = point_at(trace.memory, seconds);
    std::string text =
        fmt::format("{} after {} s\nanonymous {}\nfile-backed {}", way_name(trace.way),
                    seconds_text(seconds), short_bytes(memory.anonymous),
                    short_bytes(memory.file_backed));
    if (!trace.residency.empty())
      text += "\n" + cached_text(point_at(trace.residency, seconds));
    output.print(
        "<rect class=\"hit\" x=\"{:.2f}%\" y=\"{}\" width=\"{:.2f}%\" "
        "height=\"{}\" data-t=\"{}\"/>",
        i * width, kMemoryTop, width, kStripTop + kStrip - kMemoryTop,
        html_lines(text));
  }
  output.write("\n");
}

std::string summary(const Trace& trace) {
  const MemoryPoint& end = trace.memory.back();
  std::string text = fmt::format(
      "{}: loaded after {} s, then {} of anonymous and {} of file-backed memory",
      way_name(trace.way), seconds_text(trace.loaded), short_bytes(end.anonymous),
      short_bytes(end.file_backed));
  if (!trace.residency.empty()) text += ", " + cached_text(trace.residency.back());
  return text + ".";
}

void print_trace(Output& output, const Trace& trace, const Scales& scales) {
  output.print("<section><header><h3>{}</h3><span class=\"soft\">{}</span></header>",
               way_name(trace.way),
               trace.failure.empty() ? seconds_text(trace.loaded) + " s" : "failed");
  if (!trace.failure.empty()) {
    output.print("<p class=\"soft\">{}</p></section>\n", html(trace.failure));
    return;
  }
  output.print("<svg role=\"img\" width=\"100%\" height=\"{}\" aria-label=\"{}\">\n",
               kHeight, html(summary(trace)));
  print_memory(output, trace, scales);
  if (!trace.residency.empty())
    print_strip(output, trace, scales);
  else
    output.print("<text x=\"0\" y=\"{}\">the page cache is not known</text>",
                 kStripTop + kStrip / 2);
  print_time_axis(output, scales);
  print_hits(output, trace, scales);
  output.write("</svg></section>\n");
}

}  // namespace

void print_traces(Output& output, const Traces& traces) {
  const Scales scales = scales_of(traces);
  output.write("<div class=\"traces\">\n");
  for (const Trace& trace : traces.ways) print_trace(output, trace, scales);
  output.write("</div>\n");
}

}  // namespace weig::cli::bench
