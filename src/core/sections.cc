// SPDX-License-Identifier: Apache-2.0
// The layout of sections 2 to 7: what each must look like, and reading it.
#include <cstring>

#include "core/claim.h"
#include "core/text.h"
#include "core/try.h"

namespace weig {
namespace {

constexpr std::uint64_t kListHead = 8;  // u32 n, u32 0: sections 5 and 6

Error bad(std::string_view section, std::string what) {
  return Error(Code::corrupt,
               "the " + std::string(section) + " section: " + std::move(what));
}

struct ListHead {
  std::uint32_t count = 0;
  std::uint32_t zero = 0;
};
ListHead load_list_head(Bytes bytes) {
  return {load<std::uint32_t>(bytes.data()), load<std::uint32_t>(bytes.data() + 4)};
}

disk::GroupEntry load_group(Bytes section, std::uint64_t i) {
  const std::byte* at = section.data() + kListHead + i * sizeof(disk::GroupEntry);
  return {load<std::uint64_t>(at), load<std::uint32_t>(at + 8),
          load<std::uint32_t>(at + 12)};
}

disk::QuantizationEntry load_quantization(Bytes section, std::uint64_t i) {
  const std::byte* at =
      section.data() + kListHead + i * sizeof(disk::QuantizationEntry);
  return {load<std::uint32_t>(at),      load<std::uint32_t>(at + 4),
          load<std::uint32_t>(at + 8),  load<std::uint32_t>(at + 12),
          load<std::uint32_t>(at + 16), load<std::uint32_t>(at + 20),
          load<std::uint32_t>(at + 24), load<std::uint32_t>(at + 28)};
}

disk::Shard load_shard(Bytes section) {
  const std::byte* at = section.data();
  return {load<std::uint64_t>(at), load<std::uint64_t>(at + 8),
          load<std::uint32_t>(at + 16), load<std::uint32_t>(at + 20),
          load<std::uint64_t>(at + 24)};
}

// The name of a group, or nothing where it has no end inside the section.
std::optional<std::string_view> group_name(Bytes section, std::uint64_t offset) {
  if (offset >= section.size()) return std::nullopt;
  const std::string_view text = text_of(section.subspan(offset));
  const std::size_t end = text.find('\0');
  if (end == text.npos) return std::nullopt;
  return text.substr(0, end);
}

Status check_metadata(Bytes bytes, const ViewOptions& options) {
  if (bytes.size() > options.max_metadata_bytes)
    return Error(Code::limit, "the metadata is larger than allowed")
        .found(std::to_string(bytes.size()) + " bytes")
        .expected("at most " + std::to_string(options.max_metadata_bytes))
        .hint("max_metadata_bytes raises it");
  const std::string_view text = text_of(bytes);
  if (!text.starts_with('{') || !text.ends_with('}'))
    return bad("metadata", "not a JSON object");
  if (!is_utf8(text)) return bad("metadata", "not UTF-8");
  return {};
}

Status check_source(Bytes bytes, std::uint64_t tensor_count, bool sharded) {
  const auto format = load<std::uint32_t>(bytes.data());
  const auto encoding = load<std::uint32_t>(bytes.data() + 4);
  const auto header_size = load<std::uint64_t>(bytes.data() + 16);
  const std::uint64_t body = bytes.size() - sizeof(disk::SourceHead);
  if (format != 1 && format != 2)
    return Error(Code::unsupported, "the source section: its format")
        .found(format)
        .expected("1 (safetensors) or 2 (GGUF)");
  if (encoding == 0) {
    if (body != header_size)
      return bad("source", "its size differs from the header it holds")
          .found(body)
          .expected(header_size);
    return {};
  }
  if (encoding != 1 || format != 1)
    return Error(Code::unsupported, "the source section: its encoding")
        .found(encoding)
        .expected("0, or 1 for safetensors");
  if (body % 4 != 0 || (!sharded && body / 4 != tensor_count))
    return bad("source", "its number of ordinals")
        .found(std::to_string(body) + " bytes")
        .expected("4 x " + std::to_string(tensor_count));
  if (sharded) return {};
  for (std::uint64_t at = sizeof(disk::SourceHead); at < bytes.size(); at += 4)
    if (load<std::uint32_t>(bytes.data() + at) >= tensor_count)
      return bad("source", "an ordinal past the table")
          .found(load<std::uint32_t>(bytes.data() + at))
          .expected("below " + std::to_string(tensor_count));
  return {};
}

// The head of sections 5 and 6: how many entries follow, each of `entry_bytes`. There
// is room for so many; the count is not read again, for the file may change meanwhile.
Result<std::uint64_t> check_list(std::string_view name, Bytes bytes,
                                 std::uint64_t entry_bytes) {
  const ListHead head = load_list_head(bytes);
  if (head.zero != 0)
    return bad(name, "the field after the count").found(head.zero).expected("0");
  if (head.count > (bytes.size() - kListHead) / entry_bytes)
    return bad(name, "more entries than it has room for").found(head.count);
  return std::uint64_t{head.count};
}

Status check_groups(Bytes bytes, std::uint64_t tensor_count) {
  WEIG_TRY_ASSIGN(count, check_list("groups", bytes, sizeof(disk::GroupEntry)));
  std::uint64_t names = kListHead + count * sizeof(disk::GroupEntry);
  std::uint64_t end = 0;
  for (std::uint64_t i = 0; i < count; ++i) {
    const disk::GroupEntry entry = load_group(bytes, i);
    const auto name = group_name(bytes, entry.name_offset);
    if (entry.name_offset < names || !name)
      return bad("groups", "a name lies outside it or within the one before")
          .found(entry.name_offset)
          .expected("at or after " + std::to_string(names));
    names = entry.name_offset + name->size() + 1;
    if (!is_utf8(*name))
      return bad("groups", "a name is not UTF-8").found(in_quotes(*name));
    if (entry.count == 0 || entry.first < end ||
        !fits(entry.first, entry.count, tensor_count))
      return bad("groups", "group " + in_quotes(*name) +
                               " is empty, out of order, overlaps "
                               "another or leaves the table")
          .found(std::to_string(entry.count) + " tensors from " +
                 std::to_string(entry.first))
          .expected("inside [" + std::to_string(end) + ", " +
                    std::to_string(tensor_count) + ")");
    end = std::uint64_t{entry.first} + entry.count;
  }
  return {};
}

// One entry against the table; `rank` is that of its tensor.
Status check_quantization(const disk::QuantizationEntry& entry, std::uint32_t rank,
                          std::uint64_t tensor_count) {
  if (entry.zero != 0)
    return bad("quantization", "the last field").found(entry.zero).expected("0");
  if (entry.scheme != 1) return {};  // listed, not understood
  if (entry.axis != disk::kNone && entry.axis >= rank)
    return bad("quantization", "the axis")
        .found(entry.axis)
        .expected("below the rank, " + std::to_string(rank));
  if (entry.axis == disk::kNone && entry.block != 0)
    return bad("quantization", "blocks without an axis").found(entry.block);
  if (entry.scale >= tensor_count)
    return bad("quantization", "the scale's ordinal").found(entry.scale);
  for (const std::uint32_t ordinal : {entry.zero_point, entry.scale2})
    if (ordinal != disk::kNone && ordinal >= tensor_count)
      return bad("quantization", "a parameter's ordinal").found(ordinal);
  return {};
}

Status check_shard(Bytes bytes, std::uint64_t tensor_count) {
  const disk::Shard shard = load_shard(bytes);
  if (shard.index >= shard.count)
    return bad("shard", "its index")
        .found(shard.index)
        .expected("below " + std::to_string(shard.count));
  if (shard.tensors < tensor_count)
    return bad("shard", "the tensors of the set")
        .found(shard.tensors)
        .expected("at least " + std::to_string(tensor_count));
  return {};
}

}  // namespace

Status View::check_size(disk::SectionKind kind, Bytes bytes) const {
  const auto exactly = [&](std::string_view name, std::uint64_t size) -> Status {
    if (bytes.size() == size) return {};
    return bad(name, "its size").found(bytes.size()).expected(size);
  };
  const auto at_least = [&](std::string_view name, std::uint64_t size) -> Status {
    if (bytes.size() >= size) return {};
    return bad(name, "its size")
        .found(bytes.size())
        .expected("at least " + std::to_string(size));
  };
  using Kind = disk::SectionKind;
  switch (kind) {
    case Kind::digests:
      return exactly("digests", claim_.tensor_count * sizeof(Digest));
    case Kind::source:
      return at_least("source", sizeof(disk::SourceHead));
    case Kind::groups:
      return at_least("groups", kListHead);
    case Kind::quantization:
      return at_least("quantization", kListHead);
    case Kind::shard:
      return exactly("shard", sizeof(disk::Shard));
    case Kind::name_index:  // proven at open
    case Kind::metadata:
      break;
  }
  return {};
}

Status View::check_layout(disk::SectionKind kind, Bytes bytes) const {
  using Kind = disk::SectionKind;
  switch (kind) {
    case Kind::name_index:  // its head is proven at open, its slots by F4
    case Kind::digests:     // its size is all there is to it
      return {};
    case Kind::metadata:
      return check_metadata(bytes, options_);
    case Kind::source: {
      WEIG_TRY_ASSIGN(member, shard());
      return check_source(bytes, claim_.tensor_count, member.has_value());
    }
    case Kind::groups:
      return check_groups(bytes, claim_.tensor_count);
    case Kind::quantization: {
      WEIG_TRY_ASSIGN(
          count, check_list("quantization", bytes, sizeof(disk::QuantizationEntry)));
      if (bytes.size() != kListHead + count * sizeof(disk::QuantizationEntry))
        return bad("quantization", "its size")
            .found(bytes.size())
            .expected(kListHead + count * sizeof(disk::QuantizationEntry));
      for (std::uint64_t i = 0; i < count; ++i) {
        const disk::QuantizationEntry entry = load_quantization(bytes, i);
        if (i > 0 && entry.tensor <= load_quantization(bytes, i - 1).tensor)
          return bad("quantization", "tensors are not in ascending order")
              .found(entry.tensor);
        if (entry.tensor >= claim_.tensor_count)
          return bad("quantization", "the tensor's ordinal").found(entry.tensor);
        WEIG_TRY_ASSIGN(tensor, (*this)[entry.tensor]);
        WEIG_TRY(check_quantization(entry, tensor.rank(), claim_.tensor_count));
      }
      return {};
    }
    case Kind::shard:
      return check_shard(bytes, claim_.tensor_count);
  }
  return {};  // a kind that is only carried
}

Group Groups::operator[](std::uint32_t i) const noexcept {
  const disk::GroupEntry entry = load_group(section_, i);
  const auto name = group_name(section_, entry.name_offset);
  if (!name || !fits(entry.first, entry.count, tensor_count_)) return {};
  return {*name, entry.first, entry.count};
}

Result<Groups> View::groups() const& {
  WEIG_TRY_ASSIGN(bytes, section(disk::SectionKind::groups));
  Groups groups;
  if (!bytes) return groups;
  groups.section_ = *bytes;
  groups.tensor_count_ = claim_.tensor_count;
  // Read again from the file: bounded by the section's room, as at the check.
  groups.count_ = static_cast<std::uint32_t>(
      std::min<std::uint64_t>(load_list_head(*bytes).count,
                              (bytes->size() - kListHead) / sizeof(disk::GroupEntry)));
  return groups;
}

Result<std::optional<Digest>> View::digest(std::uint32_t ordinal) const {
  WEIG_TRY_ASSIGN(bytes, section(disk::SectionKind::digests));
  if (!bytes) return std::optional<Digest>();
  if (ordinal >= claim_.tensor_count)
    return Error(Code::invalid_argument, "no tensor has this ordinal").found(ordinal);
  const std::byte* at = bytes->data() + std::uint64_t{ordinal} * sizeof(Digest);
  return std::optional(Digest{load<std::uint64_t>(at), load<std::uint64_t>(at + 8)});
}

Result<std::optional<std::string_view>> View::metadata_text() const& {
  WEIG_TRY_ASSIGN(bytes, section(disk::SectionKind::metadata));
  if (!bytes) return std::optional<std::string_view>();
  return std::optional(text_of(*bytes));
}

Result<std::optional<SourceHeader>> View::source() const& {
  WEIG_TRY_ASSIGN(bytes, section(disk::SectionKind::source));
  if (!bytes) return std::optional<SourceHeader>();
  const std::byte* at = bytes->data();
  return std::optional(SourceHeader{
      .format = static_cast<SourceHeader::Format>(load<std::uint32_t>(at)),
      .encoding = static_cast<SourceHeader::Encoding>(load<std::uint32_t>(at + 4)),
      .file_size = load<std::uint64_t>(at + 8),
      .header_size = load<std::uint64_t>(at + 16),
      .digest = {load<std::uint64_t>(at + 24), load<std::uint64_t>(at + 32)},
      .body = bytes->subspan(sizeof(disk::SourceHead))});
}

Result<std::optional<Shard>> View::shard() const {
  WEIG_TRY_ASSIGN(bytes, section(disk::SectionKind::shard));
  if (!bytes) return std::optional<Shard>();
  return std::optional(load_shard(*bytes));
}

Result<std::uint32_t> View::quantization_count() const {
  WEIG_TRY_ASSIGN(bytes, section(disk::SectionKind::quantization));
  return bytes ? load_list_head(*bytes).count : 0u;
}

Result<Quantization> View::quantization(std::uint32_t i) const {
  WEIG_TRY_ASSIGN(bytes, section(disk::SectionKind::quantization));
  if (!bytes || i >= (bytes->size() - kListHead) / sizeof(disk::QuantizationEntry))
    return Error(Code::invalid_argument, "no quantization entry has this index")
        .found(i);
  return load_quantization(*bytes, i);
}

}  // namespace weig
