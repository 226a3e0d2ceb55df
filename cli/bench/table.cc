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

constexpr std::size_t kColumns = 100;

using Cells = std::vector<std::string>;

// The first column to the left, others to the right; a sentence runs on.
void print_sheet(Output& output, const Sheet& sheet) {
  std::vector<std::size_t> widths(sheet.head.size());
  std::ranges::transform(sheet.head, widths.begin(), display_width);
  for (const Cells& cells : sheet.lines)
    for (std::size_t i = 0; i < cells.size(); ++i)
      if (i == 0 || cells.size() == widths.size())
        widths[i] = std::max(widths[i], display_width(cells[i]));
  const auto print_line = [&](const Cells& cells) {
    std::string line = fmt::format("  {:<{}}", cells.front(), widths.front());
    for (std::size_t i = 1; i < cells.size(); ++i) {
      line += "  ";
      if (cells.size() == widths.size())
        line.append(widths[i] - display_width(cells[i]), ' ');
      line += cells[i];
    }
    output.print("{}\n", line);
  };
  print_line(sheet.head);
  for (const Cells& cells : sheet.lines) print_line(cells);
}

// Words of a text on lines that fit: the first where `used` columns have been printed,
// others after `indent`.
void print_wrapped(Output& output, std::string_view text, std::size_t indent,
                   std::size_t used) {
  bool first = true;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(' '), text.size());
    const std::string_view word = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const std::size_t width = display_width(word);
    if (!first && used + 1 + width > kColumns) {
      output.print("\n{:{}}{}", "", indent, word);
      used = indent + width;
    } else {
      output.print("{}{}", first ? "" : " ", word);
      used += width + (first ? 0 : 1);
    }
    first = false;
  }
  output.write("\n");
}

void print_remarks(Output& output, const Report& report) {
  for (const Remark& remark : remarks(report)) {
    const std::string head = fmt::format("  {}: ", remark.about);
    output.write(head);
    print_wrapped(output, remark.text, head.size() > 30 ? 6 : head.size(), head.size());
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
  output.write("  ");
  print_wrapped(output, subject_text(report.subject), 2, 2);
  for (const State state : report.states) {
    output.write("\n");
    print_sheet(output, time_sheet(report, state));
    output.write("\n");
    print_sheet(output, memory_sheet(report, state));
  }
  output.write("\n");
  print_remarks(output, report);
  output.write("  ");
  print_wrapped(output, method_text(report), 2, 2);
}

}  // namespace weig::cli::bench
