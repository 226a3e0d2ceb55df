// SPDX-License-Identifier: Apache-2.0
#include "formats/torch_places.h"

#include <algorithm>
#include <tuple>

#include "core/bytes.h"
#include "core/record.h"
#include "core/text.h"
#include "core/try.h"

namespace weig {
namespace {

// What a tensor, and all of a file's, may be whatever the storage.
constexpr std::uint64_t kSmallTensor = std::uint64_t{64} << 10;
constexpr std::uint64_t kSmallFile = std::uint64_t{1} << 20;

// The highest element of a view, by number. False where that is beyond 64 bits.
bool last_element(const TorchView& view, std::uint64_t& last) noexcept {
  last = view.first;
  for (std::size_t d = 0; d < view.shape.size(); ++d) {
    std::uint64_t reach = 0;
    if (__builtin_mul_overflow(view.shape[d] - 1, view.strides[d], &reach) ||
        __builtin_add_overflow(last, reach, &last))
      return false;
  }
  return true;
}

// Whether the elements follow each other. Where there is only one along a dimension,
// its stride is nobody's.
bool is_row_major(const TorchView& view) noexcept {
  std::uint64_t expected = 1;
  for (std::size_t d = view.shape.size(); d-- > 0;) {
    if (view.shape[d] == 1) continue;
    if (view.strides[d] != expected) return false;
    expected *= view.shape[d];
  }
  return true;
}

// What may become of so many bytes.
std::uint64_t times(std::uint64_t bytes, std::uint64_t factor,
                    std::uint64_t least) noexcept {
  std::uint64_t product = 0;
  if (__builtin_mul_overflow(bytes, factor, &product)) return UINT64_MAX;
  return std::max(product, least);
}

std::uint64_t saturated_sum(std::uint64_t a, std::uint64_t b) noexcept {
  std::uint64_t sum = 0;
  return __builtin_add_overflow(a, b, &sum) ? UINT64_MAX : sum;
}

Error too_large(std::string what, std::uint64_t found, std::uint64_t most,
                std::uint64_t max_times) {
  return Error(Code::limit, std::move(what))
      .found(std::to_string(found) + " bytes")
      .expected("at most " + std::to_string(most))
      .hint("max_expansion, --max-expansion, raises it from " +
            std::to_string(max_times) + " times");
}

}  // namespace

TorchPlaces::TorchPlaces(Manifest& manifest, std::span<const TorchStorage> storages,
                         std::uint64_t max_times)
    : manifest_(&manifest), storages_(storages), max_times_(max_times) {
  for (const TorchStorage& storage : storages)
    stored_ = saturated_sum(stored_, storage.lies.bytes);
}

Status TorchPlaces::add(std::string_view name, const TorchView& view) {
  const DtypeInfo& info = *dtype_info(view.dtype);
  const Implied implied = implied_bytes(info, view.shape);
  if (implied.rule != Rule::none)
    return Error(Code::corrupt, rule_text(implied.rule)).tensor(name);
  const ElementStorage& all = storages_[view.storage].lies;
  if (implied.bytes == 0) {
    manifest_->add(name, view.dtype, view.shape, all.begin, 0);
    return {};
  }
  const std::uint64_t width = info.block_bytes;  // every type has whole bytes
  std::uint64_t last = 0;
  const std::uint64_t elements = std::min(view.storage_bytes, all.bytes) / width;
  if (!last_element(view, last) || last >= elements)
    return Error(Code::corrupt, "the tensor reaches beyond its storage")
        .tensor(name)
        .at(all.begin)
        .found("shape " + shape_text(view.shape) + " and strides " +
               shape_text(view.strides) + " from element " + std::to_string(view.first))
        .expected("all below " + std::to_string(elements));

  Extent extent{.storage = view.storage,
                .entry = static_cast<std::uint32_t>(manifest_->entries().size()),
                .begin = view.first * width,
                .end = (last + 1) * width,
                .unit = info.swap_unit,
                .strided = !is_row_major(view)};
  WEIG_TRY(check_growth(name, implied.bytes, extent));
  extents_.push_back(extent);

  const bool whole = extent.begin == 0 && extent.end == all.bytes;
  const bool swapped = all.big_endian && info.swap_unit > 1;
  const bool packed = all.packing != ElementStorage::Packing::none;
  if (!extent.strided && !swapped && !packed && !(whole && all.crc)) {
    manifest_->add(name, view.dtype, view.shape, all.begin + extent.begin,
                   implied.bytes);
    return {};
  }
  ElementStorage lies = all;
  lies.first = extent.begin;
  if (!packed) {  // no more than is needed
    lies.begin += extent.begin;
    lies.size = lies.bytes = extent.end - extent.begin;
    lies.first = 0;
    if (!whole) lies.crc.reset();
  }
  if (extent.strided) lies.strides.assign(view.strides.begin(), view.strides.end());
  manifest_->add(name, view.dtype, view.shape, implied.bytes, std::move(lies));
  return {};
}

Status TorchPlaces::check_growth(std::string_view name, std::uint64_t bytes,
                                 const Extent& extent) {
  const ElementStorage& all = storages_[extent.storage].lies;
  const std::uint64_t most = times(all.bytes, max_times_, kSmallTensor);
  if (bytes > most)
    return too_large("the tensor repeats its storage too often", bytes, most,
                     max_times_)
        .tensor(name);
  const std::uint64_t most_of_file = times(stored_, max_times_, kSmallFile);
  bytes_ = saturated_sum(bytes_, bytes);
  if (bytes_ > most_of_file)
    return too_large("the tensors up to this one repeat the storages too often", bytes_,
                     most_of_file, max_times_)
        .tensor(name);
  // A packed storage is unpacked from end to end for each of its tensors.
  if (all.packing != ElementStorage::Packing::none)
    reads_ = saturated_sum(reads_, all.bytes);
  else if (extent.strided)
    reads_ = saturated_sum(reads_, extent.end - extent.begin);
  if (reads_ > most_of_file)
    return too_large("the tensors up to this one read the storages too often", reads_,
                     most_of_file, max_times_)
        .tensor(name);
  return {};
}

bool TorchPlaces::same_bytes(const Extent& a, const Extent& b) const {
  if (a.storage != b.storage || a.begin != b.begin || a.end != b.end ||
      a.strided != b.strided)
    return false;
  const ElementStorage& all = storages_[a.storage].lies;
  if (all.big_endian && a.unit != b.unit) return false;
  if (!a.strided) return true;
  const Manifest::Entry& one = manifest_->entries()[a.entry];
  const Manifest::Entry& other = manifest_->entries()[b.entry];
  return one.size == other.size && a.unit == b.unit &&
         std::ranges::equal(manifest_->shape(one), manifest_->shape(other)) &&
         manifest_->storages[one.storage].strides ==
             manifest_->storages[other.storage].strides;
}

void TorchPlaces::finish() {
  const auto key = [this](const Extent& extent) {
    return std::tuple(extent.storage, extent.begin, extent.end, extent.strided,
                      extent.unit, manifest_->entries()[extent.entry].size);
  };
  // Views of one range in different layouts: those of one layout next to each other.
  const auto layout = [this](const Extent& extent) {
    const Manifest::Entry& entry = manifest_->entries()[extent.entry];
    return std::pair(
        manifest_->shape(entry),
        std::span<const std::uint64_t>(manifest_->storages[entry.storage].strides));
  };
  std::ranges::sort(extents_, [&](const Extent& a, const Extent& b) {
    if (key(a) != key(b)) return key(a) < key(b);
    if (a.strided) {
      const auto [a_shape, a_strides] = layout(a);
      const auto [b_shape, b_strides] = layout(b);
      if (!std::ranges::equal(a_shape, b_shape))
        return std::ranges::lexicographical_compare(a_shape, b_shape);
      if (!std::ranges::equal(a_strides, b_strides))
        return std::ranges::lexicographical_compare(a_strides, b_strides);
    }
    return a.entry < b.entry;
  });
  std::uint32_t sets = 0;
  for (std::size_t i = 1; i < extents_.size(); ++i) {
    if (!same_bytes(extents_[i - 1], extents_[i])) continue;
    Manifest::Entry& before = manifest_->entries()[extents_[i - 1].entry];
    if (before.shares == TensorSpec::kOwn) before.shares = sets++;
    manifest_->entries()[extents_[i].entry].shares = before.shares;
  }
  count_unused();
}

void TorchPlaces::count_unused() {
  std::uint64_t unused = 0;
  std::size_t at = 0;
  for (std::uint32_t s = 0; s < storages_.size(); ++s) {
    std::uint64_t end = 0;
    for (; at < extents_.size() && extents_[at].storage == s; ++at) {
      const Extent& extent = extents_[at];
      if (extent.begin > end) unused = saturated_sum(unused, extent.begin - end);
      end = std::max(end, extent.end);
    }
    unused = saturated_sum(unused, storages_[s].lies.bytes - end);
  }
  if (unused > 0)
    manifest_->warnings.push_back(std::to_string(unused) +
                                  " bytes of storages belong to no tensor, and are "
                                  "left behind");
}

}  // namespace weig
