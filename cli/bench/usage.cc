// SPDX-License-Identifier: Apache-2.0
#include "bench/usage.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include <charconv>
#include <fstream>
#include <string_view>

namespace weig::cli::bench {
namespace {

constexpr const char* kDropCaches = "/proc/sys/vm/drop_caches";

double seconds(const timeval& time) {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
}

// The number of a line "NAME:   123 kB"; nothing for other lines.
std::optional<std::uint64_t> number_of(std::string_view line, std::string_view name) {
  if (!line.starts_with(name) || line.size() <= name.size() || line[name.size()] != ':')
    return {};
  line.remove_prefix(name.size() + 1);
  line.remove_prefix(std::min(line.find_first_not_of(" \t"), line.size()));
  std::uint64_t number = 0;
  const auto read = std::from_chars(line.data(), line.data() + line.size(), number);
  if (read.ec != std::errc()) return {};
  return number;
}

constexpr std::uint64_t kKiB = 1024;

}  // namespace

Usage usage() noexcept {
  rusage used{};
  ::getrusage(RUSAGE_SELF, &used);
  return {.user = seconds(used.ru_utime), .system = seconds(used.ru_stime)};
}

std::optional<Footprint> footprint(int process) {
  const std::string folder = process == 0 ? "self" : std::to_string(process);
  std::ifstream status("/proc/" + folder + "/status");
  Footprint found;
  bool told = false;
  for (std::string line; std::getline(status, line);) {
    if (const auto kib = number_of(line, "RssAnon")) {
      found.anonymous = *kib * kKiB;
      told = true;  // a process that has ended has a status, but no memory
    }
    for (const char* name : {"RssFile", "RssShmem"})
      found.file_backed += number_of(line, name).value_or(0) * kKiB;
    if (const auto kib = number_of(line, "VmHWM")) found.peak = *kib * kKiB;
  }
  if (!told) return {};
  return found;
}

std::optional<std::uint64_t> huge_mapped() {
  std::ifstream sums("/proc/self/smaps_rollup");
  std::optional<std::uint64_t> bytes;
  for (std::string line; std::getline(sums, line);)
    for (const char* name : {"AnonHugePages", "FilePmdMapped", "ShmemPmdMapped"})
      if (const auto kib = number_of(line, name))
        bytes = bytes.value_or(0) + *kib * kKiB;
  return bytes;
}

std::optional<std::uint64_t> device_bytes() {
  std::ifstream counts("/proc/self/io");
  for (std::string line; std::getline(counts, line);)
    if (const auto bytes = number_of(line, "read_bytes")) return bytes;
  return {};
}

std::string kernel_name() {
  utsname names{};
  if (::uname(&names) != 0) return {};
  return std::string(names.sysname) + " " + names.release;
}

std::string processor_name() {
  std::ifstream processors("/proc/cpuinfo");
  for (std::string line; std::getline(processors, line);) {
    if (!line.starts_with("model name")) continue;
    const std::size_t colon = line.find(": ");
    if (colon != line.npos) return line.substr(colon + 2);
  }
  return {};
}

std::string date_and_time() {
  const time_t now = ::time(nullptr);
  tm local{};
  char text[32];
  if (::localtime_r(&now, &local) == nullptr) return {};
  return {text, ::strftime(text, sizeof text, "%Y-%m-%d %H:%M", &local)};
}

bool may_drop_caches() noexcept { return ::access(kDropCaches, W_OK) == 0; }

bool drop_caches(Drop drop) noexcept {
  const int file = ::open(kDropCaches, O_WRONLY | O_CLOEXEC);
  if (file < 0) return false;
  if (drop == Drop::everything) ::sync();
  const bool done = ::write(file, drop == Drop::pages ? "1" : "3", 1) == 1;
  ::close(file);
  return done;
}

}  // namespace weig::cli::bench
