// SPDX-License-Identifier: Apache-2.0
#include "fields.h"

#include <algorithm>

#include "core/claim.h"
#include "core/digest.h"
#include "core/index.h"
#include "core/record.h"
#include "image.h"

namespace weig::fuzz {
namespace {

// More are not looked at: a hostile count must not cost time.
constexpr std::uint64_t kMaxRecords = 64;
constexpr std::uint64_t kMaxSections = 32;
constexpr std::uint64_t kMaxWords = 24;  // of one section

bool has_header(Bytes file) { return file.size() >= sizeof(disk::Header); }

bool is_sealed(const disk::Header& header) {
  return (header.flags & disk::kFlagSealed) != 0;
}

class FieldList {
 public:
  explicit FieldList(Bytes file) : file_(file) {}
  void add(std::uint64_t at, std::uint32_t width) {
    if (fits(at, width, file_.size())) fields.push_back({at, width});
  }
  std::vector<Field> fields;

 private:
  Bytes file_;
};

void add_record(FieldList& list, Bytes file, std::uint64_t at, ByteOrder order) {
  for (const std::uint32_t field : {0u, 16u, 24u, 32u, 40u}) list.add(at + field, 8);
  list.add(at + 8, 4);
  list.add(at + 12, 4);
  const disk::TensorMeta meta = load_meta(file.data() + at, order);
  if (!fits(meta.name_offset, 1, file.size())) return;
  list.add(meta.name_offset, 1);
  const Bytes name = file.subspan(meta.name_offset);
  list.add(meta.name_offset + static_cast<std::uint64_t>(
                                  std::ranges::find(name, std::byte{0}) - name.begin()),
           1);
  if (!fits(meta.shape_offset, 8, file.size())) return;
  for (std::uint64_t d = 0; d < std::min<std::uint64_t>(meta.shape_count, 4); ++d)
    list.add(meta.shape_offset + 8 * d, 8);
}

void add_sections(FieldList& list, Bytes file, const disk::Header& header) {
  const std::uint64_t count = std::min(header.section_count, kMaxSections);
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::uint64_t at = header.section_offset + i * sizeof(disk::SectionEntry);
    if (!fits(at, sizeof(disk::SectionEntry), file.size())) return;
    list.add(at, 4);
    list.add(at + 4, 4);
    list.add(at + 8, 8);
    list.add(at + 16, 8);
    const disk::SectionEntry entry = load_section(file.data() + at);
    if (!fits(entry.offset, entry.size, file.size())) continue;
    for (std::uint64_t word = 0; word < std::min(entry.size / 4, kMaxWords); ++word)
      list.add(entry.offset + 4 * word, 4);
    if (entry.size > 0) list.add(entry.offset + entry.size - 1, 1);
    if (entry.size > 1) list.add(entry.offset + entry.size / 2, 1);
  }
}

template <typename F>
void for_each_record(Bytes file, const disk::Header& header, ByteOrder order, F use) {
  const std::uint64_t count = std::min(header.tensor_count, kMaxRecords);
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::uint64_t at = header.meta_offset + i * sizeof(disk::TensorMeta);
    if (at < header.meta_offset || !fits(at, sizeof(disk::TensorMeta), file.size()))
      return;
    use(i, at, load_meta(file.data() + at, order));
  }
}

// Bytes of a section of this kind, or none.
MutableBytes section_of(MutableBytes file, disk::SectionKind kind) {
  const disk::Header header = load_header(file);
  for (std::uint64_t i = 0; i < std::min(header.section_count, kMaxSections); ++i) {
    const std::uint64_t at = header.section_offset + i * sizeof(disk::SectionEntry);
    if (!fits(at, sizeof(disk::SectionEntry), file.size())) break;
    const disk::SectionEntry entry = load_section(file.data() + at);
    if (entry.kind == static_cast<std::uint32_t>(kind) &&
        fits(entry.offset, entry.size, file.size()))
      return file.subspan(entry.offset, entry.size);
  }
  return {};
}

void repair_index(MutableBytes file) {
  std::vector<std::string_view> names;
  const disk::Header header = load_header(file);
  for_each_record(file, header, ByteOrder::little, [&](auto, auto, const auto& meta) {
    if (meta.name_offset >= file.size()) return;
    const std::string_view text = text_of(Bytes(file).subspan(meta.name_offset));
    names.push_back(text.substr(0, text.find('\0')));
  });
  if (names.size() != header.tensor_count) return;
  const auto index = build_index(names);
  const MutableBytes section = section_of(file, disk::SectionKind::name_index);
  // Names may lie inside the very bytes that are written: no harm, they are bytes.
  if (index && index->size() == section.size())
    std::ranges::copy(*index, section.begin());
}

