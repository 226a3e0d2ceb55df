// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "bench/axis.h"
#include "bench/plots.h"
#include "bench/sheet.h"

namespace weig::cli::bench {
namespace {

// Pixels; the style sheet's lists have the same.
constexpr int kTop = 20;
constexpr int kRow = 30;
constexpr int kBar = 16;
constexpr int kBottom = 24;

struct Part {
  double Figures::* seconds;
  const char* style;
  const char* name;
};
constexpr Part kParts[] = {{&Figures::start, "start", "start of the process"},
                           {&Figures::open, "open", "open"},
                           {&Figures::resident, "resident", "resident"},
                           {&Figures::first_use, "use", "first use"}};

std::optional<double> median_of(const Row& row, double Figures::* figure) {
  const auto found = spread(
      row.backed, [figure](const Figures& f) { return std::optional(f.*figure); });
  if (!found) return {};
  return found->median;
}

std::string described(const Report& report, const Row& row) {
  const auto total = total_of(row.backed);
  std::string text = fmt::format("{} {}", state_name(row.state), way_name(row.way));
  if (!row.refusal.empty()) return text + ": refused, " + row.refusal;
  if (!total) return text + ": failed";
  text += fmt::format("\ntotal {} s ({} to {})", seconds_text(total->median),
                      seconds_text(total->low), seconds_text(total->high));
  for (const Part& part : kParts)
    text += fmt::format("\n{} {} s", part.name,
                        seconds_text(median_of(row, part.seconds).value_or(0)));
  if (const auto fresh = total_of(row.fresh))
    text += fmt::format("\nwith fresh memory {} s", seconds_text(fresh->median));
  if (const auto limit = raw_limit(report, row.state))
    text += fmt::format("\n{:.2f} times the {}", total->median / *limit, kRawName);
  return text;
}

std::string value_text(const Row& row) {
  const auto total = total_of(row.backed);
  if (!row.refusal.empty()) return "<small>refused</small>";
  if (!total) return "<small>failed</small>";
  return fmt::format("{} s", seconds_text(total->median));
}

void print_axis(Output& output, const Axis& axis, int height) {
  const auto texts = second_marks(axis);
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const double at = axis.percent(axis.marks()[i]);
    const char* anchor = at < 1 ? "start" : "middle";
    output.print(
        "<line class=\"grid\" x1=\"{0:.2f}%\" x2=\"{0:.2f}%\" y1=\"{1}\" "
        "y2=\"{2}\"/><text x=\"{0:.2f}%\" y=\"{3}\" text-anchor=\"{4}\">{5}</text>\n",
        at, kTop, height - kBottom + 4, height - 6, anchor, texts[i]);
  }
}

void print_row(Output& output, const Report& report, const Row& row, const Axis& axis,
               int top) {
  const auto total = total_of(row.backed);
  if (total) {
    // Medians of parts do not add up to that of the whole: to scale.
    double sum = 0;
    for (const Part& part : kParts) sum += median_of(row, part.seconds).value_or(0);
    double begin = 0;
    for (const Part& part : kParts) {
      const double length =
          median_of(row, part.seconds).value_or(0) / sum * total->median;
      output.print(
          "<rect class=\"{}\" x=\"{:.2f}%\" y=\"{}\" width=\"{:.2f}%\" height=\"{}\"/>",
          part.style, axis.percent(begin), top + (kRow - kBar) / 2,
          axis.percent(length), kBar);
      begin += length;
    }
    const int middle = top + kRow / 2;
    output.print(
        "<line class=\"whisker\" x1=\"{:.2f}%\" x2=\"{:.2f}%\" y1=\"{}\" y2=\"{}\"/>",
        axis.percent(total->low), axis.percent(total->high), middle, middle);
    for (const double end : {total->low, total->high})
      output.print(
          "<line class=\"whisker\" x1=\"{0:.2f}%\" x2=\"{0:.2f}%\" y1=\"{1}\" "
          "y2=\"{2}\"/>",
          axis.percent(end), middle - 4, middle + 4);
  }
  if (const auto fresh = total_of(row.fresh))
    output.print("<circle class=\"dot\" cx=\"{:.2f}%\" cy=\"{}\" r=\"4\"/>",
                 axis.percent(fresh->median), top + kRow / 2);
  output.print(
      "<rect class=\"hit\" x=\"0\" y=\"{}\" width=\"100%\" height=\"{}\" "
      "data-t=\"{}\"/>\n",
      top, kRow, html_lines(described(report, row)));
}

void print_limit(Output& output, const Axis& axis, double limit, int height) {
  const double at = axis.percent(limit);
  const bool left = at > 55;
  output.print(
      "<line class=\"raw\" x1=\"{0:.2f}%\" x2=\"{0:.2f}%\" y1=\"4\" y2=\"{1}\"/>"
      "<text class=\"rawlabel\" x=\"{0:.2f}%\" y=\"13\" dx=\"{2}\" "
      "text-anchor=\"{3}\">{4} {5} s</text>\n",
      at, height - kBottom + 4, left ? -6 : 6, left ? "end" : "start", kRawName,
      seconds_text(limit));
}

std::string summary(const Report& report, State state) {
  std::string text = fmt::format("Time to load, {}.", state_name(state));
  for (const Row& row : report.rows)
    if (row.state == state)
      if (const auto total = total_of(row.backed))
        text +=
            fmt::format(" {}: {} s.", way_name(row.way), seconds_text(total->median));
  return text;
}

}  // namespace

void print_bars(Output& output, const Report& report, State state) {
  std::vector<const Row*> rows;
  double most = 0;
  for (const Row& row : report.rows) {
    if (row.state != state) continue;
    rows.push_back(&row);
    if (const auto total = total_of(row.backed)) most = std::max(most, total->high);
    if (const auto fresh = total_of(row.fresh)) most = std::max(most, fresh->median);
  }
  const Axis axis(most, 4);  // there is no room for more on a phone
  const int height = kTop + kRow * static_cast<int>(rows.size()) + kBottom;
  output.write("<div class=\"bars\"><ul class=\"names\" aria-hidden=\"true\">");
  for (const Row* row : rows)
    output.print("<li{}>{}{}</li>", library_way(row->way) ? " class=\"weig\"" : "",
                 way_name(row->way), is_proven(*row) ? "" : "*");
  output.print(
      "</ul>\n<svg role=\"img\" width=\"100%\" height=\"{}\" aria-label=\"{}\">\n",
      height, html(summary(report, state)));
  print_axis(output, axis, height);
  int top = kTop;
  for (const Row* row : rows) {
    print_row(output, report, *row, axis, top);
    top += kRow;
  }
  if (const auto limit = raw_limit(report, state))
    print_limit(output, axis, *limit, height);
  output.write("</svg>\n<ul class=\"values\" aria-hidden=\"true\">");
  for (const Row* row : rows) output.print("<li>{}</li>", value_text(*row));
  output.write("</ul></div>\n");
}

}  // namespace weig::cli::bench
