// SPDX-License-Identifier: Apache-2.0
// Reads /proc/PID/maps, and smaps for what is locked.
#include "holders.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <string_view>
#include <utility>
#include <vector>

#include "quantity.h"
#include "terminal.h"

namespace weig::cli {
namespace {

constexpr std::size_t kMostShown = 5;

// A line "BEGIN-END MODE OFFSET DEVICE INODE  PATH" of maps or smaps.
struct MapLine {
  std::uint64_t bytes = 0;
  std::uint64_t inode = 0;
  std::string device;
  std::string path;
};

std::optional<MapLine> map_line(const std::string& line) {
  unsigned long begin = 0;
  unsigned long end = 0;
  unsigned long inode = 0;
  unsigned major = 0;
  unsigned minor = 0;
  int path_at = 0;
  if (std::sscanf(line.c_str(), "%lx-%lx %*s %*s %x:%x %lu %n", &begin, &end, &major,
                  &minor, &inode, &path_at) < 5)
    return {};
  return MapLine{.bytes = end - begin,
                 .inode = inode,
                 .device = fmt::format("{}:{}", major, minor),
                 .path = line.substr(static_cast<std::size_t>(path_at))};
}

struct Identity {
  std::uint64_t inode = 0;
  std::string device;
  std::string path;

  // Where a file system shows files under a device of its own (btrfs, overlay), the
  // number in maps is another than stat's: then the path decides.
  bool is(const MapLine& line) const {
    return line.inode == inode && (line.device == device || line.path == path);
  }
};

std::uint64_t locked_bytes(const std::string& folder, const Identity& file) {
  std::ifstream smaps(folder + "/smaps");
  std::uint64_t kib = 0;
  bool inside = false;
  for (std::string line; std::getline(smaps, line);) {
    unsigned long value = 0;
    if (const auto head = map_line(line))
      inside = file.is(*head);
    else if (inside && std::sscanf(line.c_str(), "Locked: %lu kB", &value) == 1)
      kib += value;
  }
  return kib * 1024;
}

// What a process maps of a file, nothing if it has just ended; no holder where it may
// not be looked at.
std::optional<Holder> look_at(int process, const Identity& file) {
  const std::string folder = fmt::format("/proc/{}", process);
  Holder holder{.process = process, .name = {}};
  errno = 0;
  std::ifstream maps(folder + "/maps");
  if (!maps && (errno == EACCES || errno == EPERM)) return {};
  for (std::string line; std::getline(maps, line);)
    if (const auto mapped = map_line(line); mapped && file.is(*mapped))
      holder.mapped += mapped->bytes;
  if (holder.mapped == 0) return holder;
  std::ifstream(folder + "/comm") >> holder.name;
  holder.locked = locked_bytes(folder, file);
  return holder;
}

}  // namespace

Holders holders_of(const std::string& path) {
  Holders holders;
  struct stat status;
  if (::stat(path.c_str(), &status) != 0) return holders;
  std::error_code failed;
  const Identity file{
      .inode = status.st_ino,
      .device = fmt::format("{}:{}", major(status.st_dev), minor(status.st_dev)),
      .path = std::filesystem::canonical(path, failed).string()};
  std::vector<int> processes;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", failed)) {
    const std::string name = entry.path().filename().string();
    int process = 0;
    const auto read = std::from_chars(name.data(), name.data() + name.size(), process);
    if (read.ptr != name.data() + name.size() || process == ::getpid()) continue;
    processes.push_back(process);
  }
  // Who is just starting or ending may not be looked at either: those are asked again.
  std::vector<int> hidden;
  for (int tries = 0; tries < 2; ++tries) {
    for (const int process : processes) {
      const auto holder = look_at(process, file);
      if (!holder)
        hidden.push_back(process);
      else if (holder->mapped > 0)
        holders.found.push_back(*holder);
    }
    processes = std::exchange(hidden, {});
  }
  holders.hidden = static_cast<unsigned>(processes.size());
  return holders;
}

std::string holders_text(const Holders& holders) {
  std::string text;
  std::size_t shown = 0;
  for (const Holder& holder : holders.found) {
    if (shown == kMostShown) {
      text += fmt::format(", and {} more", holders.found.size() - shown);
      break;
    }
    text += fmt::format("{}process {} ({}) maps it", shown++ > 0 ? ", " : "",
                        holder.process, printable(holder.name));
    if (holder.locked > 0) text += " and has locked " + short_bytes(holder.locked);
  }
  if (!text.empty()) return text;
  if (holders.hidden > 0)
    return fmt::format("no process that maps it was found, but {} may not be looked at",
                       counted(holders.hidden, "process"));
  return "no process maps it: it may be in use by reads or writes right now";
}

}  // namespace weig::cli
