// SPDX-License-Identifier: Apache-2.0
#include "formats/big_endian.h"

#include "core/claim.h"
#include "core/record.h"
#include "core/try.h"

namespace weig {

Status check_swap_units(const Manifest& manifest) {
  const Manifest::Entry* last = nullptr;
  for (const Manifest::Entry& entry : manifest.entries()) {
    if (last && entry.shares != TensorSpec::kOwn && entry.shares == last->shares &&
        dtype_info(entry.dtype)->swap_unit != dtype_info(last->dtype)->swap_unit)
      return Error(Code::unsupported,
                   "tensors share big-endian bytes as elements of different widths")
          .tensor(manifest.name(entry));
    last = &entry;
  }
  return {};
}

Result<Manifest> read_big_endian(Bytes front, std::uint64_t file_size,
                                 const ViewOptions& options) {
  WEIG_TRY_ASSIGN(claim, claim_file({.front = front,
                                     .trailer = {},
                                     .file_size = file_size,
                                     .data = nullptr,
                                     .order = ByteOrder::big},
                                    options));
  Manifest manifest;
  manifest.file_size = file_size;
  manifest.data_begin = claim.data_begin;
  manifest.big_endian = true;
  NameBytes names(claim);
  Record record;
  for (std::uint64_t i = 0; i < claim.tensor_count; ++i) {
    WEIG_TRY(check_record(claim, i, options.unknown_dtypes, record));
    const auto dtype = static_cast<Dtype>(record.meta.dtype);
    const DtypeInfo* info = dtype_info(dtype);
    if (!info || info->is_block())
      return Error(Code::unsupported, "an element type whose byte order is not known")
          .tensor(record.name)
          .found(std::string(dtype_name(dtype)));
    WEIG_TRY(names.add(record.name.size()));
    manifest.add(record.name, dtype, record.shape.span(), record.meta.data_offset,
                 record.meta.data_size);
  }
  WEIG_TRY(check_distinct_names(manifest));
  WEIG_TRY(order_and_check_ranges(manifest));
  WEIG_TRY(check_swap_units(manifest));
  return manifest;
}

}  // namespace weig
