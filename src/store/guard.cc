// SPDX-License-Identifier: Apache-2.0
#include "store/guard.h"

#include <weig/host.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <new>
#include <string>
#include <utility>

#include "core/try.h"
#include "os/storage.h"
#include "store/parallel.h"

namespace weig {
namespace {

using Clock = std::chrono::steady_clock;

// How often it looks whether somebody wants to write: he waits so much longer.
constexpr auto kWatch = std::chrono::milliseconds(25);

// Bytes a second of a slow copy: measured were 0.23 to 1.7 GB/s.
constexpr double kSlowCopy = 0.23e9;

// Between two of these, a copy looks whether to stop, and whether there is memory.
constexpr std::uint64_t kPiece = 4 * os::kHugePage;

// Several models may have to be copied at once, and memory is for all of them: the
// generation of the process that copies, or 0. A child that was forked meanwhile finds
// its parent's.
std::atomic<std::uint64_t> copying = 0;

// What this process may have to copy, of all its models together.
constinit ByteTotal guarded;

// For where there is no memory for more.
Error no_memory() { return Error(Code::no_memory, "no memory"); }

std::string whole(double seconds) {
  return std::to_string(static_cast<std::uint64_t>(std::ceil(seconds)));
}

std::string needs(std::uint64_t bytes, const MemoryLimit& memory) {
  return " needs " + std::to_string(bytes) + " bytes, and " + memory.source + " has " +
         std::to_string(memory.available) + " available";
}

// What may keep a copy from being whole; empty where nothing is known to. `others`:
// bytes of the process's other guarded models, whose writers may come at the same time.
std::string danger(const GuardReport& report, std::uint64_t others,
                   const MemoryLimit& memory) {
  // RLIMIT_AS, or strict overcommit. It is given back at once.
  if (const auto room = os::Mapping::anonymous(report.bytes); !room)
    return "a copy: " + room.error().message();
  if (memory.available < report.bytes) return "a copy" + needs(report.bytes, memory);
  if (memory.available - report.bytes < others)
    return "a copy of this and of the process's other guarded models" +
           needs(report.bytes + others, memory);
  if (report.seconds_allowed && *report.seconds_allowed < report.seconds_expected)
    return "a copy may take " + whole(report.seconds_expected) +
           " seconds, and the system lets a writer wait for " +
           whole(*report.seconds_allowed) + " (fs.lease-break-time)";
  return {};
}

}  // namespace

const char* guard_state_name(GuardState state) noexcept {
  switch (state) {
    case GuardState::off:
      return "off";
    case GuardState::holding:
      return "holding";
    case GuardState::copying:
      return "copying";
    case GuardState::copied:
      return "copied";
    case GuardState::lost:
      return "lost";
  }
  return "unknown";
}

FileGuard::FileGuard(os::InputFile file)
    : file_(std::move(file)), generation_(os::process_generation()) {}

Result<FileGuard::Pointer> FileGuard::take(const os::InputFile& file,
                                           const os::FileStamp& opened, Guard wish) {
  WEIG_TRY_ASSIGN(storage, os::storage_of(file));
  if (storage.remote)
    return Error(Code::unsupported, "no lease holds off writers on other hosts (" +
                                        storage.file_system + ")");
  // The kernel gives leases on any file system that does not refuse them, also on some
  // that others share.
  std::string doubt;
  if (!storage.known) {
    doubt = "weig does not know this file system (" + storage.file_system +
            "): whether a lease holds off all writers cannot be told";
    if (wish == Guard::required) return Error(Code::unsupported, std::move(doubt));
  }
  WEIG_TRY_ASSIGN(anchor, file.anchor());
  WEIG_TRY_ASSIGN(again, os::InputFile::open_again(anchor, file.path()));
  Pointer guard(new FileGuard(std::move(again)));
  WEIG_TRY_ASSIGN(
      thread,
      os::start_quiet_thread([](void* given) { static_cast<FileGuard*>(given)->run(); },
                             guard.get()));
  guard->thread_ = thread;
  {
    std::unique_lock lock(guard->mutex_);
    guard->told_.wait(lock, [&] { return guard->begun_; });
    if (guard->failure_) return *guard->failure_;
    guard->report_.reason = std::move(doubt);
  }
  // What was looked at before the lease may be another file's by now.
  if (guard->file_.stamp().differs_from(opened) || guard->file_.size() != file.size())
    return Error(Code::corrupt, "the file was changed while it was opened");
  return guard;
}

FileGuard::~FileGuard() { close(); }

bool FileGuard::close() {
  if (thread_ == 0) return intact_;
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  told_.notify_all();
  os::join_thread(thread_);
  thread_ = 0;
  return intact_;
}

bool FileGuard::has_thread() const noexcept {
  return generation_ == os::process_generation();
}

void FileGuard::protect(os::Mapping& mapping, std::atomic<bool>& own,
                        std::function<void()> let_go) {
  const std::uint64_t others = guarded.bytes();
  const MemoryLimit memory = memory_limit();
  const std::lock_guard lock(mutex_);
  mapping_ = &mapping;
  own_ = &own;
  let_go_ = std::move(let_go);
  report_.bytes = mapping.mapped_bytes();
  share_ = ByteShare(guarded, report_.bytes);
  report_.memory_available = memory.available;
  report_.seconds_expected = static_cast<double>(report_.bytes) / kSlowCopy;
  const std::string more = danger(report_, others, memory);
  if (!report_.reason.empty() && !more.empty()) report_.reason += "; ";
  report_.reason += more;
  protects_ = true;
}

std::unique_lock<std::mutex> FileGuard::hold() {
  std::unique_lock lock(swap_mutex_, std::defer_lock);
  if (has_thread()) lock.lock();  // in a forked child it may be locked for ever
  return lock;
}

Status FileGuard::swap_in(os::Mapping copy) {
  const auto held = hold();
  if (*own_) return {};
  WEIG_TRY(mapping_->replace_with(std::move(copy)));
  *own_ = true;
  return {};
}

Status FileGuard::adopt(os::Mapping copy) {
  WEIG_TRY(swap_in(std::move(copy)));
  if (!has_thread()) return {};
  std::unique_lock lock(mutex_);
  told_.wait(lock, [&] { return ended_; });  // its thread looks often
  if (intact_) return {};
  return Error(Code::corrupt, "the file was changed while it was read");
}

GuardReport FileGuard::report() const {
  if (!has_thread()) {
    GuardReport none;
    none.reason = "a forked child has no guard";
    return none;
  }
  const std::lock_guard lock(mutex_);
  return report_;
}

Result<os::Lease> FileGuard::take_lease() noexcept try {
  return os::Lease::take(file_);
} catch (const std::bad_alloc&) {
  return no_memory();
}

void FileGuard::run() noexcept {
  auto lease = take_lease();
  if (!lease) {
    const std::lock_guard lock(mutex_);
    begun_ = true;
    failure_ = std::move(lease).error();
    return told_.notify_all();
  }
  {
    const std::lock_guard lock(mutex_);
    begun_ = true;
    report_.state = GuardState::holding;
    report_.seconds_allowed = os::lease_break_seconds();
  }
  told_.notify_all();
  watch(*lease);
  end(*lease);
}

void FileGuard::end(os::Lease& lease) {
  bool own = false;
  {
    // Only now may a writer go on. Locked, so that nobody sees that before the report.
    const std::lock_guard lock(mutex_);
    intact_ = lease.release();
    own = protects_ && *own_;
    if (report_.state == GuardState::copied && !intact_) {
      report_.state = GuardState::lost;
      report_.reason = "the system let the writer in before all was copied";
    }
  }
  if (own) {  // a file that was deleted takes up its disk until nobody has it open
    file_ = {};
    share_ = {};
    let_go_();
  }
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
  }
  told_.notify_all();
}

