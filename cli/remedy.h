// SPDX-License-Identifier: Apache-2.0
// The commands that `weig doctor` prints: each can be given to a shell as it is.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "doctor_facts.h"

namespace weig::cli {

// The command as one that root runs: as it is for root, through sudo for others.
std::string as_root(const SystemFacts& system, const std::string& command);

// Writes a setting below /proc or /sys.
std::string write_setting(std::string_view value, std::string_view path);

// Raises a limit of this shell, and so of what it starts: with ulimit where the hard
// limit allows, with prlimit where only root may. Empty where root may not either.
struct LimitName {
  char letter;              // of ulimit
  std::string_view option;  // of prlimit
};
std::string raise_limit(const SystemFacts& system, LimitName name, std::uint64_t bytes,
                        std::optional<std::uint64_t> hard);

// Raises the limit of a cgroup so that it can hold so many bytes more than its use.
std::string raise_memory(const MemoryLimit& memory, std::uint64_t bytes);

// Makes a tmpfs give new files huge pages, and makes a file anew there.
std::string remount_huge(const std::string& mount_point, const std::string& path);

// Converts a file to one beside it.
std::string convert_to_weig(const std::string& path);

}  // namespace weig::cli
