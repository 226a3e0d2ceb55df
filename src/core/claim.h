// SPDX-License-Identifier: Apache-2.0
// What opening proves of a file's two ends: the O rules (docs/format.md, "What a reader
// proves"). Records are record.h's, the whole file's rules index.h's. Nothing here does
// I/O or allocates, except for the text of an error.
#pragma once

#include <functional>

#include <weig/view.h>

#include "core/bytes.h"

namespace weig {

// A file as it lies in memory, perhaps in parts.
struct FileParts {
  Bytes front;                  // from byte 0 to data_offset at least, or to the end
  Bytes trailer;                // the last 64 bytes; may point into `front`
  std::uint64_t file_size = 0;  // the real size, as the system tells it
  const std::byte* data = nullptr;  // byte 0 as far as data goes; null: not in memory
  ByteOrder order = ByteOrder::little;
};

// The structures' fields. Require as many bytes as the structures have.
disk::Header load_header(Bytes bytes, ByteOrder order = ByteOrder::little) noexcept;
disk::Trailer load_trailer(Bytes bytes) noexcept;
disk::SectionEntry load_section(const std::byte* at) noexcept;

// The trailer's check over both ends, as stored bytes.
std::uint64_t trailer_check(Bytes header, Bytes trailer) noexcept;

// O1-O3 for the 64 bytes of a header: is it ours, and how much of the file does the
// core take? Says in plain words what is wrong (O1 compares with `file_size`).
Status check_header(Bytes header, std::uint64_t file_size, const ViewOptions& options,
                    ByteOrder order = ByteOrder::little);

// All O rules. The Claim points into `parts`.
Result<detail::Claim> claim_file(const FileParts& parts, const ViewOptions& options);

namespace detail {

// How the library's own layers make Views of what is not one span of file bytes.
struct ViewAccess {
  // A file in parts.
  static Result<View> open(const FileParts& parts, const ViewOptions& options);
  // A foreign file: a minimal table made for it in memory (`claim.core`), over data
  // that lies elsewhere. Rules of minimal files apply.
  static Result<View> open(const Claim& claim, const ViewOptions& options);
  static const Claim& claim(const View& view) { return view.claim_; }
  // From here on, data is a copy of the file's in this machine's byte order.
  static void use_native_data(View& view, const std::byte* data) {
    view.claim_.data = data;
    view.claim_.foreign_order = false;
  }

  // Other contents for a tensor of a View, in this machine's byte order.
  static void use_contents(Tensor& tensor, Dtype dtype, const Shape& shape,
                           Bytes contents) {
    tensor.dtype_ = dtype;
    tensor.shape_ = shape;
    tensor.data_ = contents.data();
    tensor.byte_count_ = contents.size();
    tensor.foreign_order_ = false;
  }
  // Its data is not in memory.
  static void take_data(Tensor& tensor) { tensor.data_ = nullptr; }

  // View::check_structure() in parts that may run at the same time. `run_all` runs
  // `part` for every number below `count`, and returns the failure of the lowest.
  using Part = std::function<Status(std::uint64_t)>;
  using RunAll = std::function<Status(std::uint64_t count, const Part& part)>;
  static Status check_structure(const View& view, const RunAll& run_all);
};

}  // namespace detail
}  // namespace weig
