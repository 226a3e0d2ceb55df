// SPDX-License-Identifier: Apache-2.0
// The guard: a model that stays whole whatever happens to its file.
//
//   auto model = weig::Model::open("model.weig", {.guard = weig::Guard::wanted});
//
// A mapped file that somebody cuts or overwrites in place kills its readers by SIGBUS
// or changes their weights. While the guard holds, it keeps a read lease on the file:
// whoever truncates it or opens it for writing waits in that call, until the guard has
// copied the weights into memory of this process and put that in the mapping's place.
// Addresses stay valid, readers notice nothing, and then the writer goes on. Deleting
// and renaming break no lease and hurt no mapping.
//
// A load into own memory (LoadWay::read) holds the file while it reads, and fails if
// somebody was let in meanwhile. Where the file cannot be held, its size and times are
// compared before and after; that is enough for Guard::required.
//
// It is a thread of its own with all signals blocked, and looks for writers 40 times a
// second. It can be had on local file systems, for files that are the process's own or
// with CAP_LEASE, and that nobody has open for writing; dropping that right later does
// no harm. What it does not help against: open(O_RDONLY | O_TRUNC), which waits for no
// lease; writers on other hosts, or below an overlay; a disk that fails. A writer that
// opens without waiting (O_NONBLOCK) is sent away, and the copy is made all the same.
//
// Several models are copied one after another, and what the process promises to itself
// is counted once. Other processes' promises cannot be known: a copy looks at the
// memory that there is before each 8 MiB, and is given up where the rest no longer
// fits.
//
// Locks on the memory (MemoryLock) end with the copy. A forked child has no guard, and
// one made by clone(2) neither: the parent lets writers in, and they hurt the child.
// Pages that a device has pinned stay the file's. Once the copy is made the file is
// closed, so that a deleted one takes up no room.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace weig {

enum class Guard {
  off,
  wanted,    // where there can be none, the model opens without; its report says why
  required,  // where there can be none, or none to be trusted, opening fails, unless
             // all is read into own memory (LoadWay::read; LoadWay::automatic chooses
             // it then). Too little memory or time for a copy, which may be otherwise
             // when one is needed, does not make it fail: the report's reason says so
};

enum class GuardState {
  off,      // not asked for, not to be had, or not needed any more
  holding,  // writers wait
  copying,  // one does
  copied,   // the weights are in this process's own memory, and the file is let go
  lost,     // no whole copy could be made. When the system lets the writer in, after
            // seconds_allowed, it can hurt the model: close it before.
};
// "off", "holding", ... Static storage.
const char* guard_state_name(GuardState state) noexcept;

struct GuardReport {
  GuardState state = GuardState::off;
  std::string reason;       // why off or lost, or why it may be; in words, or empty
  std::uint64_t bytes = 0;  // to copy, or copied
  std::uint64_t memory_available = 0;  // when the model was opened
  // That the system lets a writer wait, at most; nothing: without limit. A file that
  // takes longer to copy is lost.
  std::optional<double> seconds_allowed;
  double seconds_expected = 0;  // that a copy takes where it is slow
  double seconds = 0;           // that copying took
};

}  // namespace weig
