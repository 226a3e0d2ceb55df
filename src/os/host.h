// SPDX-License-Identifier: Apache-2.0
// Reading what the system says about itself, below another root for tests.
#pragma once

#include <weig/host.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace weig::os {

// The contents of a file of /proc or /sys; empty where it cannot be read.
std::string read_text(const std::string& path);

// The number in the line "NAME: 123 ..." or "NAME 123" of such a text.
std::optional<std::uint64_t> number_after(std::string_view text, std::string_view name);

// Whether this process has a capability of capabilities(7), by its number.
bool has_capability(unsigned number);

// The folders of the cgroups that a process is in, for a controller ("memory", "cpu"):
// its own, then its parents' up to the root of the hierarchy.
struct Cgroups {
  unsigned version = 0;  // 0: none
  std::vector<std::string> folders;
};
Cgroups cgroups_of(std::string_view controller, const std::string& root = "");

// As in weig/host.h, for the system whose /proc and /sys lie below `root`.
std::optional<double> cpu_quota(const std::string& root = "");
MemoryLimit memory_limit(const std::string& root);

}  // namespace weig::os
