// SPDX-License-Identifier: Apache-2.0
// Overlays, and what a Model hands out where tensors are not as in its file.
#include <weig/overlay.h>

#include <algorithm>
#include <utility>

#include "core/claim.h"
#include "core/record.h"
#include "core/try.h"
#include "store/backing.h"

namespace weig {

struct Overlay::Memory {
  Dtype dtype{};
  Shape shape;
  os::Mapping mapping;  // of one byte at least: a tensor without elements has a place
  std::uint64_t bytes = 0;
};

Result<Overlay> Overlay::make(Dtype dtype, std::span<const std::uint64_t> shape) {
  const DtypeInfo* info = dtype_info(dtype);
  if (!info || shape.size() > disk::kMaxRank)
    return Error(Code::invalid_argument,
                 info ? "an overlay has too many dimensions"
                      : "an overlay needs an element type that is known");
  const Implied implied = implied_bytes(*info, shape);
  if (implied.rule != Rule::none)
    return Error(Code::invalid_argument, rule_text(implied.rule));
  auto memory = std::make_shared<Memory>();
  memory->dtype = dtype;
  memory->shape.resize(static_cast<std::uint32_t>(shape.size()));
  for (std::size_t i = 0; i < shape.size(); ++i) memory->shape[i] = shape[i];
  memory->bytes = implied.bytes;
  const MemoryClaim claim(implied.bytes);
  if (!claim.fits())
    return Error(Code::limit, "the overlay does not fit into memory")
        .found(std::to_string(implied.bytes) + " bytes")
        .expected("at most " + std::to_string(claim.memory().available) + ", which " +
                  claim.memory().source + " has available");
  WEIG_TRY_ASSIGN(mapping,
                  os::Mapping::anonymous(std::max<std::uint64_t>(implied.bytes, 1)));
  memory->mapping = std::move(mapping);
  return Overlay(std::move(memory));
}

Dtype Overlay::dtype() const noexcept { return memory_->dtype; }
const Shape& Overlay::shape() const noexcept { return memory_->shape; }
std::span<std::byte> Overlay::bytes() const noexcept {
  return memory_->mapping.writable().first(memory_->bytes);
}

std::shared_lock<std::shared_mutex> Model::Backing::lock_shared() const {
  std::shared_lock held(altering, std::defer_lock);
  if (generation == os::process_generation()) held.lock();
  return held;
}

std::unique_lock<std::shared_mutex> Model::Backing::lock_alone() const {
  std::unique_lock held(altering, std::defer_lock);
  if (generation == os::process_generation()) held.lock();
  return held;
}

void Model::Backing::alter(Tensor& tensor) const {
  const auto locked = lock_shared();
  const std::uint64_t begin = tensor.data_offset();
  if (const auto found = overlays.find(tensor.ordinal()); found != overlays.end()) {
    const Overlay& contents = found->second;
    detail::ViewAccess::use_contents(tensor, contents.dtype(), contents.shape(),
                                     contents.bytes());
  } else if (!data_mapping().is_mapped({begin, begin + tensor.byte_count()})) {
    detail::ViewAccess::take_data(tensor);
  }
}

Status Model::overlay(std::string_view name, Overlay contents) {
  auto tensor = View::tensor(name);
  if (!tensor) return std::move(tensor).error().file(path());
  auto& overlays = backing_->overlays;
  std::optional<Overlay> old;  // goes when nobody waits for it
  const auto locked = backing_->lock_alone();
  const auto [at, is_new] = overlays.try_emplace(tensor->ordinal(), contents);
  if (!is_new) old.emplace(std::exchange(at->second, std::move(contents)));
  backing_->altered = true;
  return {};
}

Result<Overlay> Model::overlay(std::string_view name, Dtype dtype,
                               std::span<const std::uint64_t> shape) {
  auto contents = Overlay::make(dtype, shape);
  if (!contents) return std::move(contents).error().file(path()).tensor(name);
  WEIG_TRY(overlay(name, *contents));
  return contents;
}

Result<std::optional<Overlay>> Model::overlaid(std::string_view name) const {
  auto tensor = View::tensor(name);
  if (!tensor) return std::move(tensor).error().file(path());
  const auto locked = backing_->lock_shared();
  const auto found = backing_->overlays.find(tensor->ordinal());
  if (found == backing_->overlays.end()) return std::optional<Overlay>();
  return std::optional(found->second);
}

Status Model::drop_overlay(std::string_view name) {
  auto tensor = View::tensor(name);
  if (!tensor) return std::move(tensor).error().file(path());
  decltype(backing_->overlays)::node_type old;  // goes when nobody waits for it
  const auto locked = backing_->lock_alone();
  old = backing_->overlays.extract(tensor->ordinal());
  if (old) return {};
  return Error(Code::not_found, "the tensor has no overlay").file(path()).tensor(name);
}

void Model::drop_overlays() noexcept {
  decltype(backing_->overlays) old;  // go when nobody waits for them
  const auto locked = backing_->lock_alone();
  old.swap(backing_->overlays);
}

}  // namespace weig
