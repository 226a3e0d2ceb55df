// SPDX-License-Identifier: Apache-2.0
// What a model takes of a process's and the system's memory: Model::memory().
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace weig {

// All in bytes. Those of one another: present >= huge, present >= shared.
struct MemoryUse {
  std::uint64_t mapped = 0;   // addresses, of the file or (own) of the process's memory
  std::uint64_t present = 0;  // of those, what this process's page table leads to
  // Of the file's bytes, what is in the page cache, whoever brought it there. Nothing
  // where the kernel does not tell (another user's file), or for memory of our own.
  std::optional<std::uint64_t> resident;
  std::uint64_t huge = 0;      // present in pages of 2 MiB
  std::uint64_t locked = 0;    // cannot be given back (mlock)
  std::uint64_t shared = 0;    // present, and another process has it mapped as well
  std::uint64_t own = 0;       // present, and nobody else can have: private memory
  std::uint64_t overlaid = 0;  // in overlays, which are no part of the mapping
};

struct PartMemory {
  std::string name;  // as file_parts() has it
  MemoryUse use;
};

struct MemoryReport {
  MemoryUse total;
  std::vector<PartMemory> parts;  // in the file's order
};

}  // namespace weig
