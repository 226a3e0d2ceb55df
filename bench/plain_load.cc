// SPDX-License-Identifier: Apache-2.0
// plain_load FILE [THREADS]: maps a file as it comes, without any advice, and touches
// every page on THREADS threads (default 1), as most programs that map files do.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "loaded.h"

int main(int argc, char** argv) {
  const unsigned long threads = argc > 2 ? std::strtoul(argv[2], nullptr, 10) : 1;
  if (argc < 2 || argc > 3 || threads == 0)
    return std::fputs("usage: plain_load FILE [THREADS]\n", stderr), 64;
  const int file = open(argv[1], O_RDONLY | O_CLOEXEC);
  struct stat status{};
  if (file < 0 || fstat(file, &status) != 0) return std::perror(argv[1]), 1;
  const auto size = static_cast<std::size_t>(status.st_size);
  void* mapped = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file, 0);
  if (mapped == MAP_FAILED) return std::perror(argv[1]), 1;

  const std::span bytes(static_cast<const std::byte*>(mapped), size);
  bench::touch_pages({bytes}, static_cast<unsigned>(threads));
  bench::report_loaded(bytes);
}
