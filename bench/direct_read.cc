// SPDX-License-Identifier: Apache-2.0
// direct_read FILE [THREADS]: reads a file past the page cache (O_DIRECT), 8 MiB at a
// time on THREADS threads (default 4) in file order, into huge-page buffers, and
// forgets it. With raw_read, the rate at which the storage gives the bytes.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "loaded.h"

namespace {

constexpr std::size_t kHugePage = std::size_t{2} << 20;
constexpr std::size_t kPiece = 4 * kHugePage;

// A buffer on 2 MiB, in huge pages, never given back.
void* huge_buffer() {
  void* space = mmap(nullptr, kPiece + kHugePage, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (space == MAP_FAILED) return nullptr;
  const std::size_t past = reinterpret_cast<std::uintptr_t>(space) % kHugePage;
  void* buffer = static_cast<std::byte*>(space) + (past ? kHugePage - past : 0);
  madvise(buffer, kPiece, MADV_HUGEPAGE);
  return buffer;
}

// Reads the next piece until there is none. False where that fails.
bool read_pieces(int file, std::atomic<std::size_t>& next) {
  void* buffer = huge_buffer();
  if (!buffer) return false;
  for (;;) {
    const auto offset = static_cast<off_t>(next++ * kPiece);
    const ssize_t count = pread(file, buffer, kPiece, offset);
    if (count <= 0) return count == 0;
  }
}

}  // namespace

int main(int argc, char** argv) {
  const unsigned long threads = argc > 2 ? std::strtoul(argv[2], nullptr, 10) : 4;
  if (argc < 2 || argc > 3 || threads == 0)
    return std::fputs("usage: direct_read FILE [THREADS]\n", stderr), 64;
  const int file = open(argv[1], O_RDONLY | O_CLOEXEC | O_DIRECT);
  if (file < 0) return std::perror(argv[1]), 1;
  std::atomic<std::size_t> next = 0;
  std::atomic<bool> good = true;
  std::vector<std::jthread> readers(threads);
  for (std::jthread& reader : readers)
    reader = std::jthread([&] { good = read_pieces(file, next) && good; });
  readers.clear();
  if (!good) return std::perror(argv[1]), 1;
  bench::report_loaded();
}
