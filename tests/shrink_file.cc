// SPDX-License-Identifier: Apache-2.0
// To be preloaded: cuts a file right after the n-th system call of a process that has
// opened it, so that every moment between two calls has its turn. WEIG_SHRINK is "AT
// SIZE PATH".
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>

namespace {

int at = 0;
long size = 0;
const char* path = nullptr;
std::atomic<bool> opened = false;
std::atomic<int> calls = 0;

struct Environment {
  Environment() {
    const char* text = std::getenv("WEIG_SHRINK");
    int length = 0;
    if (text && ::sscanf(text, "%d %ld %n", &at, &size, &length) == 2)
      path = text + length;
  }
} environment;

template <typename Function>
Function* next(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

template <typename T>
T after(T result) {
  const int saved = errno;
  if (opened && ++calls == at && ::truncate(path, size) != 0) std::abort();
  errno = saved;
  return result;
}

}  // namespace

extern "C" {

int open(const char* name, int flags, ...) {
  va_list list;
  va_start(list, flags);
  const auto mode = static_cast<mode_t>(va_arg(list, int));
  va_end(list);
  if (path && std::strcmp(name, path) == 0) opened = true;
  return after(next<int(const char*, int, ...)>("open64")(name, flags, mode));
}

int close(int file) { return after(next<decltype(close)>("close")(file)); }

int fstat(int file, struct stat* status) noexcept {
  return after(next<decltype(fstat)>("fstat64")(file, status));
}

int stat(const char* name, struct stat* status) noexcept {
  return after(next<decltype(stat)>("stat64")(name, status));
}

int statx(int folder, const char* name, int flags, unsigned mask,
          struct statx* status) noexcept {
  return after(next<decltype(statx)>("statx")(folder, name, flags, mask, status));
}

ssize_t pread(int file, void* data, std::size_t count, off_t offset) {
  return after(next<decltype(pread)>("pread64")(file, data, count, offset));
}

void* mmap(void* where, std::size_t length, int protection, int flags, int file,
           off_t offset) noexcept {
  return after(
      next<decltype(mmap)>("mmap64")(where, length, protection, flags, file, offset));
}

int munmap(void* where, std::size_t length) noexcept {
  return after(next<decltype(munmap)>("munmap")(where, length));
}

int madvise(void* where, std::size_t length, int advice) noexcept {
  return after(next<decltype(madvise)>("madvise")(where, length, advice));
}

int posix_fadvise(int file, off_t offset, off_t length, int advice) noexcept {
  return after(
      next<decltype(posix_fadvise)>("posix_fadvise64")(file, offset, length, advice));
}

ssize_t pwrite(int file, const void* data, std::size_t count, off_t offset) {
  return after(next<decltype(pwrite)>("pwrite64")(file, data, count, offset));
}

int fsync(int file) { return after(next<decltype(fsync)>("fsync")(file)); }

std::size_t fwrite(const void* data, std::size_t count, std::size_t items, FILE* file) {
  return after(next<decltype(fwrite)>("fwrite")(data, count, items, file));
}

}  // extern "C"
