// SPDX-License-Identifier: Apache-2.0
// Checks of one file. Those of the system are in doctor_checks.cc.
#include <fmt/format.h>

#include <array>

#include "doctor_checks.h"
#include "quantity.h"
#include "remedy.h"
#include "shell_word.h"

namespace weig::cli {
namespace {

using Found = std::optional<Finding>;

// A read-ahead from which on plain mappings keep a disk busy.
constexpr std::uint64_t kLongReadAhead = std::uint64_t{1} << 20;
constexpr const char* kGoodReadAhead = "8192";  // KiB
// A file's first 2 MiB are read in small folios on purpose, its last are seldom whole.
constexpr std::uint64_t kFewBytes = 2 * PageCache::kPieceBytes;

Found contents(const SystemFacts&, const FileFacts* file) {
  if (file->refusal)
    return Finding{.verdict = Verdict::breaks,
                   .says = "cannot be opened: " + file->refusal->message(),
                   .advice = "fetch or convert it again"};
  if (file->format == FileFormat::weig_minimal)
    return Finding{.verdict = Verdict::breaks,
                   .says =
                       "a minimal WEIG file, not sealed: it is refused unless a "
                       "program accepts it, and damage to it cannot be seen",
                   .command = convert_to_weig(file->path)};
  if (file->format == FileFormat::weig_big_endian)
    return Finding{.verdict = Verdict::slows,
                   .says =
                       "big-endian: opening it copies all data into memory of the "
                       "process, " +
                       short_bytes(file->size) + " of it",
                   .command = convert_to_weig(file->path)};
  return Finding{.says = fmt::format("{}{}, {}", file_format_name(file->format),
                                     file->sealed ? ", sealed" : "",
                                     short_bytes(file->size))};
}

Found alignment(const SystemFacts&, const FileFacts* file) {
  if (file->refusal || file->summary.with_bytes == 0) return {};
  if (file->misaligned > 0)
    return Finding{
        .verdict = Verdict::breaks,
        .says = fmt::format(
            "{} of {} start at offsets that are no multiple of their "
            "element's size: they cannot be used in place, so typed "
            "access is refused, and loaders that copy them double memory",
            grouped(file->misaligned), counted(file->summary.with_bytes, "tensor")),
        .command = convert_to_weig(file->path)};
  return Finding{.says = fmt::format("every tensor starts at a multiple of {}",
                                     counted(file->summary.alignment, "byte"))};
}

Found location(const SystemFacts&, const FileFacts* file) {
  const std::string system = file->storage.file_system;
  if (file->storage.remote)
    return Finding{.verdict = Verdict::slows,
                   .says = system +
                           " is remote: page faults wait for it one by one; "
                           "'auto' reads in large pieces instead of mapping, and a "
                           "copy on a local disk loads faster",
                   .command = "cp " + shell_word(file->path) + " /var/tmp/"};
  std::string says =
      file->storage.in_memory ? system + ", in memory" : system + ", local";
  if (file->read_only_mount)
    says +=
        ", mounted read-only: loading needs no more, and nothing can cut the file "
        "while it is mapped";
  return Finding{.says = says};
}

Found large_folios(const SystemFacts& system, const FileFacts* file) {
  const std::string where =
      fmt::format("{} on Linux {}", file->storage.file_system, system.kernel);
  const char* how = file->measured ? "tried on this file" : "by the kernel's version";
  if (file->large_folios == true)
    return Finding{.says =
                       fmt::format("{} keeps files in 2 MiB folios ({})", where, how)};
  if (!file->large_folios)
    return Finding{
        .verdict = Verdict::note,
        .says = fmt::format("not known whether {} keeps files in 2 MiB folios", where)};
  Finding finding{
      .verdict = Verdict::slows,
      .says =
          fmt::format("{} keeps files in small folios ({}): a warm load takes about "
                      "a page fault for 64 KiB instead of one for 2 MiB",
                      where, how),
      .advice = "a copy of the file on xfs, or on ext4 with Linux 6.16 or newer"};
  if (file->storage.file_system == "tmpfs") {
    finding.command = as_root(system, remount_huge(file->mount_point, file->path));
    finding.advice.clear();
  }
  return finding;
}

Found read_ahead(const SystemFacts& system, const FileFacts* file) {
  if (!file->storage.read_ahead || file->storage.in_memory) return {};
  const std::uint64_t bytes = *file->storage.read_ahead;
  const std::string says = fmt::format("{} KiB", grouped(bytes / 1024));
  const bool large_folios = file->large_folios == true;
  // Seen on Linux 6.18 with 2560 KiB: after 2 MiB, small folios up to the window's end.
  const bool uneven =
      bytes > PageCache::kPieceBytes && bytes % PageCache::kPieceBytes != 0;
  const bool splits = large_folios && uneven;
  if (bytes >= kLongReadAhead && !splits) return Finding{.says = says};
  const char* what =
      splits ? ", no multiple of 2 MiB: more than half of what is read lands in small "
               "folios"
      : large_folios ? ", short: programs that map the file plainly wait for the disk "
                       "more often; weig's mapping reads 2 MiB at a time"
                     : ", short: a cold load waits for the disk once for each";
  const bool saved = large_folios && !splits;
  Finding finding{.verdict = saved ? Verdict::note : Verdict::slows,
                  .says = says + what};
  if (!file->read_ahead_file.empty())
    finding.command =
        as_root(system, write_setting(kGoodReadAhead, file->read_ahead_file));
  return finding;
}

Found cached_folios(const SystemFacts&, const FileFacts* file) {
  if (!file->residency.cache.known) return {};
  const ResidentBytes bytes =
      resident_bytes(file->residency, std::vector<FileRange>{{0, file->size}});
  const std::string says = fmt::format(
      "{} of {} in memory", short_bytes(bytes.resident), short_bytes(bytes.bytes));
  if (bytes.small <= kFewBytes || file->large_folios != true || file->storage.in_memory)
    return Finding{.says = says};
  return Finding{.verdict = Verdict::slows,
                 .says = fmt::format(
                     "{}, {} of it in small folios, as cp and downloads leave it: a "
                     "warm load takes up to 30 page faults for one",
                     says, short_bytes(bytes.small)),
                 .command = "weig warm --huge " + shell_word(file->path)};
}

Found residency(const SystemFacts&, const FileFacts* file) {
  if (file->residency.cache.known)
    return Finding{.says = "the kernel tells what of it is in memory"};
  return Finding{.verdict = Verdict::note,
                 .says = "unknown what of it is in memory: " + file->why_unknown +
                         "; 'auto' tries a few places instead"};
}

constexpr std::array kChecks{
    Check{"contents", contents},     Check{"alignment", alignment},
    Check{"location", location},     Check{"large folios", large_folios},
    Check{"read-ahead", read_ahead}, Check{"page cache", cached_folios},
    Check{"residency", residency},
};

}  // namespace

std::span<const Check> file_checks() noexcept { return kChecks; }

}  // namespace weig::cli
