// SPDX-License-Identifier: Apache-2.0
// To be preloaded: makes system calls fail, as old kernels and odd file systems do.
// WEIG_REFUSE names them: "mmap-file=19 mmap-shared=19 madvise-14=22 madvise-22=22
// cachestat=38 pagemap-scan=25 direct=22 atfork=12", each with the errno to give;
// "file-system=4711" makes every file lie on one of that type. With 64-bit file
// offsets, as everything here is built, mmap, open and fstatfs are the symbols mmap64,
// open64 and fstatfs64.
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>

namespace {

// The errno that a call is to fail with, or 0.
int refused(const std::string& call) {
  const char* list = std::getenv("WEIG_REFUSE");
  const char* found = list ? std::strstr(list, (call + "=").c_str()) : nullptr;
  return found ? std::atoi(found + call.size() + 1) : 0;
}

template <typename Function>
Function* next(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

bool fails(const std::string& call) {
  const int number = refused(call);
  if (number != 0) errno = number;
  return number != 0;
}

constexpr unsigned long kPagemapScan = 0xc0606610;

}  // namespace

extern "C" {

void* mmap(void* at, std::size_t length, int protection, int flags, int file,
           off_t offset) {
  // Of files with weights only: the dynamic loader has calls of its own anyway.
  if (file >= 0 && !(protection & (PROT_EXEC | PROT_WRITE))) {
    if (fails("mmap-file")) return MAP_FAILED;
    if ((flags & MAP_SHARED) && fails("mmap-shared")) return MAP_FAILED;
  }
  return next<decltype(mmap)>("mmap64")(at, length, protection, flags, file, offset);
}

int madvise(void* at, std::size_t length, int advice) noexcept {
  if (fails("madvise-" + std::to_string(advice))) return -1;
  return next<decltype(madvise)>("madvise")(at, length, advice);
}

long syscall(long number, ...) noexcept {
  va_list list;
  va_start(list, number);
  long arguments[6];
  for (long& argument : arguments) argument = va_arg(list, long);
  va_end(list);
  if (number == 451 && fails("cachestat")) return -1;
  return next<decltype(syscall)>("syscall")(number, arguments[0], arguments[1],
                                            arguments[2], arguments[3], arguments[4],
                                            arguments[5]);
}

int ioctl(int file, unsigned long request, ...) noexcept {
  va_list list;
  va_start(list, request);
  void* argument = va_arg(list, void*);
  va_end(list);
  if (request == kPagemapScan && fails("pagemap-scan")) return -1;
  return next<decltype(ioctl)>("ioctl")(file, request, argument);
}

int fstatfs(int file, struct statfs* told) noexcept {
  const int result = next<decltype(fstatfs)>("fstatfs64")(file, told);
  if (const int type = refused("file-system")) told->f_type = type;
  return result;
}

// What pthread_atfork(), which is part of every program, calls.
int __register_atfork(void (*before)(), void (*parent)(), void (*child)(),
                      void* owner) noexcept {
  if (const int number = refused("atfork")) return number;
  return next<decltype(__register_atfork)>("__register_atfork")(before, parent, child,
                                                                owner);
}

int open(const char* path, int flags, ...) {
  va_list list;
  va_start(list, flags);
  const auto mode = static_cast<mode_t>(va_arg(list, int));
  va_end(list);
  if ((flags & O_DIRECT) && fails("direct")) return -1;
  return next<decltype(open)>("open64")(path, flags, mode);
}

}  // extern "C"