void repair_digests(MutableBytes file) {
  const MutableBytes section = section_of(file, disk::SectionKind::digests);
  for_each_record(file, load_header(file), ByteOrder::little,
                  [&](std::uint64_t i, auto, const disk::TensorMeta& meta) {
                    if (!fits(meta.data_offset, meta.data_size, file.size())) return;
                    if (!fits(i * sizeof(Digest), sizeof(Digest), section.size()))
                      return;
                    const Digest digest =
                        xxh3_128(Bytes(file).subspan(meta.data_offset, meta.data_size));
                    store(section.data() + i * sizeof(Digest), digest.low);
                    store(section.data() + i * sizeof(Digest) + 8, digest.high);
                  });
}

}  // namespace

ByteOrder byte_order(Bytes file) {
  return file.size() >= 4 && load<std::uint32_t>(file.data()) == disk::kSwappedMagic
             ? ByteOrder::big
             : ByteOrder::little;
}

std::vector<Field> fields_of(Bytes file) {
  FieldList list(file);
  if (!has_header(file)) return {};
  const ByteOrder order = byte_order(file);
  list.add(4, 4);
  for (std::uint64_t at = 8; at < sizeof(disk::Header); at += 8) list.add(at, 8);
  const disk::Header header = load_header(file, order);
  for_each_record(file, header, order, [&](auto, std::uint64_t at, const auto&) {
    add_record(list, file, at, order);
  });
  if (!is_sealed(header) || file.size() < sizeof(disk::Trailer)) return list.fields;
  add_sections(list, file, header);
  const std::uint64_t trailer = file.size() - sizeof(disk::Trailer);
  list.add(trailer, 1);
  for (const std::uint32_t field : {8u, 40u, 48u}) list.add(trailer + field, 8);
  for (const std::uint32_t field : {32u, 36u}) list.add(trailer + field, 4);
  return list.fields;
}

std::uint64_t get(Bytes file, Field field) {
  const std::byte* at = file.data() + field.at;
  if (field.width == 1) return std::to_integer<std::uint64_t>(*at);
  if (field.width == 4) return load_in<std::uint32_t>(at, byte_order(file));
  return load_in<std::uint64_t>(at, byte_order(file));
}

void set(MutableBytes file, Field field, std::uint64_t value) {
  const bool swap = byte_order(file) == ByteOrder::big;
  std::byte* at = file.data() + field.at;
  if (field.width == 1) {
    *at = static_cast<std::byte>(value);
  } else if (field.width == 4) {
    const auto word = static_cast<std::uint32_t>(value);
    store(at, swap ? byteswapped(word) : word);
  } else {
    store(at, swap ? byteswapped(value) : value);
  }
}

std::vector<std::uint64_t> edges_of(Bytes file) {
  std::vector<std::uint64_t> edges = {0,
                                      1,
                                      2,
                                      3,
                                      7,
                                      8,
                                      63,
                                      64,
                                      65,
                                      0xFF,
                                      256,
                                      257,
                                      4095,
                                      4096,
                                      0x1000 + 8,
                                      65'535,
                                      65'536,
                                      0x7FFFFFFF,
                                      0x80000000,
                                      0xFFFFFFFE,
                                      0xFFFFFFFF,
                                      std::uint64_t{1} << 32,
                                      std::uint64_t{1} << 56,
                                      (std::uint64_t{1} << 56) + 1,
                                      std::uint64_t{1} << 59,
                                      (std::uint64_t{1} << 63) - 1,
                                      std::uint64_t{1} << 63,
                                      UINT64_MAX - 63,
                                      UINT64_MAX};
  if (!has_header(file)) return edges;
  const disk::Header header = load_header(file, byte_order(file));
  const std::uint64_t size = file.size();
  for (const std::uint64_t place :
       {size, size - 64, header.data_offset, header.section_offset, header.meta_offset,
        header.meta_offset + header.tensor_count * sizeof(disk::TensorMeta),
        header.tensor_count})
    for (const std::uint64_t near : {place - 8, place - 1, place, place + 1, place + 8})
      edges.push_back(near);
  return edges;
}

void repair(Input& file, Repair what) {
  if (!has_header(file)) return;
  const ByteOrder order = byte_order(file);
  if (what.ends) set(file, {offsetof(disk::Header, file_size), 8}, file.size());
  const disk::Header header = load_header(file, order);
  if (order == ByteOrder::big || !is_sealed(header)) return;
  if (file.size() < sizeof(disk::Header) + sizeof(disk::Trailer)) return;
  if (header.section_count > 2 * disk::kMaxSections) return;  // costs time, is refused
  if (what.ends) {
    std::byte* trailer = file.data() + file.size() - sizeof(disk::Trailer);
    std::memcpy(trailer, disk::kSentinel, sizeof disk::kSentinel);
    store(trailer + 8, header.file_size);
    store(trailer + 32, header.version);
    store(trailer + 40, std::uint64_t{0});
    store(trailer + 48, std::uint64_t{0});
  }
  if (what.index) repair_index(file);
  if (what.digests) repair_digests(file);
  test::Image image;
  image.bytes = std::move(file);
  image.reseal();
  file = std::move(image.bytes);
}

}  // namespace weig::fuzz
