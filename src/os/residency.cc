// SPDX-License-Identifier: Apache-2.0
// cachestat, mincore and PAGEMAP_SCAN. What kernel headers may lack is declared here,
// as the kernel's user interface defines it.
#include "os/residency.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>
#include <weig/host.h>
#include <weig/page_cache.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <span>
#include <utility>

#include "core/try.h"
#include "os/host.h"

namespace weig::os {

std::uint64_t page_size() noexcept {
  return static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

namespace {

// linux/mman.h since 6.5; one number on all processors.
constexpr long kCachestat = 451;
struct CachestatRange {
  std::uint64_t offset;
  std::uint64_t length;
};
struct Cachestat {
  std::uint64_t cached;
  std::uint64_t dirty;
  std::uint64_t writeback;
  std::uint64_t evicted;
  std::uint64_t recently_evicted;
};

// linux/fs.h since 6.7.
struct PageRegion {
  std::uint64_t begin;
  std::uint64_t end;
  std::uint64_t categories;
};
struct ScanArguments {
  std::uint64_t size;
  std::uint64_t flags;
  std::uint64_t begin;
  std::uint64_t end;
  std::uint64_t walk_end;  // out
  std::uint64_t regions;
  std::uint64_t region_count;
  std::uint64_t max_pages;
  std::uint64_t inverted;
  std::uint64_t all_of;
  std::uint64_t any_of;
  std::uint64_t returned;
};
constexpr std::uint64_t kPageIsPresent = 1 << 3;
constexpr std::uint64_t kPageIsHuge = 1 << 6;
const unsigned long kPagemapScan = _IOWR('f', 16, ScanArguments);

Descriptor open_pagemap() noexcept {
  return Descriptor(::open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC));
}

// Looks for the first pages of a range that are missing from the page table, as many as
// `regions` can hold. The number of regions; negative where the kernel cannot tell.
int find_missing_pages(const Descriptor& pagemap, Bytes range,
                       std::span<PageRegion> regions) noexcept {
  ScanArguments arguments{};
  arguments.size = sizeof arguments;
  const auto begin = reinterpret_cast<std::uintptr_t>(range.data());
  arguments.begin = align_down(begin, page_size());
  arguments.end = begin + range.size();
  arguments.regions = reinterpret_cast<std::uintptr_t>(regions.data());
  arguments.region_count = regions.size();
  arguments.max_pages = regions.size();
  arguments.inverted = kPageIsPresent;
  arguments.all_of = kPageIsPresent;
  arguments.returned = kPageIsPresent;
  return ::ioctl(pagemap.number(), kPagemapScan, &arguments);
}

// mincore is asked for so much at a time, so that its answer stays small.
constexpr std::uint64_t kMincoreStep = std::uint64_t{256} << 20;

std::optional<std::uint64_t> cachestat(const InputFile& file, std::uint64_t offset,
                                       std::uint64_t length) {
  const CachestatRange range{offset, length};
  Cachestat found{};
  if (::syscall(kCachestat, file.descriptor(), &range, &found, 0) != 0) return {};
  return found.cached * page_size();
}

// How many bytes of `range`, which begins on a page, mincore says are in memory.
std::optional<std::uint64_t> resident_in(Bytes range) {
  std::vector<unsigned char> pages(kMincoreStep / page_size());
  std::uint64_t sum = 0;
  while (!range.empty()) {
    const auto now = range.first(std::min<std::size_t>(range.size(), kMincoreStep));
    if (::mincore(const_cast<std::byte*>(now.data()), now.size(), pages.data()) != 0)
      return {};
    const auto count = (now.size() + page_size() - 1) / page_size();
    for (std::size_t i = 0; i < count; ++i) sum += pages[i] & 1;
    range = range.subspan(now.size());
  }
  return sum * page_size();
}

// Whether mincore tells the truth about a file: of others' it says that all is
// resident. The kernel's own rule: the owner, who may act as the owner, and who may
// write.
bool mincore_is_true(const InputFile& file) {
  struct stat status;
  if (::fstat(file.descriptor(), &status) != 0) return false;
  if (status.st_uid == ::geteuid()) return true;
  const std::string self = "/proc/self/fd/" + std::to_string(file.descriptor());
  if (::faccessat(AT_FDCWD, self.c_str(), W_OK, AT_EACCESS) == 0) return true;
  constexpr unsigned kActAsOwner = 3;  // CAP_FOWNER
  return has_capability(kActAsOwner);
}

// Counts the cached bytes of a file, a piece at a time: what a thread of several does.
struct CachedBytes {
  const InputFile& file;
  std::atomic<std::uint64_t> next = 0;
  std::atomic<std::uint64_t> sum = 0;
  std::atomic<bool> known = true;

  static constexpr std::uint64_t kPiece = std::uint64_t{16} << 20;

  bool count_piece() noexcept {
    const std::uint64_t at = next.fetch_add(kPiece);
    if (at >= file.size()) return false;
    const auto cached = cachestat(file, at, std::min(kPiece, file.size() - at));
    if (!cached) known = false;
    sum += cached.value_or(0);
    return cached.has_value();
  }
};

// Small folios are as many as pages, and all are looked at: 9 ms for 1 GB on one CPU.
// A piece that takes so long lies in such.
constexpr auto kLong = std::chrono::microseconds(60);

std::optional<std::uint64_t> cached_bytes(const InputFile& file) noexcept {
  CachedBytes count{.file = file};
  const auto start = std::chrono::steady_clock::now();
  const bool more = count.count_piece();
  const bool small = std::chrono::steady_clock::now() - start > kLong;
  const std::uint64_t left = (file.size() - 1) / CachedBytes::kPiece;  // pieces
  if (more && left > 0)
    run_on_threads(
        small ? static_cast<unsigned>(std::min<std::uint64_t>(usable_cpus(), left)) : 1,
        [](void* given) {
          while (static_cast<CachedBytes*>(given)->count_piece()) continue;
        },
        &count);
  if (!count.known) return {};
  return count.sum;
}

// Calls take(offset, length, pages) for each stretch of the file with mincore's answer,
// a byte a page. False where that is not to be had, or not to be believed.
template <typename Take>
bool by_mincore(const InputFile& file, Take take) {
  if (!mincore_is_true(file)) return false;
  std::vector<unsigned char> pages(kMincoreStep / page_size());
  for (std::uint64_t begin = 0; begin < file.size(); begin += kMincoreStep) {
    const std::uint64_t length = std::min(kMincoreStep, file.size() - begin);
    if (cachestat(file, begin, length) == 0U) {  // takes no time, even in a vast hole
      std::ranges::fill(pages, static_cast<unsigned char>(0));
      take(begin, length, pages);
      continue;
    }
    void* at = ::mmap(nullptr, length, PROT_READ, MAP_PRIVATE, file.descriptor(),
                      static_cast<off_t>(begin));
    if (at == MAP_FAILED) return false;
    const bool told = ::mincore(at, length, pages.data()) == 0;
    ::munmap(at, length);
    if (!told) return false;
    take(begin, length, pages);
  }
  return true;
}

// Calls take(resident bytes) for each piece of 2 MiB, in order.
template <typename Take>
bool pieces_by_mincore(const InputFile& file, Take take) {
  constexpr std::uint64_t kPiece = PageCache::kPieceBytes;
  const std::uint64_t page = page_size();
  return by_mincore(file, [&](std::uint64_t, std::uint64_t length,
                              const std::vector<unsigned char>& pages) {
    for (std::uint64_t piece = 0; piece < length; piece += kPiece) {
      const std::uint64_t end = std::min(piece + kPiece, length);
      std::uint64_t resident = 0;
      for (std::uint64_t i = piece; i < end; i += page)
        if (pages[i / page] & 1) resident += std::min(page, end - i);
      take(resident);
    }
  });
}

Faults faults_of(int whose) noexcept {
  rusage usage{};
  ::getrusage(whose, &usage);
  return {static_cast<std::uint64_t>(usage.ru_majflt),
          static_cast<std::uint64_t>(usage.ru_minflt)};
}

// FilePmdMapped and the like of the mappings that overlap `range`, from smaps: slower,
// and only of whole mappings.
std::optional<std::uint64_t> huge_bytes_in_smaps(Bytes range) {
  const auto begin = reinterpret_cast<std::uintptr_t>(range.data());
  const std::string text = read_text("/proc/self/smaps");
  if (text.empty()) return {};
  std::uint64_t kib = 0;
  bool inside = false;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view line(text.data() + at, end - at);
    at = end + 1;
    std::uintptr_t from = 0;
    const auto first =
        std::from_chars(line.data(), line.data() + line.size(), from, 16);
    if (first.ec == std::errc() && first.ptr != line.data() + line.size() &&
        *first.ptr == '-') {
      std::uintptr_t to = 0;
      std::from_chars(first.ptr + 1, line.data() + line.size(), to, 16);
      inside = from < begin + range.size() && to > begin;
    }
    if (!inside) continue;
    for (const char* name : {"AnonHugePages", "FilePmdMapped", "ShmemPmdMapped"})
      kib += number_after(line, name).value_or(0);
  }
  return std::min<std::uint64_t>(kib * 1024, range.size());
}

}  // namespace

