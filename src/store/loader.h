// SPDX-License-Identifier: Apache-2.0
// Loader: brings a model's bytes into memory, one of the ways of weig/load.h.
#pragma once

#include <weig/error.h>
#include <weig/load.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "os/os.h"
#include "store/memory_claim.h"
#include "store/policy.h"

namespace weig {

struct Decision {
  Choice choice;
  // Of the file, in the page cache. Nothing: the kernel does not tell, or
  // (LoadWay::map) it was not asked.
  std::optional<std::uint64_t> resident = {};
  // That is all of it, by a look at some places: loading will tell.
  bool by_places = false;
};

// invalid_argument where there is no such way, or ranges are out of order.
Status check_load_options(const LoadOptions& options);

// The way that `options` ask for, or for LoadWay::automatic the one that suits the file
// best. May touch a few places of it.
Decision decide(const os::InputFile& file, const LoadOptions& options);

// One load, running or ended. Not movable: its threads know where it is.
class Loader {
 public:
  // Loads [begin, end of mapping) of `file` into `mapping`, which must outlive the
  // Loader: populates a mapping of the file, or the ranges of it that `options` name;
  // fills one of our own memory (`fill`).
  Loader(os::InputFile file, const os::Mapping& mapping, std::byte* fill,
         std::uint64_t begin, const LoadOptions& options, const Decision& decision);
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;
  ~Loader();  // stops, and waits for its threads

  void warn(std::string text);
  // The mapping may be replaced by a copy while this loads, and `replaced` tells: from
  // then on it does not matter what becomes of the file.
  void expect_replacement(const std::atomic<bool>& replaced) { replaced_ = &replaced; }
  // What the memory that this fills was claimed by; must outlive the load.
  void count_in(MemoryClaim& claim) { claim_ = &claim; }

  // Loads before it returns. Fails with cancelled, corrupt (the file was cut), io,
  // no_memory.
  Status run();
  // Loads on a thread of its own; where none can be started, before it returns.
  Status start();
  // Makes that end early, and waits until it has.
  void stop();
  // Waits until that has ended; what run() would have returned.
  Status wait();

  LoadReport report() const;

 private:
  bool is_of_parent() const;  // of whose threads a forked child has none
  void read_front_alone();
  class Mapper;
  void work();
  bool load_part(FileRange part, std::uint64_t step, Mapper& mapper);
  Status load_step(std::uint64_t begin, std::uint64_t end, Mapper& mapper);
  bool step_done(std::uint64_t bytes);
  std::optional<std::uint64_t> count_resident(std::uint64_t faults,
                                              std::optional<std::uint64_t> huge) const;
  void fail(Error error);

  os::InputFile file_;
  const os::Mapping& mapping_;
  std::byte* const fill_;                // null: populate
  const std::vector<FileRange> ranges_;  // what to load
  const std::uint64_t total_;            // bytes of it
  const std::uint64_t piece_;            // bytes that a thread takes at a time
  const bool all_in_memory_;             // before anything was loaded
  const bool by_places_;                 // is how that is known
  const Progress progress_;
  const std::uint64_t generation_;  // of the process that loads
  std::atomic<std::uint64_t> next_;
  std::atomic<bool> stop_ = false;
  std::atomic<bool> touch_ = false;        // the kernel cannot populate
  std::atomic<std::uint64_t> waited_ = 0;  // pages, for a disk

  const std::atomic<bool>* replaced_ = nullptr;
  MemoryClaim* claim_ = nullptr;

  std::mutex progress_mutex_;  // held while the callback runs
  mutable std::mutex mutex_;   // guards what follows
  LoadReport report_;
  std::optional<Error> failure_;
  std::thread thread_;
};

}  // namespace weig
