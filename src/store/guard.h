// SPDX-License-Identifier: Apache-2.0
// FileGuard: what weig/guard.h promises, for one mapping.
#pragma once

#include <weig/error.h>
#include <weig/guard.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "os/lease.h"
#include "os/os.h"
#include "store/memory_claim.h"

namespace weig {

// Not movable: its thread knows where it is.
class FileGuard {
 public:
  // A forked child leaves it as it is: the thread that waits in it is the parent's, and
  // what is waited for cannot be destroyed.
  struct Delete {
    void operator()(FileGuard* guard) const {
      if (guard->has_thread()) delete guard;
    }
  };
  using Pointer = std::unique_ptr<FileGuard, Delete>;

  // Holds the file from here on. Fails with unsupported or no_memory where there can be
  // no lease (Guard::required: or none to be trusted), with corrupt where the file is
  // no longer as it was: `opened`.
  static Result<Pointer> take(const os::InputFile& file, const os::FileStamp& opened,
                              Guard wish);
  FileGuard(const FileGuard&) = delete;
  FileGuard& operator=(const FileGuard&) = delete;
  // Ends a copy that is being made, and lets go of the file.
  ~FileGuard();

  // From now on, a writer is let in when `mapping`, of all or the front of the file,
  // has been replaced by a copy; `own` is set then. Both must outlive this. `let_go` is
  // called, on a thread of ours, when the file is not needed any more.
  void protect(os::Mapping& mapping, std::atomic<bool>& own,
               std::function<void()> let_go);
  // Puts a copy that somebody else has read in the mapping's place, unless there is one
  // already, and lets go of the file. Fails with corrupt where the file may have been
  // written to while it was read.
  Status adopt(os::Mapping copy);
  // While this is held, the mapping is not replaced, and may be changed.
  std::unique_lock<std::mutex> hold();
  // Lets go of a file that is not to be copied. False where it may have been written
  // to.
  bool close();

  GuardReport report() const;

 private:
  explicit FileGuard(os::InputFile file);
  bool has_thread() const noexcept;  // a forked child has none
  void run() noexcept;
  Result<os::Lease> take_lease() noexcept;
  void watch(os::Lease& lease);
  Status try_to_copy() noexcept;
  Status copy();
  Status swap_in(os::Mapping copy);
  Status read_into(os::Mapping& memory, FileRange part, MemoryClaim& claim);
  void end(os::Lease& lease);
  bool waits_for(std::chrono::milliseconds time);
  void set(GuardState state, std::string reason);

  os::InputFile file_;              // from the start on, its thread's alone
  const std::uint64_t generation_;  // of the process that has the thread
  std::uint64_t thread_ = 0;
  std::atomic<bool> stop_ = false;

  std::mutex swap_mutex_;  // held while the mapping is replaced
  os::Mapping* mapping_ = nullptr;
  std::atomic<bool>* own_ = nullptr;
  std::function<void()> let_go_;
  ByteShare share_;  // of what this process has guarded

  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable told_;
  bool begun_ = false;
  bool ended_ = false;            // the lease is given up
  bool intact_ = false;           // until then nobody was let in
  bool protects_ = false;         // mapping_ and own_ are set
  std::optional<Error> failure_;  // to take the lease
  GuardReport report_;
};

}  // namespace weig
