// SPDX-License-Identifier: Apache-2.0
#include "store/loader.h"

#include <weig/host.h>

#include <algorithm>
#include <chrono>
#include <system_error>
#include <utility>

#include "core/progress.h"
#include "core/try.h"
#include "os/lease.h"
#include "os/residency.h"
#include "os/storage.h"

namespace weig {
namespace {

using Clock = std::chrono::steady_clock;

constexpr unsigned kMostThreads = 64;

// Populating goes by huge pages. Reading: large enough that a disk is busy and a
// network file system sends full requests, small enough to share out among threads.
constexpr std::uint64_t kPopulatePiece = os::kHugePage;
constexpr std::uint64_t kReadPiece = 4 * os::kHugePage;
// Direct reads wait for the device, not for a CPU: more of them keep it busy.
constexpr unsigned kReadThreads = 4;

// On storage where a piece takes so long, pieces are cut into steps of such a size, so
// that a load can be stopped in between.
constexpr auto kSlow = std::chrono::milliseconds(30);
constexpr std::uint64_t kSlowStep = std::uint64_t{128} << 10;

// 2 MiB that take more faults than this lie in memory in small folios.
constexpr std::uint64_t kFewFaults = 4;

// Where all was in memory at first, and 2 MiB take less than this, they lie in large
// folios: the next piece may be longer, since nothing in it waits for a disk. Stops are
// looked for after each step, in case the pages have gone meanwhile.
constexpr auto kFast = std::chrono::microseconds(40);
constexpr std::uint64_t kFastPiece = 32 * kPopulatePiece;
constexpr std::uint64_t kFastStep = 8 * kPopulatePiece;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Makes a page present at some places of the file, through a mapping of its own. Two
// that were not there tell enough, and each costs a read.
std::optional<Samples> sample(const os::InputFile& file) {
  auto mapping = os::Mapping::of_file(file, file.size());
  if (!mapping) return {};
  mapping->advise_huge(0);
  Samples samples;
  std::uint64_t huge = 0;
  for (const std::uint64_t eighth : {0U, 4U, 2U, 6U, 1U, 5U, 3U, 7U}) {
    if (samples.were_absent() == 2) break;
    // In the middle of each: the front has just been read.
    const std::uint64_t at =
        align_down(file.size() / 16 * (2 * eighth + 1), os::kHugePage);
    const std::uint64_t before = os::faults_of_this_thread().major;
    if (!mapping->populate(at, 1)) return {};
    ++samples.places;
    if (os::faults_of_this_thread().major == before) {
      ++samples.were_present;
      continue;
    }
    const std::uint64_t length = std::min(os::kHugePage, file.size() - at);
    huge += os::huge_mapped_bytes(mapping->bytes().subspan(at, length)).value_or(0);
    samples.huge = huge > 0;
  }
  return samples;
}

// What to load from `begin` on: all that is mapped, or the parts of it that are asked
// for.
std::vector<FileRange> parts_of(const os::Mapping& mapping, std::uint64_t begin,
                                const std::vector<FileRange>& asked) {
  if (asked.empty()) return mapping.mapped({begin, mapping.size()});
  std::vector<FileRange> parts;
  for (const FileRange& range : asked)
    for (const FileRange& part :
         mapping.mapped({std::max(range.begin, begin), range.end}))
      parts.push_back(part);
  return parts;
}

bool are_in_order(const std::vector<FileRange>& ranges) {
  std::uint64_t last = 0;
  for (const FileRange& range : ranges) {
    if (range.begin < last || range.end < range.begin) return false;
    last = range.end;
  }
  return true;
}

std::uint64_t sum_of(const std::vector<FileRange>& ranges) {
  std::uint64_t sum = 0;
  for (const FileRange& range : ranges) sum += range.size();
  return sum;
}

// All but the memory, which takes a while to find out, and samples. `counted`: the
// residency is not told by places alone.
LoadFacts facts_of(const os::InputFile& file, bool counted) {
  LoadFacts facts{
      .bytes = file.size(), .resident = {}, .storage = {}, .memory = {}, .samples = {}};
  if (auto storage = os::storage_of(file)) facts.storage = *std::move(storage);
  // Counting takes time, where folios are small; in memory, there is nothing to count.
  if (!facts.storage.in_memory && !counted)
    facts.places = os::places_all_resident(file);
  const bool all = facts.storage.in_memory || facts.places > 0;
  facts.resident = all ? file.size() : os::resident_bytes(file);
  return facts;
}

Decision decision_of(Choice choice, const LoadFacts& facts) {
  return {.choice = std::move(choice),
          .resident = facts.resident,
          .by_places = facts.places > 0};
}

}  // namespace

std::string_view load_way_name(LoadWay way) noexcept {
  switch (way) {
    case LoadWay::map:
      return "map";
    case LoadWay::stream:
      return "stream";
    case LoadWay::populate:
      return "populate";
    case LoadWay::read:
      return "read";
    case LoadWay::automatic:
      return "auto";
  }
  return "unknown";
}

std::optional<LoadWay> load_way_named(std::string_view name) noexcept {
  for (const LoadWay way : {LoadWay::map, LoadWay::stream, LoadWay::populate,
                            LoadWay::read, LoadWay::automatic})
    if (load_way_name(way) == name) return way;
  return {};
}

Status check_load_options(const LoadOptions& options) {
  if (load_way_name(options.way) == "unknown")
    return Error(Code::invalid_argument, "no such way to load");
  if (!are_in_order(options.ranges))
    return Error(Code::invalid_argument,
                 "the ranges to load are out of order, or overlap");
  return {};
}

Decision decide(const os::InputFile& file, const LoadOptions& options) {
  if (options.way == LoadWay::map) return {{.way = options.way, .reason = {}}};
  const bool chooses = options.way == LoadWay::automatic;
  std::optional<Choice> choice;
  if (!chooses && options.way != LoadWay::read)
    choice = {.way = options.way, .reason = {}};
  else if (chooses && !options.ranges.empty())
    choice = {.way = LoadWay::populate, .reason = "only parts are asked for"};
  else if (chooses)
    choice = choose_by_size(file.size());
  if (choice) {
    const bool by_places = options.ranges.empty() && os::places_all_resident(file) > 0;
    return {.choice = *std::move(choice),
            .resident = by_places ? file.size() : os::resident_bytes(file),
            .by_places = by_places};
  }

  LoadFacts facts = facts_of(file, !chooses);
  if (!chooses)
    return decision_of(
        {.way = options.way, .direct_io = prefers_direct_io(facts), .reason = {}},
        facts);
  if (auto known = choose_by_residency(facts))
    return decision_of(*std::move(known), facts);
  facts.memory = memory_limit();
  if (wants_samples(facts)) facts.samples = sample(file);
  return decision_of(choose_way(facts), facts);
}

// Makes ranges of a mapping present, for one thread. What kind of folios a range lies
// in, and whether in memory, shows when it is mapped: so how it is done follows from
// the one before.
class Loader::Mapper {
 public:
  Status map(const os::Mapping& mapping, std::uint64_t begin, std::uint64_t length) {
    const os::Faults before = os::faults_of_this_thread();
    Status status;
    if (!in_small_folios_ || !map_around(mapping.bytes().subspan(begin, length)))
      status = mapping.populate(begin, length);
    const os::Faults after = os::faults_of_this_thread();
    const std::uint64_t few = kFewFaults * (length / os::kHugePage + 1);
    in_small_folios_ = after.major == before.major && after.minor - before.minor > few;
    waited_ += after.major - before.major;
    return status;
  }