std::optional<std::uint64_t> resident_bytes(const InputFile& file) {
  if (file.size() == 0) return 0;
  if (const auto cached = cached_bytes(file)) return std::min(*cached, file.size());
  std::uint64_t sum = 0;
  if (!pieces_by_mincore(file, [&](std::uint64_t resident) { sum += resident; }))
    return {};
  return sum;
}

unsigned places_all_resident(const InputFile& file) {
  constexpr unsigned kPlaces = 128;
  constexpr std::uint64_t kPlace = std::uint64_t{64} << 10;
  constexpr std::uint64_t kPiece = CachedBytes::kPiece;
  if (file.size() < 4 * kPiece) return 0;
  // Its front may lie in small folios where the rest does not: reading ahead begins so.
  const std::uint64_t middle = align_down(file.size() / 2, kPiece);
  const auto start = std::chrono::steady_clock::now();
  if (cachestat(file, middle, kPiece) != kPiece) return 0;
  if (std::chrono::steady_clock::now() - start <= kLong) return 0;
  const std::uint64_t stride = align_down(file.size() / kPlaces, kPlace);
  for (std::uint64_t i = 0; i < kPlaces; ++i)
    if (cachestat(file, i * stride + stride / 2, kPlace) < kPlace) return 0;
  return kPlaces;
}

