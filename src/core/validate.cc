// SPDX-License-Identifier: Apache-2.0
// The rules O1-O6: the two ends of a file. Trusts nothing: every rejection here has a
// row in docs/format.md and in the corruption test.
#include <algorithm>
#include <array>
#include <cstring>

#include "core/claim.h"
#include "core/digest.h"
#include "core/text.h"

namespace weig {
namespace {

Error corrupt(std::uint64_t at, std::string what) {
  return Error(Code::corrupt, std::move(what)).at(at);
}

Error unsupported(std::uint64_t at, std::string what) {
  return Error(Code::unsupported, std::move(what)).at(at);
}

bool all_zero(Bytes bytes) noexcept {
  for (const std::byte b : bytes)
    if (b != std::byte{0}) return false;
  return true;
}

constexpr std::uint64_t kHeaderBytes = sizeof(disk::Header);
constexpr std::uint64_t kTrailerBytes = sizeof(disk::Trailer);
constexpr std::uint64_t kKnownMustFlags = disk::kFlagSealed | disk::kFlagSections;
constexpr std::uint64_t kMustFlags = 0xFFFFFFFF;

Status check_flags(const disk::Header& header, const ViewOptions& options) {
  constexpr std::uint64_t at = offsetof(disk::Header, flags);
  const std::uint64_t must = header.flags & kMustFlags;
  if (must & disk::kFlagPacked)
    return unsupported(at, "the file's data is packed (compressed)");
  if (must & disk::kFlagEncrypted)
    return unsupported(at, "the file's data is encrypted");
  if (must & disk::kFlagElsewhere)
    return unsupported(at, "the file's data lies in other files");
  if (must & ~kKnownMustFlags)
    return unsupported(at, "flags that this reader does not know")
        .found(hex(must & ~kKnownMustFlags));
  if (must == kKnownMustFlags) return {};
  if (must != 0)
    return corrupt(at, "the sealed and the sections flag come together")
        .found(hex(must))
        .expected(hex(kKnownMustFlags));
  if (options.unsealed == Unsealed::refuse)
    return unsupported(at, "the file is not sealed: no trailer, index or digests")
        .hint("open it with unsealed files accepted, or seal it with 'weig convert'");
  if (header.flags != 0)
    return corrupt(at, "flags of a minimal file")
        .found(hex(header.flags))
        .expected("0");
  return {};
}

// The two ends, copied once: what was checked is what is used, whoever writes to the
// file meanwhile.
struct Ends {
  explicit Ends(const FileParts& parts) noexcept
      : header_size(std::min(parts.front.size(), header.size())) {
    std::ranges::copy(parts.front.first(header_size), header.begin());
    if (parts.trailer.size() == trailer.size())
      std::memcpy(trailer.data(), parts.trailer.data(), trailer.size());
  }
  Bytes header_bytes() const noexcept { return Bytes(header).first(header_size); }

