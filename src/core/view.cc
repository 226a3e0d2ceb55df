// SPDX-License-Identifier: Apache-2.0
// View and Tensor: handing out what validate.cc and index.cc have proven.
#include <algorithm>
#include <cstring>
#include <functional>
#include <numeric>

#include "core/claim.h"
#include "core/digest.h"
#include "core/index.h"
#include "core/record.h"
#include "core/text.h"
#include "core/try.h"

namespace weig {
namespace {

// What a view knows to be proven. Bits between these: section kinds, 1 << kind.
constexpr std::uint32_t kStructureProven = 1;
constexpr unsigned kFileIdBit = 31;
constexpr std::uint32_t kFileIdProven = std::uint32_t{1} << kFileIdBit;

}  // namespace

Shape Tensor::strides() const noexcept {
  Shape strides(shape_.rank());
  std::uint64_t stride = 1;
  for (std::uint32_t i = shape_.rank(); i-- > 0;) {
    strides[i] = stride;
    if (shape_[i] != 0) stride *= shape_[i];  // at most 2^56: rule R6
  }
  return strides;
}

std::uint64_t Tensor::element_count() const noexcept {
  std::uint64_t count = 1;
  for (std::uint32_t i = 0; i < shape_.rank(); ++i) {
    if (shape_[i] == 0) return 0;
    count *= shape_[i];
  }
  return count;
}

Error Tensor::wrong_type() const {
  return Error(Code::invalid_argument, "the C++ type does not fit the element type")
      .tensor(name_)
      .found(std::string(dtype_name(dtype_)));
}

Status Tensor::check_typed(std::size_t alignment) const {
  if (byte_count_ == 0) return {};
  if (!data_)
    return Error(Code::invalid_argument, "the data is not in memory")
        .tensor(name_)
        .hint("the file was opened without it, or it was unmapped");
  if (foreign_order_ && alignment > 1)
    return Error(Code::unsupported,
                 "the data is not in this machine's byte order: read it as bytes")
        .tensor(name_)
        .hint("Model::open swaps it");
  if (!is_aligned(reinterpret_cast<std::uintptr_t>(data_), alignment))
    return Error(Code::invalid_argument,
                 "the data is not aligned for its type: read it as bytes")
        .tensor(name_)
        .at(data_offset_)
        .expected("a multiple of " + std::to_string(alignment));
  return {};
}

Result<View> View::open(std::span<const std::byte> file, const ViewOptions& options) {
  return detail::ViewAccess::open(
      {.front = file,
       .trailer = file.last(std::min(file.size(), sizeof(disk::Trailer))),
       .file_size = file.size(),
       .data = file.data()},
      options);
}

Result<View> detail::ViewAccess::open(const FileParts& parts,
                                      const ViewOptions& options) {
  WEIG_TRY_ASSIGN(claim, claim_file(parts, options));
  return open(claim, options);
}

Result<View> detail::ViewAccess::open(const Claim& claim, const ViewOptions& options) {
  View view;
  view.claim_ = claim;
  view.options_ = options;
  if (!claim.sealed) {
    WEIG_TRY(view.sort_and_check_minimal());
  } else if (options.validation == Validation::full) {
    WEIG_TRY(view.check_structure());
  }
  return view;
}

Result<Tensor> View::checked_tensor(std::uint32_t ordinal) const {
  Record record;
  WEIG_TRY(check_record(claim_, ordinal, options_.unknown_dtypes, record));
  Tensor tensor;
  tensor.name_ = record.name;
  tensor.dtype_ = static_cast<Dtype>(record.meta.dtype);
  tensor.ordinal_ = ordinal;
  tensor.data_offset_ = record.meta.data_offset;
  tensor.byte_count_ = record.meta.data_size;
  tensor.data_ = claim_.data ? claim_.data + record.meta.data_offset : nullptr;
  tensor.shape_ = record.shape;
  tensor.foreign_order_ = claim_.foreign_order;
  return tensor;
}

Result<Tensor> View::operator[](std::uint64_t ordinal) const& {
  if (ordinal >= claim_.tensor_count)
    return Error(Code::invalid_argument, "no tensor has this ordinal")
        .found(ordinal)
        .expected("below " + std::to_string(claim_.tensor_count));
  return checked_tensor(static_cast<std::uint32_t>(ordinal));
}

Result<std::optional<Tensor>> View::find(std::string_view name) const& {
  if (!claim_.sealed) return find_minimal(name);
  if (claim_.index_offset != 0) {
    Probe probe(claim_, name_hash(name, claim_.index_seed));
    for (std::uint32_t ordinal; (ordinal = probe.next()) != disk::kNone;) {
      if (ordinal >= claim_.tensor_count)
        return Error(Code::corrupt, "the name index names a record that is not there")
            .at(claim_.index_offset)
            .found(ordinal)
            .expected("below " + std::to_string(claim_.tensor_count));
      auto tensor = checked_tensor(ordinal);
      if (!tensor) return std::move(tensor).error();
      if (tensor->name() == name) return std::optional<Tensor>(*tensor);
    }
  }
  WEIG_TRY(check_structure());  // a damaged file must not deny a tensor
  return std::optional<Tensor>();
}

Result<std::optional<Tensor>> View::find_minimal(std::string_view name) const {
  std::size_t low = 0;
  std::size_t high = by_name_.size();
  while (low < high) {
    const std::size_t middle = low + (high - low) / 2;
    auto tensor = checked_tensor(by_name_[middle]);
    if (!tensor) return std::move(tensor).error();
    const int order = tensor->name().compare(name);
    if (order == 0) return std::optional<Tensor>(*tensor);
    (order < 0 ? low : high) = order < 0 ? middle + 1 : middle;
  }
  return std::optional<Tensor>();
}

Result<Tensor> View::tensor(std::string_view name) const& {
  auto found = find(name);
  if (!found) return std::move(found).error();
  if (!*found) return Error(Code::not_found, "no such tensor").tensor(name);
  return **found;
}

Result<std::uint32_t> View::owner(std::uint32_t ordinal) const {
  const auto meta = [&](std::uint32_t i) {
    return load_meta(claim_.core + claim_.meta_offset +
                     std::uint64_t{i} * sizeof(disk::TensorMeta));
  };
  const disk::TensorMeta mine = meta(ordinal);
  if (mine.data_size == 0) return ordinal;
  if (!by_data_.empty()) {
    const auto before = [&](std::uint32_t i, const disk::TensorMeta& range) {
      const disk::TensorMeta other = meta(i);
      return other.data_offset != range.data_offset
                 ? other.data_offset < range.data_offset
                 : other.data_size < range.data_size;
    };
    return *std::lower_bound(by_data_.begin(), by_data_.end() - 1, mine, before);
  }
  // Aliases follow their owner directly: the ones before this with the same range are
  // the last ones.
  std::uint32_t low = 0;
  std::uint32_t high = ordinal;
  while (low < high) {
    const std::uint32_t middle = low + (high - low) / 2;
    const disk::TensorMeta other = meta(middle);
    if (other.data_offset == mine.data_offset && other.data_size == mine.data_size)
      high = middle;
    else
      low = middle + 1;
  }
  return low;
}

Status View::check_structure() const {
  if (!claim_.sealed ||
      (proven_.bits.load(std::memory_order_acquire) & kStructureProven))
    return {};
  WEIG_TRY(check_structure_digests());
  NameBytes names(claim_);
  WEIG_TRY(
      check_records(claim_, options_.unknown_dtypes, 0, claim_.tensor_count, names));
  proven_.bits.fetch_or(kStructureProven, std::memory_order_release);
  return {};
}

Status View::check_file_id() const {
  if (!claim_.sealed || (proven_.bits.load(std::memory_order_acquire) & kFileIdProven))
    return {};
  const Digest file_id = xxh3_128({claim_.core, claim_.core_end});
  if (file_id != claim_.file_id)
    return Error(Code::corrupt,
                 "header, tensor table or names are damaged: their digest")
        .at(0)
        .found(to_hex(file_id))
        .expected(to_hex(claim_.file_id));
  proven_.bits.fetch_or(kFileIdProven, std::memory_order_release);
  return {};
}

Status View::check_structure_digests() const {
  WEIG_TRY(check_file_id());
  if (auto index = section(disk::SectionKind::name_index); !index)
    return std::move(index).error();
  return {};
}

Status detail::ViewAccess::check_structure(const View& view, const RunAll& run_all) {
  const Claim& claim = view.claim_;
  // Parts of this many records keep all threads busy to the end.
  constexpr std::uint64_t kPart = 16'384;
  const std::uint64_t parts = (claim.tensor_count + kPart - 1) / kPart;
  if (!claim.sealed || parts < 2) return view.check_structure();
  NameBytes names(claim);
  const auto check_part = [&](std::uint64_t i) -> Status {
    if (i == 0) return view.check_structure_digests();
    return check_records(claim, view.options_.unknown_dtypes, (i - 1) * kPart,
                         std::min(i * kPart, claim.tensor_count), names);
  };
  WEIG_TRY(run_all(parts + 1, std::cref(check_part)));  // which allocates nothing
  view.proven_.bits.fetch_or(kStructureProven, std::memory_order_release);
  return {};
}

Status View::sort_and_check_minimal() {
  const auto meta = [&](std::uint32_t i) {
    return load_meta(claim_.core + claim_.meta_offset +
                     std::uint64_t{i} * sizeof(disk::TensorMeta));
  };
  // Before memory is taken for each of them: of a sparse file they may be billions.
  Record record;
  NameBytes names(claim_);
  for (std::uint64_t i = 0; i < claim_.tensor_count; ++i) {
    WEIG_TRY(check_record(claim_, i, options_.unknown_dtypes, record));
    WEIG_TRY(names.add(record.name.size()));
  }
  std::vector<std::uint32_t> order(claim_.tensor_count);
  std::iota(order.begin(), order.end(), 0);
  const auto name = [&](std::uint32_t i) -> std::string_view {
    // R1 has shown where the name lies; the limits hold if the file changes meanwhile.
    const std::uint64_t offset = std::min(meta(i).name_offset, claim_.strings_end);
    const std::string_view text =
        text_of({claim_.core + offset, claim_.strings_end - offset});
    return text.substr(0, text.find('\0'));
  };

  // Heap sort: stays inside `order` even if the file changes under the comparison.
  const auto sort_by = [&](auto less) {
    std::ranges::make_heap(order, less);
    std::ranges::sort_heap(order, less);
  };
  sort_by([&](std::uint32_t a, std::uint32_t b) {
    const disk::TensorMeta x = meta(a);
    const disk::TensorMeta y = meta(b);
    if (x.data_offset != y.data_offset) return x.data_offset < y.data_offset;
    return x.data_size != y.data_size ? x.data_size < y.data_size : a < b;
  });
  if (!std::ranges::is_sorted(order)) by_data_ = order;
  const disk::TensorMeta* last = nullptr;
  disk::TensorMeta held;
  for (const std::uint32_t i : order) {
    const disk::TensorMeta mine = meta(i);
    if (mine.data_size == 0) continue;
    const bool same = last && mine.data_offset == last->data_offset &&
                      mine.data_size == last->data_size;
    if (last && !same && mine.data_offset < last->data_offset + last->data_size)
      return Error(Code::corrupt, "the tensor's data overlaps another tensor's")
          .tensor(name(i))
          .at(mine.data_offset)
          .expected("at or after " +
                    std::to_string(last->data_offset + last->data_size));
    held = mine;
    last = &held;
  }

  sort_by([&](std::uint32_t a, std::uint32_t b) {
    const int by_bytes = name(a).compare(name(b));
    return by_bytes != 0 ? by_bytes < 0 : a < b;
  });
  for (std::size_t i = 1; i < order.size(); ++i)
    if (name(order[i]) == name(order[i - 1]))
      return Error(Code::corrupt, "two tensors have the same name")
          .tensor(name(order[i]))
          .at(claim_.meta_offset + order[i] * sizeof(disk::TensorMeta));
  by_name_ = std::move(order);
  proven_.bits.fetch_or(kStructureProven, std::memory_order_release);
  return {};
}

Result<std::optional<std::span<const std::byte>>> View::section(
    disk::SectionKind kind) const& {
  using Found = std::optional<std::span<const std::byte>>;
  for (std::uint64_t at = claim_.sections_begin; at < claim_.core_end;
       at += sizeof(disk::SectionEntry)) {
    const disk::SectionEntry entry = load_section(claim_.core + at);
    if (entry.kind != static_cast<std::uint32_t>(kind)) continue;
    if (!inside(entry.offset, entry.size, claim_.core_end, claim_.data_begin))
      return Error(Code::corrupt, "a section lies outside its region: the file changed")
          .at(at);
    const Bytes bytes(claim_.core + entry.offset, entry.size);
    WEIG_TRY(check_size(kind, bytes));
    const std::uint32_t bit =
        entry.kind < kFileIdBit ? std::uint32_t{1} << entry.kind : 0;
    if (proven_.bits.load(std::memory_order_acquire) & bit) return Found(bytes);
    if (const std::uint64_t digest = xxh3_64(bytes); digest != entry.xxh3)
      return Error(Code::corrupt,
                   "section " + std::to_string(entry.kind) + " is damaged: its digest")
          .at(entry.offset)
          .found(to_hex(digest))
          .expected(to_hex(entry.xxh3));
    WEIG_TRY(check_layout(kind, bytes));
    proven_.bits.fetch_or(bit, std::memory_order_release);
    return Found(bytes);
  }
  WEIG_TRY(check_file_id());  // a section whose kind is damaged is there
  return Found();
}

std::vector<disk::SectionKind> View::section_kinds() const {
  std::vector<disk::SectionKind> kinds;
  for (std::uint64_t at = claim_.sections_begin; at < claim_.core_end;
       at += sizeof(disk::SectionEntry))
    kinds.push_back(
        static_cast<disk::SectionKind>(load_section(claim_.core + at).kind));
  return kinds;
}

Status View::check_sections() const {
  for (const disk::SectionKind kind : section_kinds())
    if (auto bytes = section(kind); !bytes) return std::move(bytes).error();
  return {};
}

}  // namespace weig
