// SPDX-License-Identifier: Apache-2.0
// weig evict: makes the kernel drop a file from memory, and tells what stays and why.
#include <fmt/format.h>
#include <weig/host.h>
#include <weig/page_cache.h>

#include <memory>
#include <optional>
#include <string>

#include "command.h"
#include "file_owner.h"
#include "holders.h"
#include "json.h"
#include "options.h"
#include "quantity.h"
#include "report.h"
#include "terminal.h"

namespace weig::cli {
namespace {

struct Arguments {
  std::string file;
  Form form = Form::text;
};

struct Eviction {
  std::uint64_t file_size = 0;
  std::optional<std::uint64_t> before;  // bytes in memory; nothing: unknown
  std::optional<std::uint64_t> after;
  std::optional<Holders> holders;  // looked for where something stayed, or may have
  std::string reason;              // why; empty if nothing did
};

std::optional<std::uint64_t> resident(const PageCache& cache) {
  if (!cache.known) return {};
  return cache.resident;
}

Result<Eviction> evict_and_look(const std::string& file) {
  Eviction eviction;
  const auto before = page_cache(file);
  if (!before) return before.error();
  if (Status status = evict(file); !status) return std::move(status).error();
  const auto after = page_cache(file);
  if (!after) return after.error();
  eviction.file_size = after->file_size;
  eviction.before = resident(*before);
  eviction.after = resident(*after);
  if (eviction.after == 0U) return eviction;
  eviction.holders = holders_of(file);
  eviction.reason = holders_text(*eviction.holders);
  if (const auto storage = storage_of(file); storage && storage->in_memory)
    eviction.reason = storage->file_system + " keeps files in memory";
  return eviction;
}

void print_text(Output& output, const Arguments& arguments, const Eviction& eviction) {
  const std::string file = printable(arguments.file);
  const auto print = [&output](const std::string& line) {
    output.print("{}\n", fitting(Stream::output, line, 2));
  };
  if (!eviction.before || !eviction.after) {
    print(fmt::format("{}: dropped what nobody maps; unknown how much stays: {}; {}",
                      file, why_unknown(arguments.file), eviction.reason));
    return;
  }
  std::string line =
      fmt::format("{}: {} of {} were in memory, {} are now", file,
                  short_bytes(*eviction.before), short_bytes(eviction.file_size),
                  *eviction.after == 0 ? "none" : short_bytes(*eviction.after));
  if (!eviction.reason.empty()) line += ": " + eviction.reason;
  print(line);
}

void print_json(Output& output, const Arguments& arguments, const Eviction& eviction) {
  const auto member = [](Json& json, std::string_view name,
                         std::optional<std::uint64_t> bytes) {
    json.key(name);
    bytes ? json.value(*bytes) : json.null();
  };
  Json json(output, 2);
  json.begin_object().member("file", arguments.file);
  json.member("file_size", eviction.file_size);
  member(json, "resident_before", eviction.before);
  member(json, "resident_after", eviction.after);
  json.key("reason");
  eviction.reason.empty() ? json.null() : json.value(eviction.reason);
  json.key("held_by").begin_array();
  if (eviction.holders)
    for (const Holder& holder : eviction.holders->found)
      json.begin_object()
          .member("process", holder.process)
          .member("name", holder.name)
          .member("mapped", holder.mapped)
          .member("locked", holder.locked)
          .end_object();
  json.end_array().end_object();
}

int run_evict(const Arguments& arguments) {
  const auto eviction = evict_and_look(arguments.file);
  if (!eviction) return fail(eviction.error(), arguments.form);
  Output output(stdout, "standard output");
  arguments.form == Form::json ? print_json(output, arguments, *eviction)
                               : print_text(output, arguments, *eviction);
  return close_output(output, 0);
}

}  // namespace

Command add_evict(CLI::App& app) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* command = app.add_subcommand("evict", "Drop a file from memory");
  add_file(*command, arguments->file);
  add_json(*command, arguments->form);
  command->footer("Pages that a process maps stay; the processes are named.");
  return {command, [arguments] { return run_evict(*arguments); }};
}

}  // namespace weig::cli
