// SPDX-License-Identifier: Apache-2.0
#include "core/record.h"

#include <string>

namespace weig {

const char* rule_text(Rule rule) noexcept {
  switch (rule) {
    case Rule::none:
      return "sound";
    case Rule::name_place:
      return "name_offset lies outside the names";
    case Rule::name_end:
      return "the name has no end";
    case Rule::name_text:
      return "the name is not UTF-8";
    case Rule::dtype:
      return "an element type that this reader does not know";
    case Rule::pad:
      return "the record's padding";
    case Rule::rank:
      return "the rank";
    case Rule::shape_place:
      return "the shape lies outside names and shapes";
    case Rule::shape_alignment:
      return "the shape is not aligned";
    case Rule::elements:
      return "the product of the dimensions is above 2^56";
    case Rule::block_rank:
      return "a tensor of blocks needs a dimension";
    case Rule::block_row:
      return "the last dimension is not a multiple of the block";
    case Rule::data_size:
      return "data_size differs from what dtype and shape imply";
    case Rule::data_place:
      return "the tensor's data lies outside the data region";
    case Rule::data_alignment:
      return "the tensor's data is not aligned";
  }
  return "";
}

Error refusal(Rule rule, const detail::Claim& claim, std::uint64_t ordinal,
              const Record& record) {
  using Meta = disk::TensorMeta;
  const Meta& meta = record.meta;
  const std::uint64_t at = claim.meta_offset + ordinal * sizeof(Meta);
  const std::string strings = range_text(claim.strings_begin, claim.strings_end);
  // Without a sound name the record's number says which tensor it is.
  const auto nameless = [&](std::uint64_t offset) {
    return Error(Code::corrupt,
                 "record " + std::to_string(ordinal) + ": " + rule_text(rule))
        .at(offset);
  };
  const auto error = [&](std::uint64_t offset, Code code = Code::corrupt) {
    return Error(code, rule_text(rule)).tensor(record.name).at(offset);
  };
  const DtypeInfo* info = dtype_info(static_cast<Dtype>(meta.dtype));
  switch (rule) {
    case Rule::none:
      break;
    case Rule::name_place:
      return nameless(at).found(meta.name_offset).expected("inside " + strings);
    case Rule::name_end:
      return nameless(meta.name_offset)
          .expected("a NUL within 65536 bytes, inside " + strings);
    case Rule::name_text:
      return error(meta.name_offset);
    case Rule::dtype:
      return error(at + offsetof(Meta, dtype), Code::unsupported)
          .found(hex(meta.dtype));
    case Rule::pad:
      return error(at + offsetof(Meta, pad)).found(meta.pad).expected("0");
    case Rule::rank:
      return error(at + offsetof(Meta, shape_count))
          .found(meta.shape_count)
          .expected("at most 64");
    case Rule::shape_place:
      return error(at + offsetof(Meta, shape_offset))
          .found(extent_text(meta.shape_offset, meta.shape_count * 8))
          .expected("inside " + strings);
    case Rule::shape_alignment:
      return error(at + offsetof(Meta, shape_offset))
          .found(meta.shape_offset)
          .expected("a multiple of 8");
    case Rule::elements:
      return error(meta.shape_offset);
    case Rule::block_rank:
      return error(at + offsetof(Meta, shape_count))
          .found(std::string(dtype_name(static_cast<Dtype>(meta.dtype))));
    case Rule::block_row:
      return error(meta.shape_offset)
          .found(record.shape[record.shape.rank() - 1])
          .expected("a multiple of " + std::to_string(info ? info->block_elements : 1));
    case Rule::data_size:
      return error(at + offsetof(Meta, data_size))
          .found(meta.data_size)
          .expected(info ? implied_bytes(*info, record.shape.span()).bytes : 0);
    case Rule::data_place:
      return error(at + offsetof(Meta, data_offset))
          .found(extent_text(meta.data_offset, meta.data_size))
          .expected("inside " + range_text(claim.data_begin, claim.data_end));
    case Rule::data_alignment:
      return error(at + offsetof(Meta, data_offset))
          .found(meta.data_offset)
          .expected("a multiple of 64");
  }
  return nameless(at);
}

Status NameBytes::add(std::uint64_t bytes) {
  // 65,535 at the most, of 2^32 names.
  if (used_.fetch_add(bytes, std::memory_order_relaxed) + bytes > most_)
    return Error(Code::limit,
                 "names overlap, and are longer than the file's room for them")
        .expected("at most " + std::to_string(most_) + " bytes");
  return {};
}

Status check_record(const detail::Claim& claim, std::uint64_t ordinal,
                    UnknownDtypes unknown_dtypes, Record& record) {
  const Rule rule = read_record(claim, ordinal, unknown_dtypes, record);
  if (rule == Rule::none) return {};
  return refusal(rule, claim, ordinal, record);
}

}  // namespace weig
