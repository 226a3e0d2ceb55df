// SPDX-License-Identifier: Apache-2.0
// Memory and CPUs that this process may use: /proc/meminfo, affinity and cgroups.
#include "os/host.h"

#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "os/os.h"

namespace weig::os {
namespace {

constexpr std::uint64_t kUnknownLimit = std::uint64_t{1} << 63;

std::vector<std::string_view> split(std::string_view text, char at) {
  std::vector<std::string_view> parts;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(at), text.size());
    parts.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return parts;
}

std::optional<std::uint64_t> number_of(std::string_view text) {
  std::uint64_t number = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), number);
  if (read.ec != std::errc()) return {};
  return number;
}

bool holds(std::string_view list, std::string_view item) {
  return std::ranges::count(split(list, ','), item) > 0;
}

// The process's path in the hierarchy, from the lines "ID:CONTROLLERS:PATH" of
// /proc/self/cgroup.
std::optional<std::string> path_in(std::string_view cgroup, unsigned version,
                                   std::string_view controller) {
  for (const std::string_view line : split(cgroup, '\n')) {
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (second == line.npos) continue;
    const std::string_view controllers = line.substr(first + 1, second - first - 1);
    if (version == 1 ? holds(controllers, controller) : line.starts_with("0::"))
      return std::string(line.substr(second + 1));
  }
  return {};
}

// Where a hierarchy is mounted, and which of its cgroups is the root of that mount.
struct Mount {
  std::string point;
  std::string root;
};

// From the lines "ID PARENT DEV ROOT POINT OPTIONS ... - TYPE SOURCE SUPER" of
// /proc/self/mountinfo.
std::optional<Mount> mount_of(std::string_view mountinfo, unsigned version,
                              std::string_view controller) {
  for (const std::string_view line : split(mountinfo, '\n')) {
    const std::size_t dash = line.find(" - ");
    if (dash == line.npos) continue;
    const auto before = split(line.substr(0, dash), ' ');
    const auto after = split(line.substr(dash + 3), ' ');
    if (before.size() < 5 || after.size() < 3) continue;
    const bool is_it = version == 1
                           ? after[0] == "cgroup" && holds(after[2], controller)
                           : after[0] == "cgroup2";
    if (is_it) return Mount{std::string(before[4]), std::string(before[3])};
  }
  return {};
}

// What is charged to a cgroup and cannot be had back by dropping cache.
std::uint64_t used_in(const std::string& folder, unsigned version) {
  const auto used = number_of(read_text(
      folder + (version == 1 ? "/memory.usage_in_bytes" : "/memory.current")));
  const auto cache = number_after(read_text(folder + "/memory.stat"),
                                  version == 1 ? "total_cache" : "file");
  return used && cache && *used > *cache ? *used - *cache : 0;
}

}  // namespace

std::string read_text(const std::string& path) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  std::string text;
  char piece[4096];
  ssize_t count = 0;
  while (file && (count = ::read(file.number(), piece, sizeof piece)) > 0)
    text.append(piece, static_cast<std::size_t>(count));
  return text;
}

std::optional<std::uint64_t> number_after(std::string_view text,
                                          std::string_view name) {
  for (std::string_view line : split(text, '\n')) {
    if (!line.starts_with(name)) continue;
    line.remove_prefix(name.size());
    const std::size_t digits = line.find_first_not_of(": \t");
    if (digits == 0 || digits == line.npos) continue;  // a longer name
    return number_of(line.substr(digits));
  }
  return {};
}

bool has_capability(unsigned number) {
  constexpr std::string_view kName = "CapEff:\t";
  const std::string text = read_text("/proc/self/status");
  const std::size_t at = text.find(kName);
  if (at == text.npos) return false;
  std::uint64_t all = 0;
  std::from_chars(text.data() + at + kName.size(), text.data() + text.size(), all, 16);
  return (all >> number & 1) != 0;
}

Cgroups cgroups_of(std::string_view controller, const std::string& root) {
  const std::string cgroup = read_text(root + "/proc/self/cgroup");
  const std::string mountinfo = read_text(root + "/proc/self/mountinfo");
  for (const unsigned version : {1U, 2U}) {
    auto path = path_in(cgroup, version, controller);
    const auto mount = mount_of(mountinfo, version, controller);
    if (!path || !mount) continue;
    // Inside a container the mount shows a part of the hierarchy, named from its root.
    if (mount->root != "/") {
      const bool below = (*path + "/").starts_with(mount->root + "/");
      path->erase(0, below ? mount->root.size() : path->size());
    }
    Cgroups found{.version = version, .folders = {}};
    while (path->size() > 1 && path->starts_with('/')) {
      found.folders.push_back(root + mount->point + *path);
      path->resize(path->rfind('/'));
    }
    found.folders.push_back(root + mount->point);
    return found;
  }
  return {};
}

std::optional<double> cpu_quota(const std::string& root) {
  const Cgroups groups = cgroups_of("cpu", root);
  std::optional<double> least;
  for (const std::string& folder : groups.folders) {
    std::string quota = read_text(folder + "/cpu.cfs_quota_us");
    if (groups.version == 2) quota = read_text(folder + "/cpu.max");  // "QUOTA PERIOD"
    const auto share = number_of(quota);  // "-1" and "max" are none
    if (!share) continue;
    const auto of = number_of(
        groups.version == 2 ? quota.substr(std::min(quota.find(' ') + 1, quota.size()))
                            : read_text(folder + "/cpu.cfs_period_us"));
    if (!of || *of == 0) continue;
    const double cpus = static_cast<double>(*share) / static_cast<double>(*of);
    if (!least || cpus < *least) least = cpus;
  }
  return least;
}

MemoryLimit memory_limit(const std::string& root) {
  constexpr std::uint64_t kKiB = 1024;
  const std::string meminfo = read_text(root + "/proc/meminfo");
  MemoryLimit least{kUnknownLimit, kUnknownLimit, "unknown"};
  if (const auto total = number_after(meminfo, "MemTotal")) {
    const auto free = number_after(meminfo, "MemAvailable");
    least = {*total * kKiB, free.value_or(*total) * kKiB, "this machine"};
  }
  const std::uint64_t machine = least.limit;
  const Cgroups groups = cgroups_of("memory", root);
  for (const std::string& folder : groups.folders) {
    const char* name = groups.version == 1 ? "/memory.limit_in_bytes" : "/memory.max";
    const auto limit = number_of(read_text(folder + name));  // "max" is none
    if (!limit || *limit >= machine) continue;
    const std::uint64_t used = used_in(folder, groups.version);
    const std::uint64_t available = *limit > used ? *limit - used : 0;
    least.available = std::min(least.available, available);
    if (*limit >= least.limit) continue;
    least.limit = *limit;
    least.source = folder.substr(root.size());
  }
  return least;
}

}  // namespace weig::os

namespace weig {

unsigned usable_cpus() noexcept try {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (::sched_getaffinity(0, sizeof set, &set) != 0) return 1;
  const int count = std::max(CPU_COUNT(&set), 1);
  static const auto quota = os::cpu_quota();
  const double most = quota ? std::max(std::ceil(*quota), 1.0) : count;
  return most < count ? static_cast<unsigned>(most) : static_cast<unsigned>(count);
} catch (...) {  // out of memory for a few lines of text
  return 1;
}

MemoryLimit memory_limit() { return os::memory_limit(""); }

}  // namespace weig
