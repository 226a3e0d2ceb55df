// SPDX-License-Identifier: Apache-2.0
// Memory in the caller's hands: what of a Model is mapped, given back, and counted.
#include <weig/memory_use.h>

#include "os/memory_use.h"

#include <algorithm>
#include <utility>

#include "core/try.h"
#include "os/residency.h"
#include "store/backing.h"

namespace weig {
namespace {

std::uint64_t bytes_of(const std::vector<os::ByteRange>& ranges, FileRange range) {
  std::uint64_t sum = 0;
  for (const os::ByteRange& each : ranges) {
    const std::uint64_t begin = std::max(each.begin, range.begin);
    const std::uint64_t end = std::min(each.end, range.end);
    if (begin < end) sum += end - begin;
  }
  return sum;
}

void add(MemoryUse& sum, const MemoryUse& part) {
  sum.mapped += part.mapped;
  sum.present += part.present;
  if (part.resident) sum.resident = sum.resident.value_or(0) + *part.resident;
  sum.huge += part.huge;
  sum.locked += part.locked;
  sum.shared += part.shared;
  sum.own += part.own;
  sum.overlaid += part.overlaid;
}

// The part that a place of the file belongs to; that of a tensor without bytes may be
// at the file's end.
MemoryUse& part_with(std::uint64_t place, const std::vector<FilePart>& parts,
                     MemoryReport& report) {
  for (std::size_t i = 0; i < parts.size(); ++i)
    if (bytes_within(parts[i].ranges, {place, place + 1}) > 0)
      return report.parts[i].use;
  return report.parts.back().use;
}

}  // namespace

Status Model::Backing::release(std::span<const FileRange> ranges) {
  WEIG_TRY_ASSIGN(file, open_again());
  const Error owned(Code::unsupported,
                    "the weights are in memory of the process's own, which cannot be "
                    "given back");
  if (!file || owns_data()) return owned;
  {
    const auto locked = lock_shared();
    std::unique_lock<std::mutex> held;
    if (guard) held = guard->hold();
    if (owns_data()) return owned;
    for (const FileRange& range : ranges) WEIG_TRY(mapping.drop(range));
  }
  for (const FileRange& range : ranges) {
    const FileRange part{std::min(range.begin, file->size()),
                         std::min(range.end, file->size())};
    if (part.begin < part.end) WEIG_TRY(file->drop_cache(part.begin, part.size()));
  }
  return {};
}

Status Model::Backing::unmap(std::span<const FileRange> ranges) {
  const auto locked = lock_alone();
  std::unique_lock<std::mutex> held;
  if (guard) held = guard->hold();
  altered = true;
  for (const FileRange& range : ranges) WEIG_TRY(data_mapping().unmap(range));
  return {};
}

Result<LoadReport> Model::prefetch(std::vector<FileRange> ranges) {
  ranges = joined(std::move(ranges));
  if (ranges.empty()) return LoadReport();
  return load({.way = LoadWay::stream, .ranges = std::move(ranges)});
}

Status Model::release(std::span<const FileRange> ranges) {
  if (auto status = backing_->release(ranges); !status)
    return std::move(status).error().file(path());
  return {};
}

Status Model::unmap(std::span<const FileRange> ranges) {
  const FileRange data{data_begin(), data_end()};
  std::vector<FileRange> parts;
  for (const FileRange& range : ranges) {
    const FileRange part{std::max(range.begin, data.begin),
                         std::min(range.end, data.end)};
    if (part.begin < part.end) parts.push_back(part);
  }
  if (parts.empty()) return {};
  if (auto status = backing_->unmap(parts); !status)
    return std::move(status).error().file(path());
  return {};
}

bool Model::is_mapped(FileRange range) const {
  const auto locked = backing_->lock_shared();
  return backing_->data_mapping().is_mapped(range);
}

Result<std::span<std::byte>> Model::writable(std::string_view name) {
  Backing& backing = *backing_;
  auto tensor = View::tensor(name);
  if (!tensor) return std::move(tensor).error().file(path());
  const std::uint64_t begin = tensor->data_offset();
  const FileRange range{begin, begin + tensor->byte_count()};
  const auto refused = [&](Error error) {
    return std::move(error).file(path()).tensor(name);
  };
  const auto locked = backing.lock_alone();
  if (backing.guard)
    return refused(
        Error(Code::unsupported,
              "a tensor that is written cannot be guarded: the guard's copy is "
              "of the file"));
  os::Mapping& data = backing.data_mapping();
  if (!tensor->has_data() || !data.is_mapped(range))
    return refused(Error(Code::unsupported, "the tensor's data is not mapped"));
  const std::span<std::byte> bytes = data.writable().subspan(begin, range.size());
  if (bytes.empty() ||
      std::ranges::find(backing.writable, range) != backing.writable.end())
    return bytes;
  const std::uint64_t spent = byte_count(backing.writable);
  if (range.size() > backing.max_writable - spent)
    return refused(Error(Code::limit, "no more bytes may be written in place")
                       .found(range.size())
                       .expected("at most " +
                                 std::to_string(backing.max_writable - spent) +
                                 " (OpenOptions::max_writable_bytes, less what is "
                                 "writable already)"));
  backing.writable.push_back(range);
  if (auto status = data.make_writable(range); !status) {
    backing.writable.pop_back();
    return refused(std::move(status).error());
  }
  return bytes;
}

Result<MemoryReport> Model::memory() const {
  WEIG_TRY_ASSIGN(parts, file_parts(*this));
  const Backing& backing = *backing_;
  const auto locked = backing.lock_shared();
  const os::Mapping& mapping = backing.data_mapping();
  const auto huge = os::huge_mapped_ranges(mapping.bytes());
  const auto pinned = os::locked_ranges(mapping.bytes());
  std::optional<std::vector<FileRange>> resident;
  if (auto file = backing_->open_again(); file && *file && !backing.owns_data())
    resident = os::resident_ranges(**file);
  MemoryReport report;
  for (const FilePart& part : parts) {
    MemoryUse use;
    if (resident) use.resident = 0;
    for (const FileRange& range : part.ranges) {
      if (resident) *use.resident += bytes_within(*resident, range);
      for (const FileRange& here : mapping.mapped(range)) {
        const os::PageUse pages =
            os::page_use(mapping.bytes().subspan(here.begin, here.size()));
        use.mapped += here.size();
        use.present += pages.present;
        use.shared += pages.shared;
        use.own += pages.own;
        use.huge += huge ? bytes_of(*huge, here) : 0;
        use.locked += bytes_of(pinned, here);
      }
    }
    report.parts.push_back({.name = part.name, .use = use});
  }
  for (const auto& [ordinal, overlay] : backing.overlays) {
    WEIG_TRY_ASSIGN(tensor, View::operator[](ordinal));
    part_with(tensor.data_offset(), parts, report).overlaid += overlay.bytes().size();
  }
  for (const PartMemory& part : report.parts) add(report.total, part.use);
  return report;
}

}  // namespace weig
