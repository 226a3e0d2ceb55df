// SPDX-License-Identifier: Apache-2.0
#include "os/folder_lock.h"

#include <fcntl.h>
#include <sys/file.h>

#include <cerrno>
#include <chrono>
#include <filesystem>
#include <thread>

namespace weig::os {

Result<FolderLock> FolderLock::take(const std::string& path) {
  using std::chrono::milliseconds;
  constexpr milliseconds kPatience{10'000};
  constexpr milliseconds kPause{20};
  std::string folder = std::filesystem::path(path).parent_path().string();
  if (folder.empty()) folder = ".";
  Descriptor opened(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  // Who may not read the folder may still write to it.
  if (!opened) return FolderLock(std::move(opened));
  for (milliseconds waited{0}; ::flock(opened.number(), LOCK_EX | LOCK_NB) != 0;
       waited += kPause) {
    if (errno != EWOULDBLOCK && errno != EINTR) break;
    if (waited >= kPatience)
      return Error(Code::io, "another process holds the folder locked").file(folder);
    std::this_thread::sleep_for(kPause);
  }
  return FolderLock(std::move(opened));
}

}  // namespace weig::os
