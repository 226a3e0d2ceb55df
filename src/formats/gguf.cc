// SPDX-License-Identifier: Apache-2.0
#include "formats/gguf.h"

#include <algorithm>
#include <array>
#include <bit>
#include <string>
#include <utility>
#include <vector>

#include "core/record.h"
#include "core/text.h"
#include "core/try.h"
#include "formats/big_endian.h"
#include "formats/gguf_values.h"
#include "formats/json.h"

namespace weig {
namespace {

constexpr std::size_t kMaxWarnings = 20;

// GGML's plain types, by its numbers.
struct PlainType {
  std::uint32_t number;
  Dtype dtype;
};
constexpr auto kPlainTypes = std::to_array<PlainType>({{0, Dtype::f32},
                                                       {1, Dtype::f16},
                                                       {24, Dtype::i8},
                                                       {25, Dtype::i16},
                                                       {26, Dtype::i32},
                                                       {27, Dtype::i64},
                                                       {28, Dtype::f64},
                                                       {30, Dtype::bf16}});

// Numbers that GGML once gave to types which it does not have any more: q4_2, q4_3, and
// types for repacked weights.
constexpr auto kRemovedTypes =
    std::to_array<std::uint32_t>({4, 5, 31, 32, 33, 36, 37, 38});

class GgufReader {
 public:
  GgufReader(const Input& input, const GgufOptions& options, ByteOrder order)
      : input_(input),
        options_(options),
        cursor_(input, kGgufMark.size(), end_of(input, options),
                options.max_metadata_bytes, order) {
    header_.manifest.file_size = input.size;
    header_.manifest.big_endian = order == ByteOrder::big;
  }

  Result<GgufHeader> read() {
    WEIG_TRY_ASSIGN(version, cursor_.u32());
    if (version != 2 && version != 3)
      return Error(Code::unsupported, "a version of GGUF that weig does not read")
          .at(4)
          .found("version " + std::to_string(version))
          .expected("version 2 or 3");
    WEIG_TRY_ASSIGN(tensors, cursor_.u64());
    WEIG_TRY_ASSIGN(keys, cursor_.u64());
    WEIG_TRY(read_keys(keys));
    for (std::uint64_t i = 0; i < tensors; ++i) WEIG_TRY(read_tensor());
    WEIG_TRY(place_tensors());
    WEIG_TRY(check_distinct_names(header_.manifest));
    WEIG_TRY(order_and_check_ranges(header_.manifest));
    if (header_.manifest.big_endian) WEIG_TRY(check_swap_units(header_.manifest));
    WEIG_TRY(check_cover());
    if (warnings_ > kMaxWarnings)
      header_.manifest.warnings.push_back(
          "and " + std::to_string(warnings_ - kMaxWarnings) + " more like these");
    return std::move(header_);
  }

 private:
  // Of what may be read for the header.
  static std::uint64_t end_of(const Input& input, const GgufOptions& options) {
    return std::max(std::min(input.size, options.max_header_bytes),
                    std::uint64_t{kGgufMark.size()});
  }

  Status read_keys(std::uint64_t count) {
    KeySet keys;
    std::string out = "{";
    for (std::uint64_t i = 0; i < count; ++i) {
      const std::uint64_t at = cursor_.offset();
      WEIG_TRY_ASSIGN(text, cursor_.string());
      const std::string key(text);
      if (!is_utf8(key))
        return Error(Code::corrupt, "a key is not UTF-8").at(at).found(in_quotes(key));
      if (!keys.add(key))
        return Error(Code::corrupt, "a key is there twice")
            .at(at)
            .found(in_quotes(key));
      if (i > 0) out += ',';
      append_json_string(out, key);
      out += ':';
      WEIG_TRY_ASSIGN(type, cursor_.type());
      if (auto status = cursor_.append_value(type, out); !status)
        return std::move(status).error().found("key " + in_quotes(key));
      WEIG_TRY(note(key, type));
    }
    header_.manifest.metadata = out + "}";
    return check_split();
  }

  // What weig itself must know.
  Status note(const std::string& key, GgufType type) {
    const auto value = cursor_.whole_number();
    if (key == "split.no") split_no_ = value;
    if (key == "split.count") split_count_ = value;
    if (key == "split.tensors.count") split_tensors_ = value;
    if (key != kGgufAlignmentKey) return {};
    if (type != GgufType::u32 || !std::has_single_bit(*value))
      return Error(Code::corrupt, "general.alignment is no power of two")
          .found(value ? std::to_string(*value) + " of type " +
                             std::string(gguf_type_name(type))
                       : std::string(gguf_type_name(type)))
          .expected("a power of two of type u32");
    header_.alignment = *value;
    return {};
  }

