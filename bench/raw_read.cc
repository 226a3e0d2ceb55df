// SPDX-License-Identifier: Apache-2.0
// raw_read FILE: reads a file from begin to end into one 8 MiB buffer and forgets it.
// No loader that goes through the page cache can be expected to beat it.
#include <fcntl.h>
#include <unistd.h>

#include <cstddef>
#include <cstdio>
#include <vector>

#include "loaded.h"

int main(int argc, char** argv) {
  if (argc != 2) return std::fputs("usage: raw_read FILE\n", stderr), 64;
  const int file = open(argv[1], O_RDONLY | O_CLOEXEC);
  if (file < 0) return std::perror(argv[1]), 1;
  std::vector<std::byte> buffer(std::size_t{8} << 20);
  ssize_t count = 0;
  while ((count = read(file, buffer.data(), buffer.size())) > 0) continue;
  if (count < 0) return std::perror(argv[1]), 1;
  bench::report_loaded();
}
