// SPDX-License-Identifier: Apache-2.0
// Policy: which way to load a file, from what is known about it. Pure.
#pragma once

#include <weig/host.h>
#include <weig/load.h>

#include <cstdint>
#include <optional>
#include <string>

namespace weig {

// What was seen at some places of a file by making a page of each present.
struct Samples {
  unsigned places = 0;
  unsigned were_present = 0;  // no fault there waited for a disk
  // Whether what had to be read came in huge pages; nothing where nothing was read.
  std::optional<bool> huge;
  unsigned were_absent() const noexcept { return places - were_present; }
};

struct LoadFacts {
  std::uint64_t bytes = 0;
  std::optional<std::uint64_t> resident;  // nothing: the kernel does not tell
  unsigned places = 0;  // if not 0, all of so many places, and so `resident` is all
  Storage storage;
  MemoryLimit memory;
  std::optional<Samples> samples;
};

struct Choice {
  LoadWay way = LoadWay::populate;
  bool direct_io = false;  // for LoadWay::read
  std::string reason;
};

// The choice where a file's size alone decides.
std::optional<Choice> choose_by_size(std::uint64_t bytes);

// The choice where it is enough how much of a file the kernel counts in memory; of the
// facts, `memory` is not looked at, and finding it out takes a while.
std::optional<Choice> choose_by_residency(const LoadFacts& facts);

// Whether the choice needs samples. They cost a few reads.
bool wants_samples(const LoadFacts& facts);

Choice choose_way(const LoadFacts& facts);

// Whether a read of a file in this state is better done past the page cache: hardly
// anything of it is in memory. Of remote files, the page cache would be filled by small
// requests, as the read-ahead says; direct ones are as large as the protocol allows.
bool prefers_direct_io(const LoadFacts& facts);

}  // namespace weig