  Status check_split() {
    if (!split_count_ || *split_count_ <= 1) return {};
    if (!split_no_ || *split_no_ >= *split_count_)
      return Error(Code::corrupt, "split.no does not say which of the parts this is")
          .found(split_no_ ? std::to_string(*split_no_) : "nothing")
          .expected("below split.count, " + std::to_string(*split_count_));
    if (!split_tensors_)
      return Error(Code::corrupt, "a part does not say how many tensors there are")
          .expected("the key split.tensors.count");
    header_.split = {
        .number = *split_no_, .count = *split_count_, .tensors = *split_tensors_};
    return {};
  }

  Status read_tensor() {
    const std::uint64_t at = cursor_.offset();
    WEIG_TRY_ASSIGN(text, cursor_.string());
    const std::string name(text);
    if (name.size() > disk::kMaxNameBytes)
      return Error(Code::corrupt, "a tensor's name is too long")
          .at(at)
          .found(std::to_string(name.size()) + " bytes")
          .expected("at most 65535");
    if (!is_utf8(name) || name.find('\0') != name.npos)
      return Error(Code::corrupt, "a tensor's name is no text")
          .at(at)
          .tensor(name)
          .expected("UTF-8 without NUL");
    if (auto status = read_record(name); !status)
      return std::move(status).error().tensor(name);
    return {};
  }

  Status read_record(const std::string& name) {
    WEIG_TRY_ASSIGN(rank, cursor_.u32());
    if (rank > kGgufMaxRank)
      return Error(Code::corrupt, "it has more dimensions than GGML's tensors")
          .found(rank)
          .expected("at most 4");
    std::array<std::uint64_t, kGgufMaxRank> shape{};
    for (std::uint32_t d = rank; d-- > 0;) {  // the fastest comes first
      WEIG_TRY_ASSIGN(dimension, cursor_.u64());
      shape[d] = dimension;
    }
    WEIG_TRY_ASSIGN(number, cursor_.u32());
    WEIG_TRY_ASSIGN(offset, cursor_.u64());
    const auto dtype = ggml_type_numbered(number);
    if (!dtype) {
      const bool is_removed =
          std::ranges::find(kRemovedTypes, number) != kRemovedTypes.end();
      return Error(Code::unsupported, is_removed
                                          ? "an element type that GGML has removed"
                                          : "an element type that weig does not know")
          .found("GGML's type " + std::to_string(number));
    }
    const DtypeInfo& info = *dtype_info(*dtype);
    if (info.is_block() && header_.manifest.big_endian)
      return Error(Code::unsupported, "blocks in a big-endian file")
          .found(std::string(info.name));
    const std::span dimensions = std::span(shape).first(rank);
    const Implied implied = implied_bytes(info, dimensions);
    if (implied.rule != Rule::none)
      return Error(Code::corrupt, rule_text(implied.rule))
          .found(std::string(info.name) + " " + shape_text(dimensions));
    if (!is_aligned(offset, header_.alignment))
      return Error(Code::corrupt, "its data does not lie on the file's alignment")
          .found(offset)
          .expected("a multiple of " + std::to_string(header_.alignment));
    header_.manifest.add(name, *dtype, dimensions, offset, implied.bytes);
    return {};
  }

  // Offsets count from where data begins, which is known now.
  Status place_tensors() {
    Manifest& manifest = header_.manifest;
    const std::uint64_t begin = align_up(cursor_.offset(), header_.alignment);
    manifest.data_begin = std::min(begin, manifest.file_size);
    const std::uint64_t room = manifest.file_size - manifest.data_begin;
    for (Manifest::Entry& entry : manifest.entries()) {
      if (!fits(entry.begin, entry.size, room) &&
          !(entry.size == 0 && room == 0 && entry.begin == 0))
        return Error(Code::corrupt, "its data lies outside the file")
            .tensor(manifest.name(entry))
            .found(extent_text(entry.begin, entry.size) + " of the data")
            .expected("an end at most at " + std::to_string(room))
            .hint("the file was cut, or its header is damaged");
      entry.begin += manifest.data_begin;
    }
    return {};
  }

