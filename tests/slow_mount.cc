// SPDX-License-Identifier: Apache-2.0
// slow_mount FOLDER MOUNT_POINT DELAY_MS LOG [BEGIN END]: shows the files of FOLDER
// under MOUNT_POINT (through FUSE), each read after a delay, as a slow network file
// system does. Every read is a line "OFFSET SIZE" of LOG. Bytes [BEGIN, END) of every
// file cannot be read, as on a failing disk. Runs until it is unmounted.
#define FUSE_USE_VERSION 31
#include <fcntl.h>
#include <fuse.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

namespace {

std::string folder;
useconds_t delay;
int log_file;
off_t bad_begin = 0;
off_t bad_end = 0;

int negative(int result) { return result < 0 ? -errno : result; }

int get_attributes(const char* path, struct stat* out, fuse_file_info*) {
  return negative(::stat((folder + path).c_str(), out));
}

int open_file(const char* path, fuse_file_info* info) {
  const int file = ::open((folder + path).c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return -errno;
  info->fh = static_cast<std::uint64_t>(file);
  info->keep_cache = 1;  // as what was read stays in a network client's page cache
  return 0;
}

int read_file(const char*, char* buffer, std::size_t size, off_t offset,
              fuse_file_info* info) {
  const std::string line = std::to_string(offset) + " " + std::to_string(size) + "\n";
  if (::write(log_file, line.data(), line.size()) < 0) return -errno;
  ::usleep(delay);
  // The kernel asks again for each page of what fails as a whole.
  if (offset < bad_end && offset + static_cast<off_t>(size) > bad_begin) return -EIO;
  return negative(
      static_cast<int>(::pread(static_cast<int>(info->fh), buffer, size, offset)));
}

int release(const char*, fuse_file_info* info) {
  return negative(::close(static_cast<int>(info->fh)));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5 && argc != 7)
    return std::fputs("usage: slow_mount FOLDER POINT MS LOG [BEGIN END]\n", stderr),
           64;
  if (argc == 7) {
    bad_begin = std::atol(argv[5]);
    bad_end = std::atol(argv[6]);
  }
  folder = argv[1];
  delay = static_cast<useconds_t>(std::atoi(argv[3]) * 1000);
  log_file = ::open(argv[4], O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (log_file < 0) return std::perror(argv[4]), 1;
  fuse_operations operations{};
  operations.getattr = get_attributes;
  operations.open = open_file;
  operations.read = read_file;
  operations.release = release;
  char foreground[] = "-f";
  char options[] = "-oallow_other,default_permissions";
  char* arguments[] = {argv[0], argv[2], foreground, options, nullptr};
  return fuse_main(4, arguments, &operations, nullptr);
}
