// SPDX-License-Identifier: Apache-2.0
// random_reads FILE COUNT ROUNDS: reads 8 bytes at each of COUNT random places of a
// model, none waiting for another, through weig's view of it and through a view in
// which only 4 KiB pages can map it. Both views are present before; they take turns. A
// line a round: seconds through weig's view, through the other. Then, of each, the
// share that is mapped in 2 MiB pages.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>
#include <weig/model.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "loaded.h"

namespace {

using Bytes = std::span<const std::byte>;

constexpr std::size_t kPage = 4096;
constexpr std::size_t kHugePage = std::size_t{2} << 20;

// The same file a page past a multiple of 2 MiB, where no 2 MiB page can map it.
Bytes small_page_view(const char* path, std::size_t size) {
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return {};
  void* space = mmap(nullptr, size + 2 * kHugePage, PROT_NONE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (space == MAP_FAILED) return {};
  const std::size_t past = reinterpret_cast<std::uintptr_t>(space) % kHugePage;
  void* place = static_cast<std::byte*>(space) + (kHugePage - past) + kPage;
  if (mmap(place, size, PROT_READ, MAP_PRIVATE | MAP_FIXED, file, 0) == MAP_FAILED)
    return {};
  close(file);
  return {static_cast<const std::byte*>(place), size};
}

// Where to read next does not hang on what was read: the CPU may have many on the way.
double read_at_random(Bytes view, unsigned long count) {
  const std::uint64_t places = view.size() / 8;
  std::uint64_t state = 1;
  std::uint64_t sum = 0;
  const auto start = std::chrono::steady_clock::now();
  for (unsigned long i = 0; i < count; ++i) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    const std::uint64_t place = (state >> 32) * places >> 32;  // of 2^32 at most
    std::uint64_t value = 0;
    std::memcpy(&value, view.data() + place * 8, sizeof value);
    sum += value;
  }
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
  volatile std::uint64_t used = sum;
  static_cast<void>(used);
  return taken.count();
}

double huge_share(Bytes view) {
  return static_cast<double>(bench::huge_mapped_bytes(view)) /
         static_cast<double>(view.size());
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4)
    return std::fputs("usage: random_reads FILE COUNT ROUNDS\n", stderr), 64;
  const unsigned long count = std::strtoul(argv[2], nullptr, 10);
  const unsigned long rounds = std::strtoul(argv[3], nullptr, 10);
  const auto model =
      weig::Model::open(argv[1], {.load = {.way = weig::LoadWay::populate}});
  if (!model) return std::fprintf(stderr, "%s\n", model.error().message().c_str()), 1;
  const Bytes ours = model->mapped();
  const Bytes small = small_page_view(argv[1], ours.size());
  if (small.empty()) return std::perror(argv[1]), 1;
  bench::touch_pages(ours);
  bench::touch_pages(small);
  for (unsigned long round = 0; round < rounds; ++round) {
    const double first = read_at_random(round % 2 ? small : ours, count);
    const double second = read_at_random(round % 2 ? ours : small, count);
    std::printf("%.6f %.6f\n", round % 2 ? second : first, round % 2 ? first : second);
  }
  std::printf("%.4f %.4f\n", huge_share(ours), huge_share(small));
}
