// SPDX-License-Identifier: Apache-2.0
// limit_load FILE [THREADS]: the fastest way to have a file in memory and touched that
// we can write without any library: a mapping on 2 MiB, huge pages asked for, every
// page touched on THREADS threads (default: one a CPU). What weig is held against.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "loaded.h"

namespace {

constexpr std::size_t kHugePage = std::size_t{2} << 20;

int fail(const char* what) { return std::perror(what), 1; }

}  // namespace

int main(int argc, char** argv) {
  const unsigned long threads = argc > 2 ? std::strtoul(argv[2], nullptr, 10)
                                         : std::thread::hardware_concurrency();
  if (argc < 2 || argc > 3 || threads == 0)
    return std::fputs("usage: limit_load FILE [THREADS]\n", stderr), 64;
  const int file = open(argv[1], O_RDONLY | O_CLOEXEC);
  if (file < 0) return fail(argv[1]);
  struct stat status{};
  if (fstat(file, &status) != 0) return fail(argv[1]);
  const auto size = static_cast<std::size_t>(status.st_size);

  // Address space first, so that there is a multiple of 2 MiB in it to map to.
  void* space = mmap(nullptr, size + kHugePage, PROT_NONE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (space == MAP_FAILED) return fail("mmap");
  const std::size_t past = reinterpret_cast<std::uintptr_t>(space) % kHugePage;
  void* place = static_cast<std::byte*>(space) + (past ? kHugePage - past : 0);
  if (mmap(place, size, PROT_READ, MAP_PRIVATE | MAP_FIXED, file, 0) == MAP_FAILED)
    return fail("mmap");
  madvise(place, size, MADV_HUGEPAGE);

  const std::span bytes(static_cast<const std::byte*>(place), size);
  bench::touch_pages({bytes}, static_cast<unsigned>(threads));
  bench::report_loaded(bytes);
}
