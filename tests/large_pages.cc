// SPDX-License-Identifier: Apache-2.0
// To be preloaded: a host whose pages have 64 KiB, as some ARM and POWER kernels do.
// Says so, refuses what such a kernel refuses (places in memory and in files that are
// not on a page of that size), and acts on whole pages. There is no pagemap, which
// would have an entry for each of this kernel's pages. With 64-bit file offsets, as
// everything here is built, mmap is the symbol mmap64, and so on.
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>

namespace {

constexpr std::size_t kPage = 65536;

template <typename Function>
Function* next(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

bool on_page(const void* at) {
  return reinterpret_cast<std::uintptr_t>(at) % kPage == 0;
}
std::size_t whole(std::size_t length) { return (length + kPage - 1) / kPage * kPage; }

int refuse() {
  errno = EINVAL;
  return -1;
}

void* real_mmap(void* at, std::size_t length, int protection, int flags, int file,
                off_t offset) {
  return next<decltype(mmap)>("mmap64")(at, length, protection, flags, file, offset);
}

// Address space on a page, with nothing in it.
void* reserve(std::size_t length) {
  void* at = real_mmap(nullptr, length + kPage, PROT_NONE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED) return at;
  auto* begin = static_cast<char*>(at);
  const std::size_t before = whole(reinterpret_cast<std::uintptr_t>(at)) -
                             reinterpret_cast<std::uintptr_t>(at);
  const auto unmap = next<decltype(munmap)>("munmap");
  if (before > 0) unmap(begin, before);
  unmap(begin + before + length, kPage - before);
  return begin + before;
}

}  // namespace

extern "C" {

long sysconf(int name) noexcept {
  if (name == _SC_PAGESIZE) return kPage;
  const long found = next<decltype(sysconf)>("sysconf")(name);
  if (name != _SC_PHYS_PAGES && name != _SC_AVPHYS_PAGES) return found;
  return found / static_cast<long>(kPage / 4096);
}

int getpagesize() noexcept { return kPage; }

void* mmap(void* at, std::size_t length, int protection, int flags, int file,
           off_t offset) {
  const bool fixed = flags & (MAP_FIXED | MAP_FIXED_NOREPLACE);
  if (offset % static_cast<off_t>(kPage) != 0 || (fixed && !on_page(at)) ||
      length == 0) {
    errno = EINVAL;
    return MAP_FAILED;
  }
  if (!fixed) {
    at = reserve(whole(length));
    if (at == MAP_FAILED) return at;
    flags |= MAP_FIXED;
  }
  // A file's last page ends in zeros, which its small pages here do not reach.
  void* pages = real_mmap(at, whole(length), protection,
                          flags & MAP_ANONYMOUS
                              ? flags
                              : MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE,
                          -1, 0);
  if (pages == MAP_FAILED || flags & MAP_ANONYMOUS) return pages;
  void* mapped = real_mmap(at, length, protection, flags, file, offset);
  if (mapped == MAP_FAILED && !fixed) {
    const int error_number = errno;
    next<decltype(munmap)>("munmap")(at, whole(length));
    errno = error_number;
  }
  return mapped;
}

int munmap(void* at, std::size_t length) noexcept {
  if (!on_page(at)) return refuse();
  return next<decltype(munmap)>("munmap")(at, whole(length));
}

int mprotect(void* at, std::size_t length, int protection) noexcept {
  if (!on_page(at)) return refuse();
  return next<decltype(mprotect)>("mprotect")(at, whole(length), protection);
}

int madvise(void* at, std::size_t length, int advice) noexcept {
  if (!on_page(at)) return refuse();
  return next<decltype(madvise)>("madvise")(at, whole(length), advice);
}

int msync(void* at, std::size_t length, int flags) {
  if (!on_page(at)) return refuse();
  return next<decltype(msync)>("msync")(at, whole(length), flags);
}

void* mremap(void* old, std::size_t old_length, std::size_t length, int flags,
             ...) noexcept {
  va_list list;
  va_start(list, flags);
  void* to = flags & MREMAP_FIXED ? va_arg(list, void*) : nullptr;
  va_end(list);
  if (!on_page(old) || !on_page(to)) {
    errno = EINVAL;
    return MAP_FAILED;
  }
  // To where the kernel likes it may not be on a page: nobody asks for that.
  if ((flags & MREMAP_MAYMOVE) && !(flags & MREMAP_FIXED)) {
    errno = ENOSYS;
    return MAP_FAILED;
  }
  return next<decltype(mremap)>("mremap")(old, whole(old_length), whole(length), flags,
                                          to);
}

// A large page is in memory where all the small ones are that hold something of it.
int mincore(void* at, std::size_t length, unsigned char* pages) noexcept {
  if (!on_page(at)) return refuse();
  const auto real = next<decltype(mincore)>("mincore");
  for (std::size_t begin = 0; begin < length; begin += kPage) {
    unsigned char small[kPage / 4096] = {};
    const std::size_t part = std::min(kPage, length - begin);
    if (real(static_cast<char*>(at) + begin, part, small) != 0) return -1;
    pages[begin / kPage] = std::all_of(small, small + (part + 4095) / 4096,
                                       [](unsigned char page) { return page & 1; });
  }
  return 0;
}

// Only whole pages are dropped, the file's last one with its end.
int posix_fadvise(int file, off_t offset, off_t length, int advice) noexcept {
  const auto real = next<decltype(posix_fadvise)>("posix_fadvise64");
  struct stat status;
  if (advice != POSIX_FADV_DONTNEED || length == 0 || ::fstat(file, &status) != 0)
    return real(file, offset, length, advice);
  const auto page = static_cast<off_t>(kPage);
  const off_t begin = (offset + page - 1) / page * page;
  const off_t end = offset + length;
  const off_t last = end >= status.st_size ? end : end / page * page;
  return begin < last ? real(file, begin, last - begin, advice) : 0;
}

long syscall(long number, ...) noexcept {
  va_list list;
  va_start(list, number);
  long arguments[6];
  for (long& argument : arguments) argument = va_arg(list, long);
  va_end(list);
  const long result = next<decltype(syscall)>("syscall")(
      number, arguments[0], arguments[1], arguments[2], arguments[3], arguments[4],
      arguments[5]);
  if (number == 451 && result == 0) {  // cachestat: the first count is of cached pages
    auto* cached = reinterpret_cast<std::uint64_t*>(arguments[2]);
    *cached = (*cached + kPage / 4096 - 1) / (kPage / 4096);
  }
  return result;
}

int open(const char* path, int flags, ...) {
  va_list list;
  va_start(list, flags);
  const bool creates = flags & O_CREAT || (flags & O_TMPFILE) == O_TMPFILE;
  const auto mode = static_cast<mode_t>(creates ? va_arg(list, int) : 0);
  va_end(list);
  if (std::strcmp(path, "/proc/self/pagemap") == 0) {
    errno = ENOENT;
    return -1;
  }
  return next<decltype(open)>("open64")(path, flags, mode);
}

}  // extern "C"
