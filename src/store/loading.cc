// SPDX-License-Identifier: Apache-2.0
// Model::Backing: bringing what was claimed into memory, and letting go of the file
// where all of it is there.
#include <mutex>
#include <utility>

#include "core/try.h"
#include "os/residency.h"
#include "store/backing.h"

namespace weig {

std::unique_lock<std::mutex> Model::Backing::lock() const {
  std::unique_lock held(mutex, std::defer_lock);
  if (generation == os::process_generation()) held.lock();
  return held;
}

void Model::Backing::report_nothing_done(const LoadOptions& options, LoadWay way,
                                         std::string reason) {
  LoadReport done;
  done.asked = options.way;
  done.way = way;
  done.reason = std::move(reason);
  done.warnings = warnings;
  set_report(std::move(done));
}

void Model::Backing::set_report(LoadReport done) {
  // Not while holding what its callback may wait for.
  if (loader) loader->stop();
  const auto locked = lock();
  loader.reset();
  report = std::move(done);
}

Status Model::Backing::load(os::InputFile file, const LoadOptions& options, Fill fill,
                            Return when) {
  if (swapped.size() > 0) {
    report_nothing_done(options, LoadWay::read,
                        "opening has converted the file to this machine's byte order");
    return {};
  }
  if (decision.choice.way == LoadWay::map) {
    report_nothing_done(options, LoadWay::map, decision.choice.reason);
    return {};
  }
  // Not own_memory: the guard may set that at any moment.
  const bool fills = fill == Fill::own_memory;
  auto loading = std::make_shared<Loader>(std::move(file), mapping,
                                          fills ? mapping.data() : nullptr,
                                          fills ? front : 0, options, decision);
  fills ? loading->count_in(claim) : loading->expect_replacement(own_memory);
  {
    const auto locked = lock();
    loader = std::move(loading);
  }
  for (const std::string& warning : warnings) loader->warn(warning);
  if (!fills && when == Return::at_once) return loader->start();
  WEIG_TRY(loader->run());
  return fills ? mapping.make_read_only() : Status();
}

Status Model::Backing::load_in_place_of_mapping(os::InputFile file,
                                                const LoadOptions& options) {
  MemoryClaim own_claim;
  WEIG_TRY_ASSIGN(memory, memory_for(mapping.size(), own_claim, ReadInto::own_memory));
  Loader reading(std::move(file), memory, memory.data(), 0, options, decision);
  reading.count_in(own_claim);
  const Status status = reading.run();
  if (own_memory) {  // meanwhile the guard has copied the file, and let it go
    report_nothing_done(options, LoadWay::read, "all is in memory already");
    return {};
  }
  set_report(reading.report());
  WEIG_TRY(status);
  WEIG_TRY(memory.make_read_only());
  if (guard) return guard->adopt(std::move(memory));
  WEIG_TRY(mapping.replace_with(std::move(memory)));
  own_memory = true;
  return let_go();
}

Decision Model::Backing::choose(const os::InputFile& file,
                                const OpenOptions& options) const {
  // Whom a guard was to hold off, memory of our own keeps out as well.
  const bool must_read =
      wish == Guard::required && !guard && options.load.way == LoadWay::automatic;
  LoadOptions load = options.load;
  // Which parts, is not known before the file's table is.
  if (!options.only.empty() && load.ranges.empty()) load.ranges = {{0, file.size()}};
  if (!must_read) return decide(file, load);
  LoadOptions read = options.load;
  read.way = LoadWay::read;
  Decision reads = decide(file, read);
  reads.choice.reason = "a guard is required, and there can be none: " + why_no_guard;
  return reads;
}

bool Model::Backing::is_as_opened() {
  const auto locked = lock();
  const auto now = anchor ? os::stamp_of(anchor) : std::nullopt;
  return now && !now->differs_from(stamp);
}

Status Model::Backing::let_go() {
  bool unchanged = true;
  if (guard) {
    unchanged = guard->close();
    guard.reset();
  } else if (wish != Guard::off) {
    unchanged = is_as_opened();
  }
  claim = {};
  if (own_memory) drop_anchor();
  const auto locked = lock();
  if (wish != Guard::off) why_no_guard = "the weights are in the process's own memory";
  if (unchanged) return {};
  return Error(Code::corrupt, "the file was changed while it was read");
}

void Model::Backing::drop_anchor() {
  const auto locked = lock();
  anchor = {};
}

Result<std::optional<os::InputFile>> Model::Backing::open_again() {
  const auto locked = lock();  // the guard drops the anchor when it has a copy
  if (own_memory) return std::optional<os::InputFile>();
  if (anchor) {
    WEIG_TRY_ASSIGN(file, os::InputFile::open_again(anchor, path));
    return std::optional(std::move(file));
  }
  WEIG_TRY_ASSIGN(file, os::InputFile::open(path));
  const os::FileStamp now = file.stamp();
  if (now.id != stamp.id || now.born != stamp.born)
    return Error(Code::cannot_open,
                 "another file is at its path since the model was opened")
        .file(path);
  return std::optional(std::move(file));
}

}  // namespace weig
