// SPDX-License-Identifier: Apache-2.0
#include "core/layout.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <string>
#include <unordered_map>

#include "core/claim.h"
#include "core/digest.h"
#include "core/index.h"
#include "core/record.h"
#include "core/text.h"
#include "core/try.h"

namespace weig {
namespace {

constexpr std::uint64_t kMaxFileBytes = std::uint64_t{1} << 63;

Error refused(std::string_view name, std::string what) {
  return Error(Code::invalid_argument, std::move(what)).tensor(name);
}

Result<std::uint64_t> checked_size(const TensorSpec& spec) {
  if (spec.name.size() > disk::kMaxNameBytes)
    return refused(spec.name, "the name is too long")
        .found(std::to_string(spec.name.size()) + " bytes")
        .expected("at most 65535");
  if (spec.name.find('\0') != spec.name.npos)
    return refused(spec.name, "the name holds a NUL character");
  if (!is_utf8(spec.name)) return refused(spec.name, "the name is not UTF-8");
  const DtypeInfo* info = dtype_info(spec.dtype);
  if (!info) return refused(spec.name, "unknown element type");
  if (spec.shape.size() > disk::kMaxRank)
    return refused(spec.name, "the rank")
        .found(spec.shape.size())
        .expected("at most 64");
  const Implied implied = implied_bytes(*info, spec.shape);
  if (implied.rule != Rule::none) return refused(spec.name, rule_text(implied.rule));
  return implied.bytes;
}

// Natural order, aliases right behind their owners.
Result<std::vector<std::uint32_t>> table_order(std::span<const TensorSpec> specs) {
  std::vector<std::uint32_t> sorted(specs.size());
  std::iota(sorted.begin(), sorted.end(), 0);
  std::ranges::sort(sorted, [&](std::uint32_t a, std::uint32_t b) {
    return natural_compare(specs[a].name, specs[b].name) < 0;
  });
  for (std::size_t i = 1; i < sorted.size(); ++i)
    if (specs[sorted[i]].name == specs[sorted[i - 1]].name)
      return refused(specs[sorted[i]].name, "two tensors have the same name");

  std::unordered_map<std::uint32_t, std::vector<std::uint32_t>> shared;
  for (const std::uint32_t i : sorted)
    if (specs[i].shares != TensorSpec::kOwn) shared[specs[i].shares].push_back(i);
  if (shared.empty()) return sorted;

  std::vector<std::uint32_t> order;
  order.reserve(sorted.size());
  for (const std::uint32_t i : sorted) {
    if (specs[i].shares == TensorSpec::kOwn) {
      order.push_back(i);
    } else if (const auto& set = shared[specs[i].shares]; set.front() == i) {
      order.insert(order.end(), set.begin(), set.end());
    }
  }
  return order;
}

struct ShapeEqual {
  bool operator()(std::span<const std::uint64_t> a,
                  std::span<const std::uint64_t> b) const noexcept {
    return std::ranges::equal(a, b);
  }
};

void append(std::vector<std::byte>& out, Bytes bytes) {
  out.insert(out.end(), bytes.begin(), bytes.end());
}
void append_u32(std::vector<std::byte>& out, std::uint32_t value) {
  out.resize(out.size() + sizeof value);
  store(out.data() + out.size() - sizeof value, value);
}
void append_u64(std::vector<std::byte>& out, std::uint64_t value) {
  out.resize(out.size() + sizeof value);
  store(out.data() + out.size() - sizeof value, value);
}
void pad_to(std::vector<std::byte>& out, std::uint64_t alignment) {
  out.resize(align_up(out.size(), alignment));
}

std::vector<std::byte> groups_section(std::span<const Plan::Run> groups) {
  std::vector<std::byte> out;
  append_u32(out, static_cast<std::uint32_t>(groups.size()));
  append_u32(out, 0);
  std::uint64_t name_at = 8 + groups.size() * sizeof(disk::GroupEntry);
  for (const Plan::Run& group : groups) {
    append_u64(out, name_at);
    append_u32(out, group.first);
    append_u32(out, group.count);
    name_at += group.name.size() + 1;
  }
  for (const Plan::Run& group : groups) {
    append(out, bytes_of(group.name));
    out.push_back(std::byte{0});
  }
  return out;
}

// All sections of a file, in order of kind. Digests are there as zeros.
Result<std::vector<SectionBytes>> all_sections(std::span<const TensorSpec> specs,
                                               const Plan& plan,
                                               std::span<const SectionBytes> given) {
  using Kind = disk::SectionKind;
  std::vector<SectionBytes> sections(given.begin(), given.end());
  for (const SectionBytes& section : sections)
    if (section.kind == Kind::name_index || section.kind == Kind::digests ||
        section.kind == Kind::groups)
      return Error(Code::invalid_argument, "this section is the Writer's own")
          .found(static_cast<std::uint32_t>(section.kind));
  if (plan.size() > 0) {
    std::vector<std::string_view> names;
    names.reserve(plan.size());
    for (const std::uint32_t i : plan.order()) names.push_back(specs[i].name);
    WEIG_TRY_ASSIGN(index, build_index(names));
    sections.push_back({Kind::name_index, std::move(index)});
    sections.push_back(
        {Kind::digests, std::vector<std::byte>(plan.size() * sizeof(Digest))});
  }
  if (!plan.groups().empty())
    sections.push_back({Kind::groups, groups_section(plan.groups())});
  std::ranges::sort(sections, {}, &SectionBytes::kind);
  for (std::size_t i = 1; i < sections.size(); ++i)
    if (sections[i].kind == sections[i - 1].kind)
      return Error(Code::invalid_argument, "a section is given twice")
          .found(static_cast<std::uint32_t>(sections[i].kind));
  return sections;
}

}  // namespace

std::uint64_t layout_alignment(std::uint64_t size) noexcept {
  for (const std::uint64_t alignment :
       {std::uint64_t{2} << 20, std::uint64_t{64} << 10, std::uint64_t{4} << 10})
    if (alignment <= size / 32) return alignment;
  return disk::kDataAlignment;
}

std::size_t group_name_length(std::string_view name) noexcept {
  std::size_t begin = 0;
  for (;;) {
    const std::size_t dot = name.find('.', begin);
    if (dot == name.npos) return 0;
    const std::string_view component = name.substr(begin, dot - begin);
    if (!component.empty() &&
        component.find_first_not_of("0123456789") == component.npos)
      return dot;
    begin = dot + 1;
  }
}

Result<Plan> Plan::make(std::span<const TensorSpec> specs) {
  if (specs.size() > disk::kMaxTensors)
    return Error(Code::limit, "too many tensors").found(specs.size());
  Plan plan;
  WEIG_TRY_ASSIGN(order, table_order(specs));
  plan.order_ = std::move(order);
  plan.places_.resize(specs.size());

  std::uint64_t position = 0;  // checked below: one overflow anywhere is enough
  const auto grow_to = [](std::uint64_t at, std::uint64_t alignment,
                          std::uint64_t size) -> std::uint64_t {
    const std::uint64_t end = align_up(at, alignment) + size;
    return at >= kMaxFileBytes || end >= kMaxFileBytes ? kMaxFileBytes : end;
  };
  const auto count = static_cast<std::uint32_t>(specs.size());
  const auto spec_at = [&](std::uint32_t ordinal) -> const TensorSpec& {
    return specs[plan.order_[ordinal]];
  };
  std::uint32_t ordinal = 0;
  while (ordinal < count) {
    // A run: one loose owner or all owners of one group, each with its aliases.
    const std::uint32_t first = ordinal;
    const std::size_t group = group_name_length(spec_at(first).name);
    const std::string_view group_name = spec_at(first).name.substr(0, group);
    std::uint64_t end = 0;  // from the start of the run
    while (ordinal < count) {
      const TensorSpec& spec = spec_at(ordinal);
      Place& place = plan.places_[ordinal];
      WEIG_TRY_ASSIGN(size, checked_size(spec));
      place.size = size;
      place.alias = ordinal > 0 && spec.shares != TensorSpec::kOwn &&
                    spec_at(ordinal - 1).shares == spec.shares;
      if (place.alias) {
        if (size == 0 || size != plan.places_[ordinal - 1].size)
          return refused(spec.name,
                         "tensors that share bytes differ in size or are empty")
              .found(size)
              .expected(plan.places_[ordinal - 1].size);
        place.offset = plan.places_[ordinal - 1].offset;
      } else {
        if (ordinal > first && (group == 0 || group_name_length(spec.name) != group ||
                                spec.name.substr(0, group) != group_name))
          break;
        place.offset = align_up(end, layout_alignment(size));
        end = grow_to(end, layout_alignment(size), size);
      }
      ++ordinal;
    }
    const std::uint64_t alignment = layout_alignment(end);
    const std::uint64_t start = align_up(position, alignment);
    for (std::uint32_t i = first; i < ordinal; ++i) plan.places_[i].offset += start;
    plan.data_bytes_ = grow_to(position, alignment, end);
    position = plan.data_bytes_;
    if (group != 0) {
      plan.groups_.push_back({group_name, first, ordinal - first});
      position = grow_to(position, alignment, 0);
    }
    if (position >= kMaxFileBytes)
      return Error(Code::limit, "the file would reach 2^63 bytes");
  }
  return plan;
}

Result<Front> build_front(std::span<const TensorSpec> specs, const Plan& plan,
                          std::span<const SectionBytes> given) {
  WEIG_TRY_ASSIGN(sections, all_sections(specs, plan, given));
  const std::uint64_t count = plan.size();
  Front front;
  std::vector<std::byte>& out = front.bytes;

  const std::uint64_t names_at =
      sizeof(disk::Header) + count * sizeof(disk::TensorMeta);
  out.resize(names_at);
  for (const std::uint32_t i : plan.order()) {
    append(out, bytes_of(specs[i].name));
    out.push_back(std::byte{0});
  }
  pad_to(out, 8);
  std::unordered_map<std::span<const std::uint64_t>, std::uint64_t, SeededHash,
                     ShapeEqual>
      shape_at;
  for (const std::uint32_t i : plan.order()) {
    const auto shape = specs[i].shape;
    if (shape.empty() || !shape_at.emplace(shape, out.size()).second) continue;
    for (const std::uint64_t dimension : shape) append_u64(out, dimension);
  }

  const std::uint64_t section_offset = out.size();
  out.resize(section_offset + sections.size() * sizeof(disk::SectionEntry));
  for (std::size_t i = 0; i < sections.size(); ++i) {
    pad_to(out, disk::kSectionAlignment);
    std::byte* entry = out.data() + section_offset + i * sizeof(disk::SectionEntry);
    store(entry, static_cast<std::uint32_t>(sections[i].kind));
    store(entry + 8, std::uint64_t{out.size()});
    store(entry + 16, std::uint64_t{sections[i].bytes.size()});
    if (sections[i].kind == disk::SectionKind::digests)
      front.digests_offset = out.size();
    append(out, sections[i].bytes);
    sections[i].bytes = {};
  }
  pad_to(out, std::max(disk::kDataStartAlignment, layout_alignment(plan.data_bytes())));

  front.data_offset = out.size();
  // Both are below 2^63: the plan's bytes by Plan::make(), the front as it is in
  // memory.
  const std::uint64_t end = front.data_offset + plan.data_bytes();
  if (end >= kMaxFileBytes - 2 * sizeof(disk::Trailer))
    return Error(Code::limit, "the file would reach 2^63 bytes");
  front.file_size = align_up(end, disk::kDataAlignment) + sizeof(disk::Trailer);

  std::byte* header = out.data();
  store(header, disk::kMagic);
  store(header + 4, disk::kVersion);
  store(header + 8, count);
  store(header + 16, std::uint64_t{sizeof(disk::Header)});
  store(header + 24, front.data_offset);
  store(header + 32, front.file_size);
  store(header + 40, disk::kFlagSealed | disk::kFlagSections);
  store(header + 48, section_offset);
  store(header + 56, std::uint64_t{sections.size()});

  std::uint64_t name_at = names_at;
  for (std::uint32_t ordinal = 0; ordinal < count; ++ordinal) {
    const TensorSpec& spec = specs[plan.order()[ordinal]];
    std::byte* meta =
        out.data() + sizeof(disk::Header) + ordinal * sizeof(disk::TensorMeta);
    store(meta, name_at);
    store(meta + 8, static_cast<std::uint32_t>(spec.dtype));
    store(meta + 16, spec.shape.empty() ? 0 : shape_at.find(spec.shape)->second);
    store(meta + 24, std::uint64_t{spec.shape.size()});
    store(meta + 32, front.data_offset + plan.offset(ordinal));
    store(meta + 40, plan.byte_count(ordinal));
    name_at += spec.name.size() + 1;
  }
  return front;
}

std::array<std::byte, sizeof(disk::Trailer)> seal(Front& front,
                                                  std::span<const Digest> digests) {
  for (std::size_t i = 0; i < digests.size(); ++i) {
    std::byte* at = front.bytes.data() + front.digests_offset + i * sizeof(Digest);
    store(at, digests[i].low);
    store(at + 8, digests[i].high);
  }
  const disk::Header header = load_header(front.bytes);
  const std::uint64_t core_end =
      header.section_offset + header.section_count * sizeof(disk::SectionEntry);
  for (std::uint64_t at = header.section_offset; at < core_end;
       at += sizeof(disk::SectionEntry)) {
    const disk::SectionEntry entry = load_section(front.bytes.data() + at);
    store(front.bytes.data() + at + 24,
          xxh3_64(Bytes(front.bytes).subspan(entry.offset, entry.size)));
  }
  const Digest file_id = xxh3_128(Bytes(front.bytes).first(core_end));

  std::array<std::byte, sizeof(disk::Trailer)> trailer{};
  std::memcpy(trailer.data(), disk::kSentinel, sizeof disk::kSentinel);
  store(trailer.data() + 8, header.file_size);
  store(trailer.data() + 16, file_id.low);
  store(trailer.data() + 24, file_id.high);
  store(trailer.data() + 32, disk::kVersion);
  store(trailer.data() + 36, disk::kWriterRevision);
  store(trailer.data() + 56, trailer_check(front.bytes, trailer));
  return trailer;
}

}  // namespace weig
