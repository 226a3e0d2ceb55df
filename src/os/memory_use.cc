// SPDX-License-Identifier: Apache-2.0
// /proc/self/pagemap and smaps, as the kernel's documentation defines them
// (admin-guide/mm/pagemap, filesystems/proc).
#include "os/memory_use.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <string>
#include <string_view>

#include "os/host.h"
#include "os/os.h"

namespace weig::os {
namespace {

constexpr std::uint64_t kPresent = std::uint64_t{1} << 63;
constexpr std::uint64_t kOfFile = std::uint64_t{1} << 61;  // or shared memory
constexpr std::uint64_t kExclusive = std::uint64_t{1} << 56;

// The addresses of a line of smaps that begins a mapping: "7f00-7f80 r--p ...".
bool is_head(std::string_view line, std::uintptr_t& from, std::uintptr_t& to) {
  const auto first = std::from_chars(line.data(), line.data() + line.size(), from, 16);
  if (first.ec != std::errc() || first.ptr == line.data() + line.size() ||
      *first.ptr != '-')
    return false;
  const auto last = std::from_chars(first.ptr + 1, line.data() + line.size(), to, 16);
  return last.ec == std::errc();
}

}  // namespace

PageUse page_use(Bytes range) {
  const Descriptor pagemap(::open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC));
  PageUse use;
  if (!pagemap) return use;
  const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<std::uintptr_t>(range.data());
  const std::uint64_t end = begin + range.size();
  std::vector<std::uint64_t> entries(8192);
  for (std::uint64_t at = align_down(begin, page); at < end;) {
    const std::uint64_t pages = (end - at + page - 1) / page;
    const std::size_t bytes =
        std::min<std::uint64_t>(entries.size(), pages) * sizeof entries[0];
    const ssize_t got = ::pread(pagemap.number(), entries.data(), bytes,
                                static_cast<off_t>(at / page * sizeof entries[0]));
    if (got <= 0) return use;
    const auto count = static_cast<std::size_t>(got) / sizeof entries[0];
    for (std::size_t i = 0; i < count; ++i, at += page) {
      if (!(entries[i] & kPresent)) continue;
      // Of a page at the range's end, what the range holds.
      const std::uint64_t part =
          std::min<std::uint64_t>(at + page, end) - std::max<std::uint64_t>(at, begin);
      use.present += part;
      if (!(entries[i] & kOfFile))
        use.own += part;
      else if (!(entries[i] & kExclusive))
        use.shared += part;
    }
  }
  return use;
}

std::vector<ByteRange> locked_ranges(Bytes range) {
  const auto begin = reinterpret_cast<std::uintptr_t>(range.data());
  const std::uintptr_t end = begin + range.size();
  const std::string text = read_text("/proc/self/smaps");
  std::vector<ByteRange> found;
  std::uintptr_t from = 0;
  std::uintptr_t to = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t line_end = std::min(text.find('\n', at), text.size());
    const std::string_view line(text.data() + at, line_end - at);
    at = line_end + 1;
    if (is_head(line, from, to) || from >= end || to <= begin) continue;
    if (line.starts_with("VmFlags:") && line.find(" lo") != line.npos)
      found.push_back({std::max(from, begin) - begin, std::min(to, end) - begin});
  }
  return found;
}

}  // namespace weig::os
