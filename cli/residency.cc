// SPDX-License-Identifier: Apache-2.0
// weig residency: how much of a file is in memory, group by group.
#include <fmt/format.h>
#include <weig/model.h>
#include <weig/parts.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "command.h"
#include "file_owner.h"
#include "host.h"
#include "json.h"
#include "options.h"
#include "quantity.h"
#include "report.h"
#include "strip.h"
#include "terminal.h"

namespace weig::cli {
namespace {

constexpr std::size_t kMaxNameWidth = 32;
constexpr std::size_t kMinNameWidth = 12;
constexpr std::size_t kMostCells = 64;
constexpr std::size_t kLeastCells = 8;
constexpr std::size_t kIndent = 2;
// Of output that goes to no terminal.
constexpr std::size_t kPipeColumns = 100;

struct Arguments {
  std::string file;
  Form form = Form::text;
};

struct Row {
  const FilePart& part;
  ResidentBytes bytes;
};

double percent(std::uint64_t part, std::uint64_t whole) {
  if (whole == 0) return 100;
  return 100 * static_cast<double>(part) / static_cast<double>(whole);
}

void print_rows(Output& output, const Residency& residency, const ResidentBytes& all,
                const std::vector<Row>& rows) {
  const bool terminal = is_terminal(Stream::output);
  const Blocks blocks =
      terminal && terminal_is_utf8() ? Blocks::unicode : Blocks::ascii;
  const std::size_t width = terminal ? columns(Stream::output) : kPipeColumns;
  // Two spaces, name, two, "123.4 MB", two, "100.0 %", two, strip; one column stays
  // free.
  const std::size_t beside_name = kIndent + 2 + 8 + 2 + 7 + 2 + 1;
  const std::size_t most_name = std::clamp(
      width - std::min(width, beside_name + kLeastCells), kMinNameWidth, kMaxNameWidth);
  std::size_t name_width = 0;
  for (const Row& row : rows)
    name_width = std::max(name_width, display_width(printable(row.part.name)));
  name_width = std::min(name_width, most_name);
  const std::size_t used = beside_name + name_width;
  const std::size_t cells =
      std::clamp(width - std::min(width, used), kLeastCells, kMostCells);
  for (const Row& row : rows) {
    const std::string name = shortened(printable(row.part.name), most_name);
    output.print(
        "  {}{}  {:>8}  {:>5.1f} %  {}\n", name,
        std::string(name_width - std::min(name_width, display_width(name)), ' '),
        short_bytes(row.bytes.bytes), percent(row.bytes.resident, row.bytes.bytes),
        strip(residency, row.part.ranges, cells, blocks));
  }
  output.print("  {}\n", strip_legend(blocks, all));
}

void print_text(Output& output, const Arguments& arguments, const Residency& residency,
                const std::vector<Row>& rows) {
  const PageCache& cache = residency.cache;
  const std::string file = printable(arguments.file);
  if (!cache.known) {
    const std::string line =
        fmt::format("{}: unknown how much of {} is in memory: {}", file,
                    short_bytes(cache.file_size), why_unknown(arguments.file));
    output.print("{}\n", fitting(Stream::output, line, kIndent));
    return;
  }
  const ResidentBytes all =
      resident_bytes(residency, std::vector<FileRange>{{0, cache.file_size}});
  std::string head =
      fmt::format("{}: {} of {} in memory ({:.1f} %)", file, short_bytes(all.resident),
                  short_bytes(all.bytes), percent(all.resident, all.bytes));
  if (all.huge + all.small > 0)
    head += fmt::format(", {} of it in 2 MiB folios", short_bytes(all.huge));
  output.print("{}\n", fitting(Stream::output, head, kIndent));
  print_rows(output, residency, all, rows);
}

void add_bytes(Json& json, const Residency& residency, const ResidentBytes& bytes) {
  json.member("bytes", bytes.bytes);
  const auto member = [&](std::string_view name, std::uint64_t value) {
    json.key(name);
    residency.cache.known ? json.value(value) : json.null();
  };
  member("resident", bytes.resident);
  member("in_huge_folios", bytes.huge);
  member("in_small_folios", bytes.small);
}

void print_json(Output& output, const Arguments& arguments, const Residency& residency,
                const std::vector<Row>& rows) {
  Json json(output, 2);
  json.begin_object().member("file", arguments.file);
  json.member("known", residency.cache.known);
  json.key("reason");
  residency.cache.known ? json.null() : json.value(why_unknown(arguments.file));
  add_bytes(json, residency,
            resident_bytes(residency,
                           std::vector<FileRange>{{0, residency.cache.file_size}}));
  json.key("parts").begin_array();
  for (const Row& row : rows) {
    json.begin_object().member("name", row.part.name);
    json.member("group", row.part.is_group);
    add_bytes(json, residency, row.bytes);
    json.end_object();
  }
  json.end_array().end_object();
}

int run_residency(const Arguments& arguments) {
  // First of all, since opening the model reads its front.
  const auto residency = residency_of(arguments.file);
  if (!residency) return fail(residency.error(), arguments.form);
  OpenOptions options;
  options.part = Part::metadata;
  options.unsealed = Unsealed::accept;
  options.unknown_dtypes = UnknownDtypes::accept;
  const auto model = open_model(arguments.file, options);
  if (!model) return fail(model.error(), arguments.form);
  const auto parts = file_parts(*model);
  if (!parts) return fail(Error(parts.error()).file(arguments.file), arguments.form);
  std::vector<Row> rows;
  for (const FilePart& part : *parts)
    rows.push_back({part, resident_bytes(*residency, part.ranges)});
  Output output(stdout, "standard output");
  arguments.form == Form::json ? print_json(output, arguments, *residency, rows)
                               : print_text(output, arguments, *residency, rows);
  return close_output(output, 0);
}

}  // namespace

Command add_residency(CLI::App& app) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* command =
      app.add_subcommand("residency", "Show how much of a file is in memory");
  add_file(*command, arguments->file);
  add_json(*command, arguments->form);
  command->footer(
      "A folio is a piece in which the kernel keeps a file in memory: one of 2 MiB\n"
      "costs one page fault, small ones many. Metadata is what lies before and behind\n"
      "the tensors; the rest of the file is tensors of no group, and padding.\n"
      "The kernel tells this to the owner of a file and to those who may write it;\n"
      "for others it is unknown.");
  return {command, [arguments] { return run_residency(*arguments); }};
}

}  // namespace weig::cli
