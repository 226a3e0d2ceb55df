// SPDX-License-Identifier: Apache-2.0
// What the kernel says of a process: time and memory. From getrusage and /proc;
// the calls to the operating system are in usage.cc.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace weig::cli::bench {

struct Usage {
  double user = 0;  // seconds
  double system = 0;
};
// Of this process so far, all its threads.
Usage usage() noexcept;

// Bytes.
struct Footprint {
  std::uint64_t anonymous = 0;
  std::uint64_t file_backed = 0;  // shared memory included
  std::uint64_t peak = 0;         // of their sum
};
// Of a process, from its /proc/.../status; 0 is this one. Nothing where it has ended.
std::optional<Footprint> footprint(int process);

// Bytes of this process's memory, of either kind, that are mapped in 2 MiB pages.
std::optional<std::uint64_t> huge_mapped();

// Bytes that the system has read from a device for this process.
std::optional<std::uint64_t> device_bytes();

// "Linux 6.18.44", and what the processor calls itself; empty where not known.
std::string kernel_name();
std::string processor_name();

// The local date and time, "2025-01-31 12:30".
std::string date_and_time();

// Drops the page cache of the whole system. Only root may; false for others.
enum class Drop { pages, everything };
bool may_drop_caches() noexcept;
bool drop_caches(Drop drop) noexcept;

}  // namespace weig::cli::bench
