// SPDX-License-Identifier: Apache-2.0
#include "huge_room.h"

#include <sys/mman.h>

#include "host.h"

namespace weig::cli {

void make_huge_room(std::uint64_t bytes) {
  constexpr std::uint64_t kHuge = std::uint64_t{2} << 20;
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return;
  ::madvise(memory, bytes, MADV_HUGEPAGE);
  volatile auto* byte = static_cast<unsigned char*>(memory);
  for (std::uint64_t at = 0; at < bytes && stop_signal() == 0; at += kHuge)
    byte[at] = 1;
  ::munmap(memory, bytes);
}

}  // namespace weig::cli