std::optional<std::uint64_t> resident_bytes(const InputFile& file,
                                            const Mapping& mapping) {
  if (!mincore_is_true(file)) return resident_bytes(file);
  const auto bytes = resident_in(mapping.bytes());
  if (!bytes) return resident_bytes(file);
  return std::min(*bytes, file.size());
}

std::optional<std::vector<FileRange>> resident_ranges(const InputFile& file) {
  const std::uint64_t page = page_size();
  std::vector<FileRange> found;
  const auto take = [&](std::uint64_t begin, std::uint64_t length,
                        const std::vector<unsigned char>& pages) {
    for (std::uint64_t i = 0; i < length; i += page) {
      if (!(pages[i / page] & 1)) continue;
      const FileRange here{begin + i, begin + std::min(i + page, length)};
      if (!found.empty() && found.back().end == here.begin)
        found.back().end = here.end;
      else
        found.push_back(here);
    }
  };
  if (!by_mincore(file, take)) return {};
  return found;
}

std::optional<std::vector<ByteRange>> huge_mapped_ranges(Bytes range) {
  const Descriptor pagemap = open_pagemap();
  if (!pagemap) return {};
  const auto start = reinterpret_cast<std::uintptr_t>(range.data());
  const std::uint64_t end = start + align_up(range.size(), page_size());
  std::vector<ByteRange> found;
  PageRegion regions[64];
  ScanArguments arguments{};
  arguments.size = sizeof arguments;
  arguments.begin = start;
  arguments.end = end;
  arguments.regions = reinterpret_cast<std::uintptr_t>(regions);
  arguments.region_count = std::size(regions);
  arguments.all_of = kPageIsHuge;
  arguments.returned = kPageIsHuge;
  while (arguments.begin < end) {
    const int count = ::ioctl(pagemap.number(), kPagemapScan, &arguments);
    if (count < 0) {
      if (errno == EINTR) continue;
      return {};
    }
    for (int i = 0; i < count; ++i)
      found.push_back({regions[i].begin - start,
                       std::min<std::uint64_t>(regions[i].end - start, range.size())});
    if (arguments.walk_end <= arguments.begin) break;
    arguments.begin = arguments.walk_end;
  }
  return found;
}

std::optional<std::uint64_t> huge_mapped_bytes(Bytes range) {
  const auto ranges = huge_mapped_ranges(range);
  if (!ranges) return huge_bytes_in_smaps(range);
  std::uint64_t sum = 0;
  for (const ByteRange& each : *ranges) sum += each.end - each.begin;
  return sum;
}

Faults faults() noexcept { return faults_of(RUSAGE_SELF); }
Faults faults_of_this_thread() noexcept { return faults_of(RUSAGE_THREAD); }

FaultAround::FaultAround() noexcept {
  // Where a process may not even write files so short, writing is a signal.
  rlimit most{};
  if (::getrlimit(RLIMIT_FSIZE, &most) != 0 || most.rlim_cur < kHugePage) return;
  sink_ = Descriptor(::memfd_create("weig", MFD_CLOEXEC));
  pagemap_ = open_pagemap();
}

