// SPDX-License-Identifier: Apache-2.0
#include "core/digest.h"

// Where it is to be had, the variant that takes the widest vectors of the processor at
// hand; the digests are the same.
#ifdef WEIG_XXHASH_DISPATCH
#include <xxh_x86dispatch.h>
#else
#include <xxhash.h>
#endif

#include <new>
#include <random>
#include <string>

namespace weig {
namespace {

Digest from(XXH128_hash_t hash) noexcept { return {hash.low64, hash.high64}; }

}  // namespace

std::uint64_t xxh3_64(Bytes bytes) noexcept {
  return XXH3_64bits(bytes.data(), bytes.size());
}

std::size_t SeededHash::operator()(Bytes bytes) const noexcept {
  static const std::uint64_t seed = [] {
    std::random_device random;
    return std::uint64_t{random()} << 32 | random();
  }();
  return static_cast<std::size_t>(
      XXH3_64bits_withSeed(bytes.data(), bytes.size(), seed));
}
std::size_t SeededHash::operator()(std::string_view text) const noexcept {
  return (*this)(bytes_of(text));
}
std::size_t SeededHash::operator()(
    std::span<const std::uint64_t> numbers) const noexcept {
  return (*this)(std::as_bytes(numbers));
}

Digest xxh3_128(Bytes bytes) noexcept {
  return from(XXH3_128bits(bytes.data(), bytes.size()));
}

struct Hasher::State {
  XXH3_state_t* xxh = XXH3_createState();
  State() {
    if (!xxh) throw std::bad_alloc();
  }
  ~State() { XXH3_freeState(xxh); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;
};

Hasher::Hasher() : state_(std::make_unique<State>()) { reset(); }
Hasher::Hasher(Hasher&&) noexcept = default;
Hasher& Hasher::operator=(Hasher&&) noexcept = default;
Hasher::~Hasher() = default;

void Hasher::reset() noexcept { XXH3_128bits_reset(state_->xxh); }
void Hasher::update(Bytes bytes) noexcept {
  XXH3_128bits_update(state_->xxh, bytes.data(), bytes.size());
}
Digest Hasher::digest() const noexcept {
  return from(XXH3_128bits_digest(state_->xxh));
}

std::string to_hex(std::uint64_t digest) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string out;
  for (int shift = 60; shift >= 0; shift -= 4) out += kDigits[digest >> shift & 0xF];
  return out;
}

std::string to_hex(const Digest& digest) {
  return to_hex(digest.high) + to_hex(digest.low);
}

}  // namespace weig
