// SPDX-License-Identifier: Apache-2.0
#include "remedy.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "shell_word.h"

namespace weig::cli {

std::string as_root(const SystemFacts& system, const std::string& command) {
  if (system.root || command.empty()) return command;
  return "sudo sh -c " + shell_word(command);
}

std::string write_setting(std::string_view value, std::string_view path) {
  return fmt::format("echo {} >{}", value, shell_word(path));
}

std::string raise_limit(const SystemFacts& system, LimitName name, std::uint64_t bytes,
                        std::optional<std::uint64_t> hard) {
  if (!hard) return fmt::format("ulimit -S -{} unlimited", name.letter);
  const std::uint64_t kib = (bytes + 1023) / 1024;
  if (kib <= *hard / 1024) return fmt::format("ulimit -S -{} {}", name.letter, kib);
  if (system.root && !system.may_raise_limits) return {};
  const std::string command =
      fmt::format("prlimit --pid $$ --{}=unlimited", name.option);
  // "$$" must be the shell of the user, not one that sudo starts.
  return system.root ? command : "sudo " + command;
}

std::string raise_memory(const MemoryLimit& memory, std::uint64_t bytes) {
  std::error_code ignored;
  const bool first =
      std::filesystem::exists(memory.source + "/memory.limit_in_bytes", ignored);
  const std::uint64_t in_use = memory.limit - std::min(memory.limit, memory.available);
  // An eighth more, for page tables and what else the program needs.
  constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;
  const std::uint64_t need = (in_use + bytes + bytes / 8) / kMiB + 16;
  return write_setting(
      fmt::format("{}M", need),
      memory.source + (first ? "/memory.limit_in_bytes" : "/memory.max"));
}

std::string remount_huge(const std::string& mount_point, const std::string& path) {
  const std::string file = shell_word(path);
  const std::string copy = shell_word(path + ".copy");
  return fmt::format("mount -o remount,huge=always {} && cp -p {} {} && mv {} {}",
                     shell_word(mount_point), file, copy, copy, file);
}

std::string convert_to_weig(const std::string& path) {
  std::filesystem::path target(path);
  target.replace_extension(".weig");
  if (target == path) target.replace_extension(".sealed.weig");
  return fmt::format("weig convert {} -o {}", shell_word(path),
                     shell_word(target.string()));
}

}  // namespace weig::cli
