// SPDX-License-Identifier: Apache-2.0
#include "file_owner.h"

#include <fmt/format.h>
#include <pwd.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <string>

namespace weig::cli {
namespace {

std::string user_name(uid_t user) {
  if (user == 0) return "root";  // in a container without /etc/passwd as well
  const passwd* entry = ::getpwuid(user);
  return entry ? std::string(entry->pw_name) : fmt::format("user {}", user);
}

}  // namespace

std::string why_unknown(const std::string& path) {
  struct stat status;
  if (::stat(path.c_str(), &status) != 0 || status.st_uid == ::geteuid()) {
    // What else a process maps, generously.
    constexpr std::uint64_t kBeside = std::uint64_t{128} << 20;
    rlimit space{};
    const bool limited =
        ::getrlimit(RLIMIT_AS, &space) == 0 &&
        space.rlim_cur < static_cast<std::uint64_t>(status.st_size) + kBeside;
    return limited
               ? "it cannot be mapped within this process's address space (RLIMIT_AS)"
               : "the kernel does not tell";
  }
  return fmt::format(
      "the file belongs to {}, and the kernel tells only its owner and those who may "
      "write it; you are {}",
      user_name(status.st_uid), user_name(::geteuid()));
}

}  // namespace weig::cli
