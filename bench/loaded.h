// SPDX-License-Identifier: Apache-2.0
// What the programs that load a file have in common: touching every page, and telling
// the process that measures them that everything is loaded, then at what cost.
#pragma once

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <span>
#include <string>
#include <thread>
#include <vector>

namespace bench {

// When the system had started this program and loaded its libraries, and when it began.
inline const auto started = std::chrono::steady_clock::now();
inline auto begun = started;

// Keeps a processor busy for a tenth of a second and begins after that, as a program
// does that has had libraries to import: an idle processor is slow for its first
// milliseconds.
inline void begin_awake() {
  const auto until = begun + std::chrono::milliseconds(100);
  while (begun < until) begun = std::chrono::steady_clock::now();
}

// Reads one byte of each 4 KiB page that holds any of `bytes`.
inline void touch_pages(std::span<const std::byte> bytes) {
  constexpr std::size_t kPage = 4096;
  volatile const std::byte* data = bytes.data();
  const std::size_t first = reinterpret_cast<std::uintptr_t>(bytes.data()) % kPage;
  for (std::size_t i = 0; i < bytes.size(); i += i ? kPage : kPage - first)
    static_cast<void>(data[i]);
}

// The same for all of `ranges`, on as many threads: each takes the next piece, cut
// where a 2 MiB page ends, so that they work in file order and no page is faulted by
// two.
inline void touch_pages(const std::vector<std::span<const std::byte>>& ranges,
                        unsigned threads) {
  constexpr std::size_t kPiece = std::size_t{2} << 20;
  std::vector<std::span<const std::byte>> pieces;
  for (std::span<const std::byte> rest : ranges)
    while (!rest.empty()) {
      const std::size_t into = reinterpret_cast<std::uintptr_t>(rest.data()) % kPiece;
      const std::size_t length = std::min(rest.size(), kPiece - into);
      pieces.push_back(rest.first(length));
      rest = rest.subspan(length);
    }
  std::atomic<std::size_t> next = 0;
  const auto work = [&] {
    for (std::size_t i = next++; i < pieces.size(); i = next++) touch_pages(pieces[i]);
  };
  std::vector<std::jthread> others(threads > 1 ? threads - 1 : 0);
  for (std::jthread& thread : others) thread = std::jthread(work);
  work();
}

// The figure of a line "Name:  123 kB" of a file in /proc, or 0.
inline std::uint64_t kib_of(const std::string& line, const std::string& name) {
  return line.starts_with(name + ":") ? std::stoull(line.substr(name.size() + 1)) : 0;
}

// Bytes of anonymous memory that this process has now.
inline std::uint64_t anonymous_bytes() {
  std::ifstream status("/proc/self/status");
  std::uint64_t kib = 0;
  for (std::string line; std::getline(status, line);) kib += kib_of(line, "RssAnon");
  return kib * 1024;
}

// Bytes of `mapping` that are mapped in 2 MiB pieces: of a file, or of own memory.
inline std::uint64_t huge_mapped_bytes(std::span<const std::byte> mapping) {
  const auto begin = reinterpret_cast<std::uintptr_t>(mapping.data());
  std::ifstream smaps("/proc/self/smaps");
  std::uint64_t kib = 0;
  bool inside = false;
  for (std::string line; std::getline(smaps, line);) {
    unsigned long from = 0;
    unsigned long to = 0;
    if (std::sscanf(line.c_str(), "%lx-%lx ", &from, &to) == 2)
      inside = from < begin + mapping.size() && to > begin;
    if (!inside) continue;
    for (const char* kind : {"FilePmdMapped", "ShmemPmdMapped", "AnonHugePages"})
      kib += kib_of(line, kind);
  }
  return std::min<std::uint64_t>(kib * 1024, mapping.size());
}

// To be called once all is loaded: one line at once, for who holds the clock, then a
// line of figures. `mapping` is the file's mapping, where there is one; `way` is how it
// was loaded, where that was chosen.
inline void report_loaded(std::span<const std::byte> mapping = {},
                          const std::string& way = "") {
  const std::chrono::duration<double> inside = std::chrono::steady_clock::now() - begun;
  const std::chrono::duration<double> waking = begun - started;
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  std::puts("loaded");
  std::fflush(stdout);
  const double huge = mapping.empty()
                          ? 0
                          : static_cast<double>(huge_mapped_bytes(mapping)) /
                                static_cast<double>(mapping.size());
  std::printf(
      "{\"inside\": %.6f, \"waking\": %.6f, \"major\": %ld, \"minor\": %ld, "
      "\"anonymous\": %llu, "
      "\"huge\": %.4f, \"way\": \"%s\"}\n",
      inside.count(), waking.count(), usage.ru_majflt, usage.ru_minflt,
      static_cast<unsigned long long>(anonymous_bytes()), huge, way.c_str());
}

}  // namespace bench
