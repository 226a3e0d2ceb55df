// SPDX-License-Identifier: Apache-2.0
#include "file_owner.h"

#include <fmt/format.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

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
  if (::stat(path.c_str(), &status) != 0 || status.st_uid == ::geteuid())
    return "the kernel does not tell";
  return fmt::format(
      "the file belongs to {}, and the kernel tells only its owner and those who may "
      "write it; you are {}",
      user_name(status.st_uid), user_name(::geteuid()));
}

}  // namespace weig::cli
