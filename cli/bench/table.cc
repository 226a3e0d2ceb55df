// SPDX-License-Identifier: Apache-2.0
#include "bench/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "bench/sheet.h"
#include "quantity.h"
#include "terminal.h"

namespace weig::cli::bench {
namespace {

using Cells = std::vector<std::string>;

// Spaces before a sheet, and between its columns.
struct Spacing {
  std::size_t margin = 2;
  std::size_t gap = 2;
};

// As wide as the terminal allows for columns of these widths.
Spacing spacing_of(const std::vector<std::size_t>& widths) {
  Spacing spacing;
  if (!is_terminal(Stream::output)) return spacing;
  std::size_t used = spacing.margin + widths.front();
  for (std::size_t i = 1; i < widths.size(); ++i) used += spacing.gap + widths[i];
  if (used < columns(Stream::output)) return spacing;
  spacing.gap = 1;
  if (used - (widths.size() - 1) >= columns(Stream::output)) spacing.margin = 0;
  return spacing;
}

// The first column to the left, others to the right; a sentence runs on.
void print_sheet(Output& output, const Sheet& sheet) {
  std::vector<std::size_t> widths(sheet.head.size());
  std::ranges::transform(sheet.head, widths.begin(), display_width);
  for (const Cells& cells : sheet.lines)
    for (std::size_t i = 0; i < cells.size(); ++i)
      if (i == 0 || cells.size() == widths.size())
        widths[i] = std::max(widths[i], display_width(cells[i]));
  const Spacing spacing = spacing_of(widths);
  const auto print_line = [&](const Cells& cells) {
    const std::string name =
        fmt::format("{:{}}{:<{}}", "", spacing.margin, cells.front(), widths.front());
    std::string line = name;
    for (std::size_t i = 1; i < cells.size(); ++i) {
      line.append(spacing.gap, ' ');
      if (cells.size() == widths.size())
        line.append(widths[i] - display_width(cells[i]), ' ');
      line += cells[i];
    }
    if (cells.size() < widths.size())
      line = fitting(Stream::output, line, name.size() + spacing.gap);
    output.print("{}\n", line);
  };
  print_line(sheet.head);
  for (const Cells& cells : sheet.lines) print_line(cells);
}

void print_paragraph(Output& output, const std::string& text) {
  output.print("{}\n", fitting(Stream::output, "  " + text, 2));
}

void print_remarks(Output& output, const Report& report) {
  for (const Remark& remark : remarks(report)) {
    const std::string head = fmt::format("  {}: ", remark.about);
    output.print("{}\n", fitting(Stream::output, head + remark.text,
                                 head.size() > 30 ? 6 : head.size()));
  }
}

}  // namespace

std::string subject_text(const Subject& subject) {
  std::string text =
      fmt::format("{}, {}; {}", full_bytes(subject.file_size),
                  counted(subject.tensors, "tensor"), subject.storage.file_system);
  if (subject.storage.read_ahead)
    text +=
        fmt::format(", read-ahead {} KiB", grouped(*subject.storage.read_ahead / 1024));
  text += fmt::format("; {}, {} of memory ({})", counted(subject.cpus, "CPU"),
                      short_bytes(subject.memory.limit), subject.memory.source);
  return text + fmt::format("; {} touching", counted(subject.threads, "thread"));
}

std::string method_text(const Report& report) {
  return fmt::format(
      "Medians of {}, each run in a fresh process. Total: from before the process "
      "exists "
      "until one byte of every page of every tensor has been read, which is use. x "
      "raw: "
      "times the faster raw reading of the file in the same rounds (raw-read: through "
      "one "
      "buffer of 8 MiB; raw-direct: past the page cache, several threads). Memory is "
      "that "
      "at the end of loading, with what was freed before. The state is what the kernel "
      "said just before each run.",
      counted(report.rounds, "round"));
}

void print_table(Output& output, const Report& report) {
  output.print("{}\n", printable(report.subject.file));
  print_paragraph(output, subject_text(report.subject));
  for (const State state : report.states) {
    output.write("\n");
    print_sheet(output, time_sheet(report, state));
    output.write("\n");
    print_sheet(output, memory_sheet(report, state));
  }
  output.write("\n");
  print_remarks(output, report);
  print_paragraph(output, method_text(report));
}

}  // namespace weig::cli::bench
