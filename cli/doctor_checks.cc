// SPDX-License-Identifier: Apache-2.0
// Checks of the system. Those of the file are in doctor_file_checks.cc.
#include "doctor_checks.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "locking.h"
#include "quantity.h"
#include "remedy.h"

namespace weig::cli {
namespace {

using Found = std::optional<Finding>;

// What loading needs of address space beside the file and what this process has: a
// thread's stack, and the room to align the mapping. More threads make do with less.
constexpr std::uint64_t kSpaceBeside = std::uint64_t{10} << 20;

Found kernel(const SystemFacts& system, const FileFacts*) {
  std::string missing;
  const auto add = [&](bool has, std::string_view what) {
    if (!has) missing += (missing.empty() ? "" : "; ") + std::string(what);
  };
  add(system.has_populate,
      "no MADV_POPULATE_READ (Linux 5.14): pages are touched one by one");
  add(system.has_cachestat,
      "no cachestat (Linux 6.5): residency is asked for with mincore");
  add(system.has_page_scan,
      "no PAGEMAP_SCAN (Linux 6.7): huge and small folios are not told apart");
  if (missing.empty())
    return Finding{
        .says = fmt::format("Linux {} has all calls that are used", system.kernel)};
  return Finding{.verdict = system.has_populate ? Verdict::note : Verdict::slows,
                 .says = fmt::format("Linux {}: {}", system.kernel, missing),
                 .advice =
                     "a newer kernel, or in a container a seccomp profile that "
                     "allows these calls"};
}

Found page_size(const SystemFacts& system, const FileFacts*) {
  if (system.page_size == 4096) return Finding{.says = "4 KiB, huge ones of 2 MiB"};
  return Finding{
      .verdict = Verdict::note,
      .says = fmt::format("{} KiB: huge pages are larger than the 2 MiB that files are "
                          "laid out for, so that they are seldom used",
                          system.page_size / 1024),
      .advice = "a kernel with pages of 4 KiB"};
}

Found huge_pages(const SystemFacts& system, const FileFacts*) {
  constexpr const char* kSetting = "/sys/kernel/mm/transparent_hugepage/enabled";
  if (system.huge_pages_off_here)
    return Finding{.verdict = Verdict::slows,
                   .says =
                       "transparent huge pages are switched off for this process "
                       "(PR_SET_THP_DISABLE): all is mapped in 4 KiB pages",
                   .advice = "start it from a parent that does not switch them off"};
  if (system.huge_pages == "always" || system.huge_pages == "madvise")
    return Finding{.says =
                       fmt::format("transparent huge pages: {}", system.huge_pages)};
  if (system.huge_pages.empty())
    return Finding{.verdict = Verdict::slows,
                   .says =
                       "this kernel is built without transparent huge pages: all is "
                       "mapped in 4 KiB pages",
                   .advice = "a kernel that has them"};
  return Finding{.verdict = Verdict::slows,
                 .says =
                     "transparent huge pages: never. Memory that files are read into "
                     "(the way 'read') is made of 4 KiB pages, hundreds of times as "
                     "many page faults",
                 .command = as_root(system, write_setting("madvise", kSetting))};
}

Found memory_lock(const SystemFacts& system, const FileFacts* file) {
  const std::string may = "'weig warm --lock' " + lock_limit_text(system.lock);
  if (system.lock.ignored || !system.lock.soft) return Finding{.says = may};
  if (!file || file->size <= *system.lock.soft) return Finding{.says = may};
  return Finding{
      .verdict = Verdict::note,
      .says = fmt::format("{}, and the file has {}: locking all of it is refused", may,
                          short_bytes(file->size)),
      .command = raise_limit(system, {.letter = 'l', .option = "memlock"}, file->size,
                             system.lock.hard),
      .advice = how_to_raise_lock_limit()};
}

Found address_space(const SystemFacts& system, const FileFacts* file) {
  if (!system.address_space) return Finding{.says = "unlimited (RLIMIT_AS)"};
  const std::uint64_t limit = *system.address_space;
  const std::string says = fmt::format("at most {} (RLIMIT_AS)", short_bytes(limit));
  if (!file) return Finding{.says = says};
  const std::uint64_t need = file->size + system.address_space_used + kSpaceBeside;
  if (need <= limit) return Finding{.says = says};
  const std::string command = raise_limit(system, {.letter = 'v', .option = "as"}, need,
                                          system.address_space_hard);
  return Finding{
      .verdict = Verdict::breaks,
      .says =
          fmt::format("{}: the file needs {}, so mapping it fails (no_memory, ENOMEM)",
                      says, short_bytes(need)),
      .command = command,
      .advice = command.empty() ? "start this where that limit is higher: root "
                                  "may not raise it here (CAP_SYS_RESOURCE)"
                                : ""};
}

Found map_count(const SystemFacts& system, const FileFacts*) {
  constexpr std::uint64_t kUsual = 65530;
  // A server in Python with its libraries has some thousand mappings.
  constexpr std::uint64_t kScarce = 4096;
  if (!system.max_map_count) return {};
  const std::uint64_t most = *system.max_map_count;
  if (most >= kUsual)
    return Finding{.says =
                       fmt::format("{} a process (vm.max_map_count)", grouped(most))};
  return Finding{
      .verdict = most < kScarce ? Verdict::breaks : Verdict::note,
      .says = fmt::format("only {} a process (vm.max_map_count): a server with many "
                          "libraries and shards runs out of them, and mapping fails "
                          "with ENOMEM",
                          grouped(most)),
      .command = as_root(system, write_setting("65530", "/proc/sys/vm/max_map_count"))};
}

Found overcommit(const SystemFacts& system, const FileFacts* file) {
  constexpr unsigned kNever = 2;
  if (system.overcommit != kNever)
    return Finding{
        .says = fmt::format("allowed (vm.overcommit_memory = {})", system.overcommit)};
  const std::uint64_t left =
      system.commit_limit - std::min(system.commit_limit, system.committed);
  const std::string says = fmt::format(
      "switched off (vm.overcommit_memory = 2), {} are left", short_bytes(left));
  if (!file || file->size <= left) return Finding{.says = says};
  return Finding{
      .verdict = Verdict::breaks,
      .says = says +
              ": reading the file into memory (the way 'read') fails with "
              "ENOMEM; mapping it needs none of it",
      .command = as_root(system, write_setting("0", "/proc/sys/vm/overcommit_memory"))};
}

Found memory(const SystemFacts& system, const FileFacts* file) {
  const MemoryLimit& memory = system.memory;
  const std::string says =
      fmt::format("{} allows {}, {} of it available", memory.source,
                  short_bytes(memory.limit), short_bytes(memory.available));
  if (!file || file->size <= memory.available) return Finding{.says = says};
  Finding finding{
      .verdict = Verdict::slows,
      .says = fmt::format("{}, and the file has {}: it cannot stay in memory, so it is "
                          "read from disk again and again; the way 'read' is refused",
                          says, short_bytes(file->size))};
  if (memory.limit < file->size && memory.source.starts_with('/')) {
    finding.command = as_root(system, raise_memory(memory, file->size));
    finding.advice = "of a container, a larger --memory";
  } else {
    finding.advice = memory.limit < file->size ? "a machine with more memory"
                                               : "end what else uses memory";
  }
  return finding;
}

constexpr std::array kChecks{
    Check{"kernel", kernel},         Check{"page size", page_size},
    Check{"huge pages", huge_pages}, Check{"memory", memory},
    Check{"overcommit", overcommit}, Check{"address space", address_space},
    Check{"mappings", map_count},    Check{"memory lock", memory_lock},
};

}  // namespace

std::string_view verdict_name(Verdict verdict) noexcept {
  switch (verdict) {
    case Verdict::fine:
      return "fine";
    case Verdict::note:
      return "note";
    case Verdict::slows:
      return "slows";
    case Verdict::breaks:
      return "breaks";
  }
  return "unknown";
}

std::span<const Check> system_checks() noexcept { return kChecks; }

}  // namespace weig::cli
