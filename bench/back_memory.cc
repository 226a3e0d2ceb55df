// SPDX-License-Identifier: Apache-2.0
// back_memory BYTES: touches and frees that much anonymous memory. On a virtual machine
// whose host takes free memory back, the first touch of free memory costs the host's
// time; after this, a measurement does not pay for it.
#include <sys/mman.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

int main(int argc, char** argv) {
  if (argc != 2) return std::fputs("usage: back_memory BYTES\n", stderr), 64;
  const std::size_t size = std::strtoull(argv[1], nullptr, 10);
  void* memory =
      mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return std::perror("back_memory"), 1;
  madvise(memory, size, MADV_HUGEPAGE);
  std::memset(memory, 1, size);
}
