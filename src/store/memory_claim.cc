// SPDX-License-Identifier: Apache-2.0
#include "store/memory_claim.h"

#include <algorithm>
#include <utility>

#include "os/lease.h"

namespace weig {
namespace {

constinit ByteTotal claimed;

std::uint64_t less(std::uint64_t a, std::uint64_t b) { return a - std::min(a, b); }

}  // namespace

std::uint64_t ByteTotal::bytes() noexcept {
  const std::uint64_t now = os::process_generation();
  if (generation_.exchange(now) != now) bytes_ = 0;
  return bytes_;
}

ByteShare::ByteShare(ByteTotal& total, std::uint64_t bytes) noexcept {
  static_cast<void>(total.bytes());  // a child's begins anew
  total.bytes_ += bytes;
  set(total, bytes);
}

std::optional<ByteShare> ByteShare::take(ByteTotal& total, std::uint64_t before,
                                         std::uint64_t bytes) noexcept {
  if (!total.bytes_.compare_exchange_strong(before, before + bytes)) return {};
  ByteShare share;
  share.set(total, bytes);
  return share;
}

void ByteShare::set(ByteTotal& total, std::uint64_t bytes) noexcept {
  total_ = &total;
  generation_ = os::process_generation();
  bytes_ = bytes;
}

ByteShare::ByteShare(ByteShare&& other) noexcept
    : total_(std::exchange(other.total_, nullptr)),
      generation_(other.generation_),
      bytes_(other.bytes_.exchange(0)) {}

ByteShare& ByteShare::operator=(ByteShare&& other) noexcept {
  give_back(bytes_);
  total_ = std::exchange(other.total_, nullptr);
  generation_ = other.generation_;
  bytes_ = other.bytes_.exchange(0);
  return *this;
}

ByteShare::~ByteShare() { give_back(bytes_); }

void ByteShare::give_back(std::uint64_t bytes) noexcept {
  std::uint64_t had = bytes_;
  while (!bytes_.compare_exchange_weak(had, less(had, bytes))) continue;
  // What a parent has claimed, its child's sum does not hold.
  if (total_ && generation_ == os::process_generation())
    total_->bytes_ -= std::min(had, bytes);
}

MemoryClaim::MemoryClaim(std::uint64_t bytes) : memory_(memory_limit()) {
  const std::uint64_t available = memory_.available;
  // Of two who ask at once, the second sees what the first has taken.
  while (true) {
    const std::uint64_t before = claimed.bytes();
    memory_.available = less(available, before);
    fits_ = bytes <= memory_.available;
    if (!fits_) return;
    std::optional<ByteShare> share = ByteShare::take(claimed, before, bytes);
    if (!share) continue;
    left_ = *std::move(share);
    return;
  }
}

}  // namespace weig