// False once it is time to stop.
bool FileGuard::waits_for(std::chrono::milliseconds time) {
  std::unique_lock lock(mutex_);
  return !told_.wait_for(lock, time, [&] { return stop_.load(); });
}

void FileGuard::watch(os::Lease& lease) {
  const auto protects = [&] {
    const std::lock_guard lock(mutex_);
    return protects_;
  };
  while (!(protects() && (*own_ || !lease.is_held())))
    if (!waits_for(kWatch)) return;
  const auto start = Clock::now();
  if (!*own_) {  // else adopt() has done it
    set(GuardState::copying, {});
    if (Status status = try_to_copy(); !status) {
      if (stop_) return;
      std::string reason;
      try {
        reason = Error(std::move(status).error()).message();
      } catch (const std::bad_alloc&) {
        reason = "no memory";  // short: takes none
      }
      set(GuardState::lost, std::move(reason));
      // The writer waits as long as he has to, and somebody may yet load it.
      while (!*own_)
        if (!waits_for(kWatch)) return;
    }
  }
  set(GuardState::copied, {});
  const std::lock_guard lock(mutex_);
  report_.seconds = std::chrono::duration<double>(Clock::now() - start).count();
}

void FileGuard::set(GuardState state, std::string reason) {
  const std::lock_guard lock(mutex_);
  report_.state = state;
  report_.reason = std::move(reason);
}

Status FileGuard::read_into(os::Mapping& memory, FileRange part, MemoryClaim& claim) {
  const std::uint64_t pieces = (part.size() + kPiece - 1) / kPiece;
  return run_in_parallel(pieces, [&](std::uint64_t piece) -> Status {
    if (stop_) return Error(Code::cancelled, "the model was closed");
    const std::uint64_t at = part.begin + piece * kPiece;
    const std::uint64_t length = std::min(kPiece, part.end - at);
    try {
      // Another process may have taken it meanwhile, to copy the same file perhaps.
      const MemoryLimit now = memory_limit();
      if (now.available < claim.left())
        return Error(Code::no_memory, "there is no memory for the rest of a copy: it" +
                                          needs(claim.left(), now));
      claim.fill(length);
      return file_.read(at, memory.writable().subspan(at, length));
    } catch (const std::bad_alloc&) {
      return no_memory();
    }
  });
}

Status FileGuard::try_to_copy() noexcept {
  std::uint64_t other = 0;
  while (!copying.compare_exchange_weak(other, generation_)) {
    if (other != generation_) continue;  // 0, or a parent's
    if (!waits_for(kWatch)) return Error(Code::cancelled, "the model was closed");
    other = 0;
  }
  Status status;
  try {
    status = copy();
  } catch (const std::bad_alloc&) {
    status = no_memory();
  }
  copying = 0;
  return status;
}

// The writer waits meanwhile, so that what is read is what is mapped.
Status FileGuard::copy() {
  std::vector<FileRange> parts;  // more may be given up meanwhile
  {
    const auto held = hold();
    parts = mapping_->mapped({0, mapping_->size()});
  }
  std::uint64_t bytes = 0;
  for (const FileRange& part : parts) bytes += part.size();
  MemoryClaim claim(bytes);
  if (!claim.fits())
    return Error(Code::no_memory,
                 "there is no memory for a copy: it" + needs(bytes, claim.memory()));
  WEIG_TRY_ASSIGN(copied, os::Mapping::anonymous(mapping_->size()));
  for (const FileRange& part : parts) WEIG_TRY(read_into(copied, part, claim));
  WEIG_TRY(copied.make_read_only());
  return swap_in(std::move(copied));
}

}  // namespace weig
