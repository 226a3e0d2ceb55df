// SPDX-License-Identifier: Apache-2.0
#include "bench/page.h"

#include <fmt/format.h>
#include <weig/version.h>

#include <filesystem>
#include <string>

#include "bench/axis.h"
#include "bench/page_style.h"
#include "bench/plots.h"
#include "bench/sheet.h"
#include "bench/table.h"
#include "bench/usage.h"
#include "quantity.h"

namespace weig::cli::bench {
namespace {

std::string title_of(const Report& report) {
  const std::filesystem::path path(report.subject.file);
  return html("Loading " + path.filename().string());
}

void print_head(Output& output, const Report& report) {
  output.print(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<meta name=\"color-scheme\" content=\"light dark\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
      "style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:\">\n"
      "<link rel=\"icon\" href=\"data:,\">\n<title>{}</title>\n<style>",
      title_of(report));
  output.write(kPageStyle);
  output.write("</style>\n</head>\n<body>\n<main>\n");
}

// The row that stands for weig: `auto`, or else its fastest way.
const Row* best_row(const Report& report, State state) {
  const Row* best = nullptr;
  double least = 0;
  for (const Row& row : report.rows) {
    const auto total = total_of(row.backed);
    if (row.state != state || !library_way(row.way) || !total) continue;
    if (row.way == Way::automatic) return &row;
    if (best == nullptr || total->median < least) {
      best = &row;
      least = total->median;
    }
  }
  return best;
}

const Row* row_of(const Report& report, Way way, State state) {
  for (const Row& row : report.rows)
    if (row.way == way && row.state == state) return &row;
  return nullptr;
}

std::string comparison(double seconds, double other, std::string_view name) {
  if (other > seconds)
    return fmt::format("{:.1f} times faster than {}", other / seconds, name);
  return fmt::format("{:.2f} times as long as {}", seconds / other, name);
}

void print_tile(Output& output, const Report& report, State state) {
  const Row* best = best_row(report, state);
  if (best == nullptr) return;
  const double seconds = total_of(best->backed)->median;
  output.print(
      "<div class=\"card\"><div class=\"soft\">{}{}, {}</div>"
      "<div class=\"big\">{} s</div>",
      state == State::cold ? "Cold" : "Warm", is_proven(*best) ? "" : " (not proven)",
      way_name(best->way), seconds_text(seconds));
  std::string text = rate(report.subject.file_size, seconds);
  const auto limit = raw_limit(report, state);
  if (limit && state == State::cold)
    text += fmt::format(", {:.2f} times the raw reading", seconds / *limit);
  for (const Way way : {Way::copy, Way::plain})
    if (const Row* row = row_of(report, way, state))
      if (const auto total = total_of(row->backed))
        text += ", " + comparison(seconds, total->median, way_name(way));
  output.print("<div class=\"soft\">{}</div></div>\n", html(text));
}

// Of which ways it is not certain that they started from that state.
void print_unproven(Output& output, const Report& report, State state) {
  std::string text;
  bool all = true;
  for (const Row& row : report.rows) {
    if (row.state != state) continue;
    all = all && !is_proven(row);
    if (!is_proven(row))
      text += fmt::format("{}{} ({})", text.empty() ? "" : ", ", way_name(row.way),
                          proof_text(proof_of(row.backed), state));
  }
  if (!text.empty())
    output.print("<p><strong>* Not proven to be {}:</strong> {}.</p>\n",
                 state_name(state), all ? "any of these" : text);
}

void print_bars_card(Output& output, const Report& report, State state) {
  output.print(
      "<section class=\"card\"><h2>Time to load, {0}</h2>"
      "<p class=\"soft\">{1}</p>\n<ul class=\"legend\">"
      "<li><span class=\"start\"></span>start of the process</li>"
      "<li><span class=\"open\"></span>open</li>"
      "<li><span class=\"resident\"></span>resident</li>"
      "<li><span class=\"use\"></span>first use</li>"
      "<li><span class=\"dash\"></span>{2}</li>{3}</ul>\n",
      state_name(state),
      state == State::cold
          ? "Nothing of the file in memory before. The raw reading is the faster "
            "of two that keep nothing."
          : "All of the file in the page cache before. The raw reading copies "
            "it from there into one small buffer; mapping copies nothing.",
      kRawName,
      report.with_fresh ? "<li><span class=\"dot\"></span>total with fresh memory</li>"
                        : "");
  print_unproven(output, report, state);
  print_bars(output, report, state);
  output.write("</section>\n");
}

void print_traces_card(Output& output, const Traces& traces) {
  output.print(
      "<section class=\"card\"><h2>While it loads, {}</h2><p class=\"soft\">Above, the "
      "memory of the process; below, the file from its start (top) to its end "
      "(bottom), "
      "and how much of each part is in the page cache. Each from a run of its own that "
      "was watched from outside.</p>\n<ul class=\"legend\">"
      "<li><span class=\"anonymous\"></span>anonymous memory</li>"
      "<li><span class=\"file\"></span>file-backed memory, on top of it</li>"
      "<li><span class=\"ramp\"><i class=\"h0\"></i><i class=\"h1\"></i>"
      "<i class=\"h2\"></i><i class=\"h3\"></i><i class=\"h4\"></i><i class=\"h5\"></i>"
      "</span>none to all in the page cache</li></ul>\n",
      state_name(traces.state));
  print_traces(output, traces);
  output.write("</section>\n");
}

void print_sheet(Output& output, const Sheet& sheet, const std::string& caption) {
  output.print(
      "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"{0}\">"
      "<table><caption>{0}</caption>\n<thead><tr>",
      html(caption));
  output.write("<th scope=\"col\">way</th>");
  for (std::size_t i = 1; i < sheet.head.size(); ++i)
    output.print("<th scope=\"col\">{}</th>", html(sheet.head[i]));
  output.write("</tr></thead>\n<tbody>");
  for (const auto& cells : sheet.lines) {
    output.print("<tr><th scope=\"row\">{}</th>", html(cells.front()));
    const bool whole = cells.size() == sheet.head.size();
    for (std::size_t i = 1; i < cells.size(); ++i)
      output.print(
          "<td{}>{}</td>",
          whole ? std::string()
                : fmt::format(" class=\"wide\" colspan=\"{}\"", sheet.head.size() - 1),
          html(cells[i]));
    output.write("</tr>\n");
  }
  output.write("</tbody></table></div>\n");
}

void print_tables_card(Output& output, const Report& report) {
  output.write("<section class=\"card\"><h2>All figures</h2>\n");
  for (const State state : report.states) {
    print_sheet(output, time_sheet(report, state),
                fmt::format("Seconds, {}", state_name(state)));
    print_sheet(output, memory_sheet(report, state),
                fmt::format("Faults, memory and reading, {}", state_name(state)));
  }
  output.write("<p></p><ul class=\"notes\">");
  for (const Remark& remark : remarks(report))
    output.print("<li>{}: {}</li>", remark.about, html(remark.text));
  output.write("</ul></section>\n");
}

void print_fact(Output& output, const char* name, const std::string& value) {
  if (!value.empty()) output.print("<dt>{}</dt><dd>{}</dd>", name, html(value));
}

void print_facts(Output& output, const Report& report) {
  const Subject& subject = report.subject;
  output.write("<section class=\"card\"><h2>Where and how</h2>\n<dl>");
  print_fact(output, "file", subject.file);
  print_fact(output, "format", std::string(file_format_name(subject.format)));
  print_fact(output, "size", full_bytes(subject.file_size));
  print_fact(output, "tensors", grouped(subject.tensors));
  print_fact(output, "storage",
             subject.storage.file_system +
                 (subject.storage.read_ahead
                      ? fmt::format(", read-ahead {} KiB",
                                    grouped(*subject.storage.read_ahead / 1024))
                      : std::string()));
  print_fact(
      output, "memory",
      fmt::format("{}, {}", short_bytes(subject.memory.limit), subject.memory.source));
  print_fact(
      output, "processor",
      fmt::format("{}{}{}", subject.processor, subject.processor.empty() ? "" : ", ",
                  counted(subject.cpus, "CPU")));
  print_fact(output, "kernel", subject.kernel);
  print_fact(output, "measured",
             fmt::format("{} with weig {}, {}", date_and_time(), WEIG_VERSION_STRING,
                         counted(report.rounds, "round")));
  output.print("</dl>\n<p></p><p class=\"soft\">{}</p></section>\n",
               html(method_text(report)));
}

}  // namespace

void print_page(Output& output, const Report& report, const Traces& traces) {
  print_head(output, report);
  output.print("<h1>{}</h1>\n<p class=\"soft\">{}</p>\n", title_of(report),
               html(subject_text(report.subject)));
  output.write("<div class=\"tiles\">\n");
  for (const State state : report.states) print_tile(output, report, state);
  output.write("</div>\n");
  for (const State state : report.states) print_bars_card(output, report, state);
  if (!traces.ways.empty()) print_traces_card(output, traces);
  print_tables_card(output, report);
  print_facts(output, report);
  output.write("</main>\n<div id=\"tip\" role=\"tooltip\" hidden></div>\n<script>");
  output.write(kPageScript);
  output.write("</script>\n</body>\n</html>\n");
}

}  // namespace weig::cli::bench
