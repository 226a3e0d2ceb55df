// SPDX-License-Identifier: Apache-2.0
// weig warm: brings a file into memory, and on request keeps it there.
#include <fmt/format.h>
#include <weig/parts.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "command.h"
#include "host.h"
#include "json.h"
#include "locking.h"
#include "options.h"
#include "quantity.h"
#include "report.h"
#include "service.h"
#include "terminal.h"
#include "warm_load.h"
#include "warm_plan.h"

namespace weig::cli {
namespace {

struct Arguments {
  WarmOptions load;
  std::vector<std::string> groups;
  LockAmount lock = LockAmount::nothing;
  Form form = Form::text;
};

std::string names_text(const std::vector<std::string>& names) {
  constexpr std::size_t kMost = 4;
  std::string text;
  for (std::size_t i = 0; i < std::min(names.size(), kMost); ++i)
    text += (i > 0 ? ", " : "") + names[i];
  if (names.size() > kMost) text += fmt::format(" and {} more", names.size() - kMost);
  return text;
}

// Tells it at once, and in the report.
void note(const Arguments& arguments, Warmed& warmed, std::string warning) {
  warn(fmt::format("{}: {}", arguments.load.file, warning));
  warmed.warnings.push_back(std::move(warning));
}

void warn_of_limit(const Arguments& arguments, Warmed& warmed) {
  const WarmPlan& plan = warmed.plan;
  if (plan.bytes_left_out == 0) return;
  note(arguments, warmed,
       fmt::format("only the first {} of {} are read: {} has {} available, and more "
                   "would not stay in memory; left out: {}",
                   short_bytes(byte_count(plan.ranges)),
                   short_bytes(byte_count(plan.wanted)), plan.memory.source,
                   short_bytes(plan.memory.available), names_text(plan.left_out)));
}

void warn_of_small_pages(const Arguments& arguments, Warmed& warmed) {
  if (arguments.load.folios != FolioWish::huge || !warmed.huge_after ||
      warmed.stayed > 0)
    return;
  if (!has_small_pages(warmed.load)) return;
  const MemoryLimit& memory = warmed.plan.memory;
  const bool tight = memory.available / 2 < warmed.load.bytes;
  note(arguments, warmed,
       fmt::format("{:.1f} % came in 2 MiB pages, not more: either its file system has "
                   "none, which 'weig doctor' tells, or free memory is scattered{}",
                   100 * *warmed.huge_after,
                   tight ? fmt::format(", or too little is left: {} had {} available",
                                       memory.source, short_bytes(memory.available))
                         : ""));
}

void print_text(Output& output, const Arguments& arguments, const Warmed& warmed) {
  const LoadReport& load = warmed.load;
  const std::string file = printable(arguments.load.file);
  const auto print = [&output](const std::string& line) {
    output.print("{}\n", fitting(Stream::output, line, 2));
  };
  std::string line = fmt::format("{}: {} ", file, short_bytes(load.bytes));
  if (warmed.was_there && warmed.dropped == 0)
    line += "were in memory already";
  else
    line += fmt::format("in memory after {}, {}", duration(load.seconds),
                        rate(load.bytes, load.seconds));
  if (warmed.huge_after)
    line += fmt::format(", {:.1f} % in 2 MiB pages", 100 * *warmed.huge_after);
  if (arguments.load.folios == FolioWish::huge && warmed.huge_before)
    line += fmt::format(" ({:.1f} % before)", 100 * *warmed.huge_before);
  print(line);
  if (warmed.locked)
    print(fmt::format("{}: {} locked in memory until this process is stopped", file,
                      full_bytes(*warmed.locked)));
}

template <typename T>
void add_optional(Json& json, std::string_view name, const std::optional<T>& value) {
  json.key(name);
  value ? json.value(*value) : json.null();
}

void print_json(Output& output, const Arguments& arguments, const Warmed& warmed) {
  const LoadReport& load = warmed.load;
  Json json(output, 2);
  json.begin_object().member("file", arguments.load.file);
  json.member("bytes", load.bytes).member("seconds", load.seconds);
  json.member("threads", load.threads);
  json.member("major_faults", load.major_faults);
  json.member("minor_faults", load.minor_faults);
  add_optional(json, "resident_before", load.resident_before);
  add_optional(json, "resident_after", load.resident_after);
  add_optional(json, "huge_mapped", load.huge_mapped);
  add_optional(json, "huge_share", warmed.huge_after);
  add_optional(json, "huge_share_before", warmed.huge_before);
  json.member("small_folios_dropped", warmed.dropped);
  json.member("small_folios_held", warmed.stayed);
  json.member("bytes_left_out", warmed.plan.bytes_left_out);
  json.key("left_out").begin_array();
  for (const std::string& name : warmed.plan.left_out) json.value(name);
  json.end_array();
  json.member("memory_available", warmed.plan.memory.available);
  json.member("memory_limit_of", warmed.plan.memory.source);
  add_optional(json, "locked", warmed.locked);
  json.key("warnings").begin_array();
  for (const std::string& warning : warmed.warnings) json.value(warning);
  json.end_array().end_object();
}

void tell_warnings(const Arguments& arguments, Warmed& warmed) {
  for (const std::string& warning : warmed.load.warnings)
    note(arguments, warmed, warning);
  warn_of_small_pages(arguments, warmed);
}

void print(Output& output, const Arguments& arguments, const Warmed& warmed) {
  arguments.form == Form::json ? print_json(output, arguments, warmed)
                               : print_text(output, arguments, warmed);
}

int report(const Arguments& arguments, Warmed& warmed) {
  tell_warnings(arguments, warmed);
  Output output(stdout, "standard output");
  print(output, arguments, warmed);
  return close_output(output, 0);
}

// What cannot be locked is said before minutes of reading.
Status check_lock(const Arguments& arguments, const WarmPlan& plan) {
  if (arguments.lock != LockAmount::everything) return {};
  if (plan.bytes_left_out > 0)
    return Error(Code::limit, "what is to be locked does not fit into memory")
        .found(full_bytes(byte_count(plan.wanted)))
        .expected(fmt::format("at most {}, of the {} that {} has available",
                              full_bytes(byte_count(plan.ranges)),
                              short_bytes(plan.memory.available), plan.memory.source))
        .hint("--groups locks less");
  return check_lock_limit(byte_count(plan.ranges));
}

// When a file was last written to; always the same where nobody can tell.
std::filesystem::file_time_type time_of(const std::string& path) {
  std::error_code failed;
  const auto time = std::filesystem::last_write_time(path, failed);
  return failed ? std::filesystem::file_time_type() : time;
}

// Returns when asked to stop, and fails when what is locked serves nobody any more.
Status hold(const Arguments& arguments, const Model& model,
            std::span<const FileRange> ranges, MemoryLock lock) {
  const std::string& file = arguments.load.file;
  std::optional<std::filesystem::file_time_type> written;  // when it was locked again
  while (wait_for_stop(1) == 0) {
    const auto change = model.changed();
    if (!change) continue;
    // Locked is the file that was opened, which nobody gets who opens the path then.
    if (*change == FileChange::replaced)
      return Error(Code::io, "the file was replaced: what was locked is the old one")
          .file(file)
          .hint("start this anew to lock the new one");
    if (*change != FileChange::modified || time_of(file) == written) continue;
    // A file that was cut on the way has lost its pages, and the locks on them.
    written = time_of(file);
    lock.release();
    std::error_code unknown;
    const auto size = std::filesystem::file_size(file, unknown);
    if (!unknown && size < model.file_size())
      return Error(Code::io, "the file was cut while it was locked")
          .file(file)
          .found(std::to_string(size) + " bytes")
          .expected(std::to_string(model.file_size()) + " bytes");
    auto again = lock_ranges(model, ranges, arguments.lock);
    if (!again)
      return Error(Code::io, "the file was written to, and has to be locked again: " +
                                 again.error().fields().what)
          .file(file)
          .hint(again.error().fields().hint);
    lock = *std::move(again);
  }
  return {};
}

int lock_and_wait(const Arguments& arguments, const Model& model, Warmed& warmed) {
  auto lock = lock_ranges(model, warmed.plan.ranges, arguments.lock);
  if (!lock) return fail(Error(lock.error()).file(arguments.load.file), arguments.form);
  warmed.locked = lock->bytes();
  if (*warmed.locked < byte_count(warmed.plan.ranges))
    note(arguments, warmed,
         fmt::format("only {} of {} are locked: this process {}; to raise it: {}",
                     full_bytes(*warmed.locked),
                     full_bytes(byte_count(warmed.plan.ranges)),
                     lock_limit_text(memory_lock_limit()), how_to_raise_lock_limit()));
  tell_warnings(arguments, warmed);
  // From here on, being stopped is how this ends well. Nor does a reader that is gone
  // end it.
  Output output(stdout, "standard output", OnSignal::finish);
  print(output, arguments, warmed);
  const Status told = output.finish();
  if (!told && !output.reader_gone()) return fail(told.error(), Form::text);
  tell_ready();
  const Status held = hold(arguments, model, warmed.plan.ranges, *std::move(lock));
  return held ? 0 : fail(held.error(), Form::text);
}

int run_warm(const Arguments& arguments) {
  auto plan = warm_plan(arguments.load.file, arguments.groups);
  if (!plan) return fail(plan.error(), arguments.form);
  Warmed warmed;
  warmed.plan = *std::move(plan);
  if (const Status status = check_lock(arguments, warmed.plan); !status)
    return fail(Error(status.error()).file(arguments.load.file), arguments.form);
  warn_of_limit(arguments, warmed);
  const auto model = load_into_memory(arguments.load, warmed);
  if (!model) return fail(model.error(), arguments.form);
  return arguments.lock == LockAmount::nothing
             ? report(arguments, warmed)
             : lock_and_wait(arguments, *model, warmed);
}

void add_lock(CLI::App& command, Arguments& arguments) {
  CLI::Option* all = command.add_flag_callback(
      "--lock", [&arguments] { arguments.lock = LockAmount::everything; },
      "Keep it in memory (mlock) until stopped; all of it\nor none");
  CLI::Option* part = command.add_flag_callback(
      "--lock-what-fits", [&arguments] { arguments.lock = LockAmount::what_fits; },
      "The same for as much as the limit allows, from the\nfront on; not with --lock");
  all->excludes(part);
}

}  // namespace

Command add_warm(CLI::App& app) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* command = app.add_subcommand("warm", "Bring a file into memory");
  add_file(*command, arguments->load.file);
  command
      ->add_option("--groups", arguments->groups,
                   "Only these groups of layers, with * and ? as in\n'weig ls'")
      ->type_name("NAME");
  add_lock(*command, *arguments);
  command->add_flag_callback(
      "--huge", [arguments] { arguments->load.folios = FolioWish::huge; },
      "Drop what is in memory in small folios, where\nnobody maps it, and read it "
      "again in 2 MiB ones");
  command
      ->add_option("--threads", arguments->load.threads,
                   "How many threads to use, at most 64; 0, the\ndefault: one a CPU")
      ->check(whole_number(64))
      ->type_name("N");
  add_json(*command, arguments->form);
  command->footer(
      "What memory cannot hold is left out, and named.\n"
      "With --lock it tells systemd when it is ready (Type=notify), and ends with\n"
      "status 0 on Ctrl-C, SIGTERM or SIGHUP once everything is locked, and with 8\n"
      "when another file has been put in this one's place, or this one was cut.");
  return {command, [arguments] { return run_warm(*arguments); }};
}

}  // namespace weig::cli