  std::array<std::byte, kHeaderBytes> header{};
  std::array<std::byte, kTrailerBytes> trailer{};
  std::size_t header_size = 0;
};

// O4.
Status check_trailer(const Ends& ends, std::uint64_t size, const disk::Header& header) {
  if (size < kHeaderBytes + kTrailerBytes)
    return corrupt(0, "no room for header and trailer")
        .found(std::to_string(size) + " bytes")
        .expected("at least 128 bytes");
  const std::uint64_t at = size - kTrailerBytes;
  const disk::Trailer trailer = load_trailer(ends.trailer);
  if (std::memcmp(trailer.sentinel, disk::kSentinel, sizeof disk::kSentinel) != 0)
    return corrupt(at, "the file is marked sealed but has no trailer")
        .hint("its writing was interrupted, or its end is damaged");
  if (trailer.file_size != header.file_size)
    return corrupt(at + offsetof(disk::Trailer, file_size), "the trailer's file_size")
        .found(trailer.file_size)
        .expected(header.file_size);
  if (trailer.version != header.version)
    return corrupt(at + offsetof(disk::Trailer, version), "the trailer's version")
        .found(trailer.version)
        .expected(header.version);
  if (trailer.reserved[0] != 0 || trailer.reserved[1] != 0)
    return corrupt(at + offsetof(disk::Trailer, reserved),
                   "the trailer's reserved field")
        .found(hex(trailer.reserved[0] | trailer.reserved[1]))
        .expected("0");
  const std::uint64_t check = trailer_check(ends.header, ends.trailer);
  if (trailer.check != check)
    return corrupt(at + offsetof(disk::Trailer, check),
                   "header and trailer do not match their check")
        .found(hex(trailer.check))
        .expected(hex(check));
  return {};
}

// O5 for both forms: places of table and data. For a sealed file `strings_end` is
// section_offset, for a minimal one data_offset.
Status check_places(const disk::Header& header, bool sealed) {
  constexpr std::uint64_t at_meta = offsetof(disk::Header, meta_offset);
  constexpr std::uint64_t at_data = offsetof(disk::Header, data_offset);
  constexpr std::uint64_t at_section = offsetof(disk::Header, section_offset);
  const std::uint64_t data_limit =
      sealed ? header.file_size - kTrailerBytes : header.file_size;
  if (header.data_offset > data_limit)
    return corrupt(at_data, "data_offset lies outside the file")
        .found(header.data_offset)
        .expected("at most " + std::to_string(data_limit));
  if (sealed && !is_aligned(header.data_offset, disk::kDataStartAlignment))
    return corrupt(at_data, "data_offset is not aligned")
        .found(header.data_offset)
        .expected("a multiple of 4096");
  std::uint64_t table_limit = header.data_offset;
  if (sealed) {
    if (header.section_count > disk::kMaxSections)
      return corrupt(offsetof(disk::Header, section_count), "section_count")
          .found(header.section_count)
          .expected("at most 256");
    if (!fits(header.section_offset, header.section_count * sizeof(disk::SectionEntry),
              header.data_offset))
      return corrupt(at_section, "the section table runs into the data")
          .found(extent_text(header.section_offset,
                             header.section_count * sizeof(disk::SectionEntry)))
          .expected("an end by " + std::to_string(header.data_offset));
    if (!is_aligned(header.section_offset, 8))
      return corrupt(at_section, "section_offset is not aligned")
          .found(header.section_offset)
          .expected("a multiple of 8");
    table_limit = header.section_offset;
  }
  if (header.meta_offset < kHeaderBytes)
    return corrupt(at_meta, "the tensor table overlaps the header")
        .found(header.meta_offset)
        .expected("at least 64");
  if (sealed && !is_aligned(header.meta_offset, 8))
    return corrupt(at_meta, "meta_offset is not aligned")
        .found(header.meta_offset)
        .expected("a multiple of 8");
  if (header.tensor_count > disk::kMaxTensors)
    return corrupt(offsetof(disk::Header, tensor_count), "tensor_count")
        .found(header.tensor_count)
        .expected("at most " + std::to_string(disk::kMaxTensors));
  // Below 2^32 records of 48 bytes: the product cannot wrap.
  if (!fits(header.meta_offset, header.tensor_count * sizeof(disk::TensorMeta),
            table_limit))
    return corrupt(at_meta, "the tensor table does not fit before what follows it")
        .found(std::to_string(header.tensor_count) + " records at " +
               std::to_string(header.meta_offset))
        .expected("an end by " + std::to_string(table_limit));
  return {};
}

// O6: the index's head, which later look-ups rely on.
Status check_index_head(Bytes front, const disk::SectionEntry& entry,
                        detail::Claim& claim) {
  if (entry.size < sizeof(disk::IndexHead))
    return corrupt(entry.offset, "the name index is shorter than its head")
        .found(entry.size)
        .expected("at least 64");
  const std::byte* head = front.data() + entry.offset;
  claim.index_offset = entry.offset;
  claim.index_seed = load<std::uint64_t>(head);
  claim.index_slots = load<std::uint64_t>(head + 8);
  if (!std::has_single_bit(claim.index_slots) ||
      claim.index_slots < 2 * claim.tensor_count)
    return corrupt(entry.offset + 8, "the name index's number of slots")
        .found(claim.index_slots)
        .expected("a power of two, at least " + std::to_string(2 * claim.tensor_count));
  if ((entry.size - sizeof(disk::IndexHead)) / sizeof(disk::IndexSlot) !=
          claim.index_slots ||
      entry.size % sizeof(disk::IndexSlot) != 0)
    return corrupt(entry.offset, "the name index's size does not fit its slots")
        .found(entry.size)
        .expected("64 + 8 x " + std::to_string(claim.index_slots));
  if (!all_zero(front.subspan(entry.offset + 16, 48)))
    return corrupt(entry.offset + 16, "the name index's head has bytes that are not 0");
  return {};
}

// O6: kinds and places of sections.
Status check_section_table(Bytes front, const disk::Header& header,
                           detail::Claim& claim) {
  std::uint64_t end = claim.core_end;
  std::uint32_t last_kind = 0;
  bool has_index = false;
  for (std::uint64_t i = 0; i < header.section_count; ++i) {
    const std::uint64_t at = header.section_offset + i * sizeof(disk::SectionEntry);
    const disk::SectionEntry entry = load_section(front.data() + at);
    if (i > 0 && entry.kind <= last_kind)
      return corrupt(at, "sections are not in ascending order of kind")
          .found(entry.kind)
          .expected("above " + std::to_string(last_kind));
    if (entry.flags & ~disk::kSectionCritical)
      return corrupt(at + 4, "unknown flags of section " + std::to_string(entry.kind))
          .found(hex(entry.flags));
    const bool known =
        entry.kind >= static_cast<std::uint32_t>(disk::SectionKind::name_index) &&
        entry.kind <= static_cast<std::uint32_t>(disk::SectionKind::shard);
    if (!known && (entry.flags & disk::kSectionCritical))
      return unsupported(at,
                         "a section that must be understood, of a kind that this "
                         "reader does not know")
          .found(entry.kind);
    if (!is_aligned(entry.offset, disk::kSectionAlignment))
      return corrupt(at + 8,
                     "section " + std::to_string(entry.kind) + " is not aligned")
          .found(entry.offset)
          .expected("a multiple of 64");
    if (!inside(entry.offset, entry.size, end, header.data_offset))
      return corrupt(at + 8, "section " + std::to_string(entry.kind) +
                                 " overlaps what is before or after it")
          .found(extent_text(entry.offset, entry.size))
          .expected("inside " + range_text(end, header.data_offset));
    if (entry.kind == static_cast<std::uint32_t>(disk::SectionKind::name_index)) {
      if (auto status = check_index_head(front, entry, claim); !status) return status;
      has_index = true;
    }
    last_kind = entry.kind;
    end = entry.offset + entry.size;
  }
  if (!has_index && claim.tensor_count > 0)
    return corrupt(header.section_offset, "the file has no name index")
        .hint("a sealed file with tensors needs section 1");
  return {};
}

}  // namespace

disk::Header load_header(Bytes bytes, ByteOrder order) noexcept {
  const auto u32 = [&](std::size_t at) {
    return load_in<std::uint32_t>(&bytes[at], order);
  };
  const auto u64 = [&](std::size_t at) {
    return load_in<std::uint64_t>(&bytes[at], order);
  };
  return {u32(0), u32(4), u64(8), u64(16), u64(24), u64(32), u64(40), u64(48), u64(56)};
}

disk::Trailer load_trailer(Bytes bytes) noexcept {
  disk::Trailer trailer;
  const std::byte* p = bytes.data();
  std::memcpy(trailer.sentinel, p, sizeof trailer.sentinel);
  trailer.file_size = load<std::uint64_t>(p + 8);
  trailer.file_id_low = load<std::uint64_t>(p + 16);
  trailer.file_id_high = load<std::uint64_t>(p + 24);
  trailer.version = load<std::uint32_t>(p + 32);
  trailer.writer = load<std::uint32_t>(p + 36);
  trailer.reserved[0] = load<std::uint64_t>(p + 40);
  trailer.reserved[1] = load<std::uint64_t>(p + 48);
  trailer.check = load<std::uint64_t>(p + 56);
  return trailer;
}

disk::SectionEntry load_section(const std::byte* p) noexcept {
  return {load<std::uint32_t>(p), load<std::uint32_t>(p + 4),
          load<std::uint64_t>(p + 8), load<std::uint64_t>(p + 16),
          load<std::uint64_t>(p + 24)};
}

std::uint64_t trailer_check(Bytes header, Bytes trailer) noexcept {
  std::byte both[kHeaderBytes + offsetof(disk::Trailer, check)];
  std::memcpy(both, header.data(), kHeaderBytes);
  std::memcpy(both + kHeaderBytes, trailer.data(), offsetof(disk::Trailer, check));
  return xxh3_64(both);
}

Status check_header(Bytes bytes, std::uint64_t file_size, const ViewOptions& options,
                    ByteOrder order) {
  if (std::min<std::uint64_t>(file_size, bytes.size()) < kHeaderBytes)
    return corrupt(0, "the file is shorter than a header")
        .found(std::to_string(file_size) + " bytes")
        .expected("at least 64 bytes");
  const disk::Header header = load_header(bytes, order);
  if (header.magic == disk::kSwappedMagic)
    return unsupported(0, "the file is big-endian")
        .hint("Model::open swaps it while loading, 'weig convert' for good");
  if (header.magic != disk::kMagic)
    return corrupt(0, "not a WEIG file")
        .found(hex(header.magic))
        .expected(hex(disk::kMagic));
  if (header.version != disk::kVersion)
    return unsupported(4, "the format's version")
        .found(header.version)
        .expected(disk::kVersion)
        .hint("a newer weig may read it");
  if (header.file_size != file_size)
    return corrupt(offsetof(disk::Header, file_size), "the file's size")
        .found(std::to_string(file_size) + " bytes")
        .expected(std::to_string(header.file_size) + " bytes, by its header")
        .hint(file_size < header.file_size
                  ? "the file was cut: copy or download it again"
                  : "bytes follow the end: if the file was only padded, 'head -c " +
                        std::to_string(header.file_size) +
                        " FILE >COPY' makes a sound one");
  if (header.file_size >> 63)
    return corrupt(offsetof(disk::Header, file_size), "file_size is above 2^63");
  if (order == ByteOrder::big && header.flags != 0)
    return unsupported(offsetof(disk::Header, flags), "a big-endian file with flags")
        .found(hex(header.flags))
        .hint("sealed files are little-endian on every host");
  return check_flags(header, options);
}

namespace {

// Whoever mapped or read the front went by the header as it was then.
Status check_front(const disk::Header& header, Bytes front) {
  if (header.data_offset > front.size())
    return corrupt(offsetof(disk::Header, data_offset),
                   "the file was changed while it was opened");
  return {};
}

}  // namespace

Result<detail::Claim> claim_file(const FileParts& parts, const ViewOptions& options) {
  const Ends ends(parts);
  if (auto status =
          check_header(ends.header_bytes(), parts.file_size, options, parts.order);
      !status)
    return std::move(status).error();
  const disk::Header header = load_header(ends.header, parts.order);
  const bool sealed = (header.flags & disk::kFlagSealed) != 0;
  if (sealed) {
    if (auto status = check_trailer(ends, parts.file_size, header); !status)
      return std::move(status).error();
  } else if (header.section_offset != 0 || header.section_count != 0) {
    return corrupt(offsetof(disk::Header, section_offset),
                   "reserved fields of a minimal file")
        .found(hex(header.section_offset | header.section_count))
        .expected("0");
  }
  if (auto status = check_places(header, sealed); !status)
    return std::move(status).error();
  if (auto status = check_front(header, parts.front); !status)
    return std::move(status).error();

  detail::Claim claim;
  claim.core = parts.front.data();
  claim.data = parts.data;
  claim.file_size = header.file_size;
  claim.tensor_count = header.tensor_count;
  claim.meta_offset = header.meta_offset;
  claim.strings_begin =
      header.meta_offset + header.tensor_count * sizeof(disk::TensorMeta);
  claim.strings_end = sealed ? header.section_offset : header.data_offset;
  claim.data_begin = header.data_offset;
  claim.data_end = sealed ? header.file_size - kTrailerBytes : header.file_size;
  claim.sealed = sealed;
  claim.big_endian = parts.order == ByteOrder::big;
  claim.foreign_order = parts.order != kNativeOrder;
  if (!sealed) return claim;

  const disk::Trailer trailer = load_trailer(ends.trailer);
  claim.file_id = {trailer.file_id_low, trailer.file_id_high};
  claim.sections_begin = header.section_offset;
  claim.core_end =
      header.section_offset + header.section_count * sizeof(disk::SectionEntry);
  if (auto status = check_section_table(parts.front, header, claim); !status)
    return std::move(status).error();
  return claim;
}

}  // namespace weig