bool FaultAround::map(Bytes range) const noexcept {
  constexpr std::size_t kStride = std::size_t{64} << 10;
  constexpr std::size_t kMost = kHugePage / kStride + 1;
  if (!sink_ || !pagemap_) return false;
  // A fault maps a stretch that is aligned to its own length: the first may be short.
  const std::size_t past = reinterpret_cast<std::uintptr_t>(range.data()) % kStride;
  iovec bytes[kMost];
  const auto read_first = [&](std::size_t count) {
    return ::pwritev(sink_.number(), bytes, static_cast<int>(count), 0) ==
           static_cast<ssize_t>(count);
  };
  for (std::size_t at = 0; at < range.size();) {
    std::size_t count = 0;
    for (; count < kMost && at < range.size(); at += at == 0 ? kStride - past : kStride)
      // Only read: an iovec knows no const.
      bytes[count++] = {const_cast<std::byte*>(range.data()) + at, 1};
    if (!read_first(count)) return false;
  }
  // A fault leaves out, of the pages around it, those that are in use for a moment or
  // that the kernel has marked to read on from.
  PageRegion missing[kMost];
  const int found = find_missing_pages(pagemap_, range, missing);
  if (found <= 0) return found == 0;
  std::size_t count = 0;
  const auto start = reinterpret_cast<std::uintptr_t>(range.data());
  for (const PageRegion& region :
       std::span(missing).first(static_cast<unsigned>(found)))
    for (std::uint64_t at = std::max(region.begin, start); at < region.end;
         at += page_size()) {
      if (count == kMost) return false;
      bytes[count++] = {const_cast<std::byte*>(range.data()) + (at - start), 1};
    }
  return read_first(count) && find_missing_pages(pagemap_, range, missing) == 0;
}

}  // namespace weig::os

namespace weig {
namespace {

// Maps the pieces that are wholly in memory, where no fault reads anything, and looks
// which of them one page-table entry maps. Without room to map them, none is told.
void tell_folios(const os::InputFile& file, PageCache& cache) {
  auto mapped = os::Mapping::of_file(file, file.size());
  if (!mapped) return;
  os::Mapping mapping = *std::move(mapped);
  mapping.expect_random(0, mapping.size());
  volatile const std::byte* data = mapping.data();
  constexpr std::uint64_t kPiece = PageCache::kPieceBytes;
  for (std::size_t i = 0; i < cache.pieces.size(); ++i)
    if (cache.pieces[i].resident == kPiece) static_cast<void>(data[i * kPiece]);
  const auto huge = os::huge_mapped_ranges(mapping.bytes());
  if (!huge) return;
  for (PageCache::Piece& piece : cache.pieces)
    if (piece.resident == kPiece) piece.folio = PageCache::Folio::small;
  for (const os::ByteRange& range : *huge)
    for (std::uint64_t at = range.begin; at < range.end; at += kPiece)
      if (cache.pieces[at / kPiece].resident == kPiece)
        cache.pieces[at / kPiece].folio = PageCache::Folio::huge;
}

}  // namespace

Result<PageCache> page_cache(const std::string& path, Folios folios) {
  constexpr std::uint64_t kPiece = PageCache::kPieceBytes;
  WEIG_TRY_ASSIGN(file, os::InputFile::open(path));
  PageCache cache;
  cache.file_size = file.size();
  const auto take = [&](std::uint64_t resident) {
    cache.pieces.push_back({.resident = static_cast<std::uint32_t>(resident)});
    cache.resident += resident;
  };
  cache.known = true;
  bool by_cachestat = file.size() > 0;
  for (std::uint64_t at = 0; by_cachestat && at < file.size(); at += kPiece) {
    const std::uint64_t length = std::min(kPiece, file.size() - at);
    const auto cached = os::cachestat(file, at, length);
    by_cachestat = cached.has_value();
    if (cached) take(std::min(*cached, length));
  }
  if (!by_cachestat) {
    cache.pieces.clear();
    cache.resident = 0;
    cache.known = os::pieces_by_mincore(file, take);
    if (!cache.known) cache.pieces.clear();
  }
  if (folios == Folios::tell && cache.known && file.size() >= kPiece)
    tell_folios(file, cache);
  return cache;
}

Result<std::optional<std::vector<FileRange>>> resident_ranges(const std::string& path) {
  WEIG_TRY_ASSIGN(file, os::InputFile::open(path));
  return os::resident_ranges(file);
}

Status evict(const std::string& path, std::span<const FileRange> ranges) {
  WEIG_TRY_ASSIGN(file, os::InputFile::open(path));
  if (ranges.empty()) return file.drop_cache(0, file.size());
  for (const FileRange& range : ranges)
    WEIG_TRY(file.drop_cache(range.begin, range.size()));
  return {};
}

}  // namespace weig