  std::uint64_t waited() const noexcept { return waited_; }  // pages, for a disk

 private:
  bool map_around(Bytes range) {
    constexpr unsigned kMostFailures = 4;  // pages can be in use for a moment
    if (failures_ == kMostFailures) return false;
    if (!around_) around_.emplace();
    const bool mapped = around_->map(range);
    if (!mapped) ++failures_;
    return mapped;
  }

  bool in_small_folios_ = false;
  std::uint64_t waited_ = 0;
  unsigned failures_ = 0;
  std::optional<os::FaultAround> around_;
};

Loader::Loader(os::InputFile file, const os::Mapping& mapping, std::byte* fill,
               std::uint64_t begin, const LoadOptions& options,
               const Decision& decision)
    : file_(std::move(file)),
      mapping_(mapping),
      fill_(fill),
      ranges_(
          parts_of(mapping, begin, fill ? std::vector<FileRange>() : options.ranges)),
      total_(sum_of(ranges_)),
      piece_(fill ? kReadPiece : kPopulatePiece),
      all_in_memory_(decision.resident >= file_.size()),
      by_places_(decision.by_places),
      progress_(options.progress),
      generation_(os::process_generation()),
      next_(ranges_.empty() ? mapping.size()
                            : align_down(ranges_.front().begin, piece_)) {
  const Choice& choice = decision.choice;
  if (fill) file_.expect_sequential();
  report_.asked = options.way;
  report_.way = choice.way;
  report_.reason = choice.reason;
  if (!by_places_) report_.resident_before = decision.resident;
  report_.direct_io = choice.direct_io && file_.use_direct_io();
  if (choice.direct_io && !report_.direct_io)
    warn("there is no direct I/O here: the file is read through the page cache");
  const std::uint64_t pieces = total_ / piece_ + 1;
  unsigned threads = options.threads;
  if (threads == 0) threads = std::max(usable_cpus(), fill ? kReadThreads : 1);
  report_.threads =
      static_cast<unsigned>(std::min<std::uint64_t>({threads, pieces, kMostThreads}));
  if (!fill && !ranges_.empty() && ranges_.front().begin < os::kHugePage)
    read_front_alone();
}

// Opening has read the file's first pages one by one, so that no huge page fits over
// them. Left to itself, the kernel would read what lies around them in small pages, and
// go on so for tens of megabytes.
void Loader::read_front_alone() {
  const std::uint64_t length = std::min(os::kHugePage, mapping_.size());
  file_.will_need(0, length);
  mapping_.expect_random(0, length);
}

Loader::~Loader() { stop(); }

void Loader::stop() {
  stop_ = true;
  if (!thread_.joinable()) return;
  is_of_parent() ? thread_.detach() : thread_.join();
}

void Loader::warn(std::string text) {
  const std::lock_guard lock(mutex_);
  report_.warnings.push_back(std::move(text));
}

bool Loader::is_of_parent() const { return generation_ != os::process_generation(); }

LoadReport Loader::report() const {
  if (is_of_parent()) {
    LoadReport none;
    none.error = Error(Code::cancelled, "a forked child has no part in a load")
                     .file(file_.path());
    return none;
  }
  const std::lock_guard lock(mutex_);
  return report_;
}

void Loader::fail(Error error) {
  const std::lock_guard lock(mutex_);
  if (!failure_) failure_ = std::move(error);
  stop_ = true;
}

// Counts, and asks whether to go on: one thread at a time, and without holding what
// report() waits for, since a callback may ask for the report.
bool Loader::step_done(std::uint64_t bytes) {
  if (claim_) claim_->fill(bytes);
  const std::lock_guard one_at_a_time(progress_mutex_);
  std::uint64_t done = 0;
  {
    const std::lock_guard lock(mutex_);
    done = report_.bytes += bytes;
  }
  if (!stop_ && !goes_on(progress_, done, total_))
    fail(Error(Code::cancelled, "loading was stopped"));
  return !stop_;
}

Status Loader::load_step(std::uint64_t begin, std::uint64_t end, Mapper& mapper) {
  if (fill_) return file_.read(begin, {fill_ + begin, end - begin});
  if (!touch_) {
    Status status = mapper.map(mapping_, begin, end - begin);
    if (status || status.error().code() != Code::unsupported) return status;
    if (!touch_.exchange(true))
      warn(status.error().fields().what + ": pages are touched one by one");
  }
  mapping_.touch(begin, end - begin);
  return {};
}

// Loads the part of a piece that is asked for; false where it is time to stop.
bool Loader::load_part(FileRange part, std::uint64_t step, Mapper& mapper) {
  for (std::uint64_t at = part.begin; at < part.end; at += step) {
    const std::uint64_t length = std::min(step, part.end - at);
    if (Status status = load_step(at, at + length, mapper); !status) {
      fail(std::move(status).error());
      return false;
    }
    if (!step_done(length)) return false;
  }
  return true;
}

// What each thread does: takes the next piece in file order until there is none.
void Loader::work() {
  Mapper mapper;
  std::uint64_t length = piece_;
  std::uint64_t step = piece_;
  while (!stop_) {
    const std::uint64_t piece = next_.fetch_add(length);
    if (piece >= mapping_.size()) break;
    const auto start = Clock::now();
    for (const FileRange& range : ranges_) {
      const FileRange part{std::max(range.begin, piece),
                           std::min(range.end, piece + length)};
      if (part.begin < part.end && !load_part(part, step, mapper)) return;
    }
    if (fill_) continue;
    const auto taken = (Clock::now() - start) / (length / piece_);
    const bool fast = all_in_memory_ && taken < kFast;
    length = fast ? kFastPiece : piece_;
    step = fast ? kFastStep : taken > kSlow ? kSlowStep : piece_;
  }
  waited_ += mapper.waited();
}

// What of the file is in memory after loading, by the quickest way that tells it.
std::optional<std::uint64_t> Loader::count_resident(
    std::uint64_t faults, std::optional<std::uint64_t> huge) const {
  if (fill_ || stop_ || total_ != file_.size()) return os::resident_bytes(file_);
  // What huge pages map of a file is in memory: there is nothing to count.
  if (huge == file_.size() && !replaced_) return huge;
  const bool small_folios = faults > total_ / os::kHugePage * kFewFaults;
  return small_folios ? os::resident_bytes(file_, mapping_) : os::resident_bytes(file_);
}

Status Loader::run() {
  const auto start = Clock::now();
  const os::Faults before = os::faults();
  os::run_on_threads(
      report_.threads, [](void* given) { static_cast<Loader*>(given)->work(); }, this);
  const double seconds = seconds_since(start);
  const os::Faults after = os::faults();
  const auto huge = os::huge_mapped_bytes(mapping_.bytes());
  const auto resident = count_resident(after.minor - before.minor, huge);
  // Of a page that the cut went through, the rest reads as zeros.
  // Asked in this order: who is replaced may be cut.
  const auto size = file_.current_size();
  const bool replaced = replaced_ && *replaced_;
  if (!replaced && size && *size < mapping_.size())
    fail(Error(Code::corrupt, "the file was cut while it was loaded")
             .found(*size)
             .expected(mapping_.size()));
  const std::uint64_t file_size = file_.size();
  file_.close();
  const std::lock_guard lock(mutex_);
  report_.major_faults = after.major - before.major;
  report_.minor_faults = after.minor - before.minor;
  report_.huge_mapped = huge;
  report_.resident_after = resident;
  // Each of those was a page that was not there.
  if (by_places_ && !stop_)
    report_.resident_before =
        file_size - std::min(file_size, waited_ * os::page_size());
  report_.seconds = seconds;
  report_.finished = true;
  if (stop_ && !failure_) failure_ = Error(Code::cancelled, "loading was stopped");
  if (!failure_) return {};
  report_.error = std::move(*failure_).file(file_.path());
  return *report_.error;
}

Status Loader::start() {
  {
    const std::lock_guard lock(mutex_);
    report_.finished = false;
  }
  try {
    thread_ = std::thread([this] { static_cast<void>(run()); });
    return {};
  } catch (const std::system_error& error) {
    warn("cannot start a thread (" + error.code().message() +
         "): all was loaded before the model was returned");
    return run();
  }
}

Status Loader::wait() {
  if (is_of_parent()) return *report().error;
  if (thread_.joinable()) thread_.join();
  const std::lock_guard lock(mutex_);
  if (report_.error) return *report_.error;
  return {};
}

}  // namespace weig
