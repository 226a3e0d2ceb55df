// SPDX-License-Identifier: Apache-2.0
#include "formats/zip_writer.h"

#include <libdeflate.h>
#include <zlib.h>

#include "core/bytes.h"

namespace weig {
namespace {

constexpr std::uint32_t kLocalMark = 0x04034B50;
constexpr std::uint32_t kDescriptorMark = 0x08074B50;
constexpr std::uint32_t kEntryMark = 0x02014B50;
constexpr std::uint32_t kLargeEndMark = 0x06064B50;
constexpr std::uint32_t kLargeLocatorMark = 0x07064B50;
constexpr std::uint32_t kEndMark = 0x06054B50;
constexpr std::uint16_t kUtf8 = 0x0800;
constexpr std::uint16_t kSizesBehind = 0x0008;
constexpr std::uint16_t kLargeId = 0x0001;
constexpr std::uint16_t kPaddingId = 0x4246;  // as PyTorch calls it
constexpr std::uint16_t kVersion = 20;
constexpr std::uint16_t kLargeVersion = 45;
// 1980-01-01, the first day that there is: equal tensors give equal files.
constexpr std::uint16_t kDate = 1 << 5 | 1;
constexpr std::uint64_t kLarge = 0xFFFFFFFF;  // from here on a number is elsewhere
constexpr std::uint64_t kMany = 0xFFFF;
constexpr std::size_t kLocalBytes = 30;
constexpr std::size_t kFieldBytes = 4;  // id and length of an extra field

template <std::unsigned_integral T>
void put(std::string& out, T value) {
  const std::size_t at = out.size();
  out.resize(at + sizeof value);
  store(std::as_writable_bytes(std::span(out)).data() + at, value);
}
void put_16(std::string& out, std::uint64_t value) {
  put(out, static_cast<std::uint16_t>(value));
}
void put_32(std::string& out, std::uint64_t value) {
  put(out, static_cast<std::uint32_t>(std::min(value, kLarge)));
}

bool is_large(std::uint64_t size) { return size >= kLarge; }

// Version, flags, method, time, date: as both headers have them.
void put_kind(std::string& out, std::uint16_t flags, bool large) {
  put(out, large ? kLargeVersion : kVersion);
  put(out, flags);
  put_16(out, 0);
  put_16(out, 0);
  put(out, kDate);
}

}  // namespace

std::uint32_t joined_crc(std::uint32_t first, std::uint32_t second,
                         std::uint64_t second_bytes) {
  return static_cast<std::uint32_t>(
      crc32_combine(first, second, static_cast<z_off_t>(second_bytes)));
}

std::string ZipWriter::header(const Member& member) const {
  const bool behind = (member.flags & kSizesBehind) != 0;
  const bool large = is_large(member.size);
  std::string extra;
  if (large) {
    put(extra, kLargeId);
    put_16(extra, 16);
    put<std::uint64_t>(extra, behind ? 0 : member.size);
    put<std::uint64_t>(extra, behind ? 0 : member.size);
  }
  const std::uint64_t begin =
      member.header_at + kLocalBytes + member.name.size() + extra.size();
  std::uint64_t padding = align_up(begin, alignment_) - begin;
  if (padding != 0 && padding < kFieldBytes) padding += alignment_;
  if (padding != 0) {
    put(extra, kPaddingId);
    put_16(extra, padding - kFieldBytes);
    extra.append(padding - kFieldBytes, '\0');
  }
  std::string out;
  put(out, kLocalMark);
  put_kind(out, member.flags, large);
  put_32(out, behind ? 0 : member.crc);
  put_32(out, large ? kLarge : behind ? 0 : member.size);
  put_32(out, large ? kLarge : behind ? 0 : member.size);
  put_16(out, member.name.size());
  put_16(out, extra.size());
  return out + member.name + extra;
}

std::string ZipWriter::member(std::string_view name, std::string_view bytes) {
  members_.push_back({.name = std::string(name),
                      .size = bytes.size(),
                      .header_at = at_,
                      .crc = libdeflate_crc32(0, bytes.data(), bytes.size()),
                      .flags = kUtf8});
  std::string out = header(members_.back());
  out += bytes;
  at_ += out.size();
  return out;
}

std::string ZipWriter::begin_member(std::string_view name, std::uint64_t size) {
  members_.push_back({.name = std::string(name),
                      .size = size,
                      .header_at = at_,
                      .flags = kUtf8 | kSizesBehind});
  std::string out = header(members_.back());
  at_ += out.size() + size + end_member(members_.size() - 1).size();
  return out;
}

std::string ZipWriter::end_member(std::size_t number) const {
  const Member& member = members_[number];
  std::string out;
  put(out, kDescriptorMark);
  put(out, member.crc);
  for (int i = 0; i < 2; ++i)  // packed and unpacked
    if (is_large(member.size)) {
      put(out, member.size);
    } else {
      put_32(out, member.size);
    }
  return out;
}

std::string ZipWriter::finish() const {
  std::string out;
  for (const Member& member : members_) {
    const bool large_size = is_large(member.size);
    const bool large_place = is_large(member.header_at);
    std::string extra;
    if (large_size || large_place) {
      put(extra, kLargeId);
      put_16(extra, (large_size ? 16 : 0) + (large_place ? 8 : 0));
      if (large_size) put(extra, member.size);
      if (large_size) put(extra, member.size);
      if (large_place) put(extra, member.header_at);
    }
    put(out, kEntryMark);
    put_16(out, large_size || large_place ? kLargeVersion : kVersion);
    put_kind(out, member.flags, large_size || large_place);
    put(out, member.crc);
    put_32(out, member.size);
    put_32(out, member.size);
    put_16(out, member.name.size());
    put_16(out, extra.size());
    put_16(out, 0);  // a comment,
    put_16(out, 0);  // the disk,
    put_16(out, 0);  // and attributes
    put_32(out, 0);
    put_32(out, member.header_at);
    out += member.name;
    out += extra;
  }
  const std::uint64_t size = out.size();
  const std::uint64_t count = members_.size();
  if (count >= kMany || is_large(size) || is_large(at_)) {
    put(out, kLargeEndMark);
    put<std::uint64_t>(out, 44);  // that follow
    put(out, kLargeVersion);
    put(out, kLargeVersion);
    put_32(out, 0);
    put_32(out, 0);
    put(out, count);
    put(out, count);
    put(out, size);
    put(out, at_);
    put(out, kLargeLocatorMark);
    put_32(out, 0);
    put(out, at_ + size);
    put_32(out, 1);
  }
  put(out, kEndMark);
  put_16(out, 0);
  put_16(out, 0);
  put_16(out, std::min(count, kMany));
  put_16(out, std::min(count, kMany));
  put_32(out, size);
  put_32(out, at_);
  put_16(out, 0);
  return out;
}

}  // namespace weig