  // One tensor follows the other, with no more between them than their alignment asks.
  Status check_cover() {
    const Manifest& manifest = header_.manifest;
    std::uint64_t end = manifest.data_begin;
    const Manifest::Entry* last = nullptr;
    for (const Manifest::Entry& entry : manifest.entries()) {
      const std::string name = in_quotes(manifest.name(entry));
      const std::uint64_t next = padded(end);
      if (entry.shares != TensorSpec::kOwn && last && last->shares == entry.shares) {
        WEIG_TRY(lenient("tensor " + name + " has the same bytes as tensor " +
                         in_quotes(manifest.name(*last))));
      } else if (entry.begin > next) {
        WEIG_TRY(lenient("a hole of " + std::to_string(entry.begin - next) +
                         " bytes before tensor " + name));
      }
      end = std::max(end, entry.begin + entry.size);
      last = &entry;
    }
    if (manifest.file_size <= padded(end)) return {};
    const std::uint64_t more = manifest.file_size - padded(end);
    const auto cat = [&] {
      std::array<std::byte, 4> mark{};
      return more >= mark.size() && input_.read(padded(end), mark) &&
             text_of(mark) == kGgufMark;
    };
    return lenient(
        std::to_string(more) + (more == 1 ? " byte" : " bytes") +
            " after the last tensor",
        cat()
            ? "another GGUF file follows, as 'cat' joins them: parts of a split model "
              "are files of their own; keep them apart and give any of them"
            : "'weig convert --lenient' ignores what is behind");
  }

  // Where the next tensor begins, if one ends at `end`.
  std::uint64_t padded(std::uint64_t end) const {
    const std::uint64_t begin = header_.manifest.data_begin;
    return begin + align_up(end - begin, header_.alignment);
  }

  Status lenient(
      std::string what,
      std::string hint = "GGML refuses it; 'weig convert --lenient' accepts it") {
    if (options_.strictness == Strictness::strict)
      return Error(Code::corrupt, std::move(what)).hint(std::move(hint));
    header_.manifest.covers_file = false;
    if (++warnings_ <= kMaxWarnings)
      header_.manifest.warnings.push_back(std::move(what));
    return {};
  }

  const Input& input_;
  const GgufOptions& options_;
  GgufCursor cursor_;
  GgufHeader header_;
  std::optional<std::uint64_t> split_no_;
  std::optional<std::uint64_t> split_count_;
  std::optional<std::uint64_t> split_tensors_;
  std::size_t warnings_ = 0;
};

Result<bool> is_zero(const Input& input, std::uint64_t begin, std::uint64_t end) {
  InputCursor cursor(input, begin, end);
  while (cursor.left() > 0) {
    WEIG_TRY_ASSIGN(bytes,
                    cursor.take(std::min(cursor.left(), std::uint64_t{64} << 10)));
    if (!std::ranges::all_of(bytes, [](std::byte b) { return b == std::byte{0}; }))
      return false;
  }
  return true;
}

}  // namespace

std::optional<std::uint32_t> ggml_type_number(Dtype dtype) noexcept {
  const DtypeInfo* info = dtype_info(dtype);
  if (info && info->is_block()) return static_cast<std::uint32_t>(dtype) - kGgmlBase;
  const auto* found = std::ranges::find(kPlainTypes, dtype, &PlainType::dtype);
  if (found == kPlainTypes.end()) return std::nullopt;
  return found->number;
}

std::optional<Dtype> ggml_type_numbered(std::uint32_t number) noexcept {
  const auto* found = std::ranges::find(kPlainTypes, number, &PlainType::number);
  if (found != kPlainTypes.end()) return found->dtype;
  const bool is_small = number < kGgmlBase;
  const auto block = static_cast<Dtype>(kGgmlBase + (is_small ? number : 0));
  if (!dtype_info(block)) return std::nullopt;
  return block;
}

Result<GgufHeader> read_gguf(const Input& input, const GgufOptions& options) {
  constexpr std::uint64_t kFixedBytes = 4 + 4 + 8 + 8;
  if (input.size < kFixedBytes)
    return Error(Code::corrupt, "the file is shorter than a GGUF header")
        .found(std::to_string(input.size) + " bytes");
  std::array<std::byte, 8> first{};
  WEIG_TRY(input.read(0, first));
  if (text_of(Bytes(first).first(kGgufMark.size())) != kGgufMark)
    return Error(Code::corrupt, "the file does not begin with GGUF").at(0);
  // Versions are small numbers: read the wrong way round they are large ones.
  const auto version = load<std::uint32_t>(first.data() + 4);
  const bool is_swapped = version != 0 && (version & 0xFFFF) == 0;
  return GgufReader(input, options, is_swapped ? ByteOrder::big : ByteOrder::little)
      .read();
}

Result<bool> has_zero_padding(const Input& input, const Manifest& manifest) {
  std::uint64_t end = manifest.data_begin;
  for (const Manifest::Entry& entry : manifest.entries()) {
    if (entry.begin > end) {
      WEIG_TRY_ASSIGN(zero, is_zero(input, end, entry.begin));
      if (!zero) return false;
    }
    end = std::max(end, entry.begin + entry.size);
  }
  return is_zero(input, end, manifest.file_size);
}

}  // namespace weig
