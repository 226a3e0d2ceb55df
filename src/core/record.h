// SPDX-License-Identifier: Apache-2.0
// One record of the tensor table, copied out of the file and proven: rules R1-R10.
//
// Each rule has one guard, here; what it says when it refuses is in record.cc. The
// guards are inline because the linear pass runs them for every tensor.
#pragma once

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>
#include <span>

#include <weig/view.h>

#include "core/bytes.h"
#include "core/text.h"

namespace weig {

// What was checked is what is used: nothing of it is read from the file again.
struct Record {
  disk::TensorMeta meta;
  std::string_view name;
  Shape shape;
};

// The rule that a record breaks.
enum class Rule {
  none,
  name_place,       // R1
  name_end,         // R1
  name_text,        // R1
  dtype,            // R2
  pad,              // R3
  rank,             // R4
  shape_place,      // R5
  shape_alignment,  // R5, sealed files
  elements,         // R6
  block_rank,       // R7
  block_row,        // R7
  data_size,        // R8
  data_place,       // R9
  data_alignment,   // R10, sealed files
};

// R6 - R8: the bytes that an element type and a shape imply, or the rule that they
// break. Requires a rank of at most kMaxRank.
struct Implied {
  std::uint64_t bytes = 0;
  Rule rule = Rule::none;
};
inline Implied implied_bytes(const DtypeInfo& info,
                             std::span<const std::uint64_t> shape) noexcept {
  std::uint64_t product = 1;
  bool empty = false;
  for (const std::uint64_t dimension : shape) {
    if (dimension == 0) {
      empty = true;
      continue;
    }
    std::uint64_t next = 0;
    if (__builtin_mul_overflow(product, dimension, &next) || next > disk::kMaxElements)
      return {0, Rule::elements};
    product = next;
  }
  if (info.is_block()) {
    if (shape.empty()) return {0, Rule::block_rank};
    if (shape.back() % info.block_elements != 0) return {0, Rule::block_row};
    // At most 2^56 elements, 292 bytes for 256 of them: no overflow.
    return {empty ? 0 : product / info.block_elements * info.block_bytes};
  }
  if (empty) return {};
  // At most 2^56 elements of 16 bytes: no overflow. Most types have one a block, and a
  // division is dear.
  if (info.block_elements == 1) return {product * info.block_bytes};
  return {(product * info.block_bytes + info.block_elements - 1) / info.block_elements};
}

inline disk::TensorMeta load_meta(const std::byte* p,
                                  ByteOrder order = ByteOrder::little) noexcept {
  if (order == ByteOrder::little && std::endian::native == std::endian::little) {
    disk::TensorMeta meta;
    std::memcpy(&meta, p, sizeof meta);
    return meta;
  }
  const auto u32 = [&](std::size_t at) {
    return load_in<std::uint32_t>(p + at, order);
  };
  const auto u64 = [&](std::size_t at) {
    return load_in<std::uint64_t>(p + at, order);
  };
  return {u64(0), u32(8), u32(12), u64(16), u64(24), u64(32), u64(40)};
}

// The length of a name that is plain ASCII and ends within `room` bytes, in one pass;
// kNotPlain where it is not, or does not. May read up to 7 bytes past `room`.
inline constexpr std::size_t kNotPlain = SIZE_MAX;
inline std::size_t ascii_name_length(const char* text, std::uint64_t room) noexcept {
  constexpr std::uint64_t kOnes = 0x0101010101010101;
  constexpr std::uint64_t kHighBits = 0x8080808080808080;
  for (std::size_t at = 0; at < room; at += sizeof(std::uint64_t)) {
    const auto eight =
        load<std::uint64_t>(reinterpret_cast<const std::byte*>(text + at));
    // A high bit for each zero byte; exact up to the first one, which is all we ask.
    const std::uint64_t zeros = (eight - kOnes) & ~eight & kHighBits;
    if (zeros == 0) {
      if (eight & kHighBits) return kNotPlain;
      continue;
    }
    const int bits = std::countr_zero(zeros);  // 8 x the place of the NUL, plus 7
    const std::uint64_t before = (std::uint64_t{1} << (bits - 7)) - 1;
    const std::size_t length = at + static_cast<std::size_t>(bits / 8);
    return (eight & before & kHighBits) || length >= room ? kNotPlain : length;
  }
  return kNotPlain;
}

// Reads a record and proves it; fills `record` as far as it is sound. Minimal files are
// spared the rules of alignment. Requires ordinal < tensor_count.
inline Rule read_record(const detail::Claim& claim, std::uint64_t ordinal,
                        UnknownDtypes unknown_dtypes, Record& record) noexcept {
  const ByteOrder order = claim.big_endian ? ByteOrder::big : ByteOrder::little;
  record.name = {};
  record.meta = load_meta(
      claim.core + claim.meta_offset + ordinal * sizeof(disk::TensorMeta), order);
  const disk::TensorMeta& meta = record.meta;

  if (meta.name_offset < claim.strings_begin || meta.name_offset >= claim.strings_end)
    return Rule::name_place;
  const auto* text = reinterpret_cast<const char*>(claim.core + meta.name_offset);
  const std::uint64_t room =
      std::min(claim.strings_end - meta.name_offset, disk::kMaxNameBytes + 1);
  // A sealed file's names are followed by its section table: looking eight bytes ahead
  // stays inside.
  std::size_t length = claim.sealed ? ascii_name_length(text, room) : kNotPlain;
  const bool plain = length != kNotPlain;
  if (!plain) {
    const void* nul = std::memchr(text, 0, static_cast<std::size_t>(room));
    if (!nul) return Rule::name_end;
    length = static_cast<std::size_t>(static_cast<const char*>(nul) - text);
  }
  record.name = {text, length};
  if (!plain && !is_utf8(record.name)) return Rule::name_text;

  const DtypeInfo* info = dtype_info(static_cast<Dtype>(meta.dtype));
  if (!info && unknown_dtypes == UnknownDtypes::refuse) return Rule::dtype;
  if (meta.pad != 0) return Rule::pad;
  if (meta.shape_count > disk::kMaxRank) return Rule::rank;
  if (meta.shape_count > 0) {
    if (!inside(meta.shape_offset, meta.shape_count * 8, claim.strings_begin,
                claim.strings_end))
      return Rule::shape_place;
    if (claim.sealed && !is_aligned(meta.shape_offset, 8)) return Rule::shape_alignment;
  }
  record.shape.resize(static_cast<std::uint32_t>(meta.shape_count));
  for (std::uint32_t i = 0; i < record.shape.rank(); ++i)
    record.shape[i] =
        load_in<std::uint64_t>(claim.core + meta.shape_offset + 8ull * i, order);
  // R6 holds for unknown types too: only R2, R7 and R8 need the type.
  const Implied implied = implied_bytes(info ? *info : kDtypes[0], record.shape.span());
  if (implied.rule != Rule::none) return implied.rule;
  if (info && meta.data_size != implied.bytes) return Rule::data_size;
  if (!inside(meta.data_offset, meta.data_size, claim.data_begin, claim.data_end))
    return Rule::data_place;
  if (claim.sealed && !is_aligned(meta.data_offset, disk::kDataAlignment))
    return Rule::data_alignment;
  return Rule::none;
}

// Names may overlap: a long one can hold thousands of others, as its ends. This adds up
// how much all of them are, so that a small file can neither take the time of a large
// one nor fill the memory of who copies them. Thread-safe.
class NameBytes {
 public:
  explicit NameBytes(const detail::Claim& claim)
      : most_(std::max(claim.strings_end - claim.strings_begin, kAlways)) {}
  // Of one name, or of several together. Fails with limit.
  Status add(std::uint64_t bytes);

 private:
  // So much does not hurt, whatever the file's size.
  static constexpr std::uint64_t kAlways = std::uint64_t{64} << 20;
  const std::uint64_t most_;
  std::atomic<std::uint64_t> used_ = 0;
};

// What R6 and R7 say to whoever writes or reads other formats.
const char* rule_text(Rule rule) noexcept;

// The refusal of a record, in words. `record` is as read_record() left it.
Error refusal(Rule rule, const detail::Claim& claim, std::uint64_t ordinal,
              const Record& record);

// read_record() with the refusal as an Error.
Status check_record(const detail::Claim& claim, std::uint64_t ordinal,
                    UnknownDtypes unknown_dtypes, Record& record);

}  // namespace weig
