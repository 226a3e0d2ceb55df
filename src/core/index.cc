// SPDX-License-Identifier: Apache-2.0
#include "core/index.h"

// Names are short: hashing them inline is most of the speed of a look-up.
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "core/record.h"
#include "core/text.h"
#include "core/try.h"

namespace weig {
namespace {

// More seeds than this without success means names made to collide.
constexpr std::uint64_t kMaxSeeds = 256;

// Places names into `slots`, or says at which name the probe gets too long (found as
// the index of that name), or which two names are equal.
struct Placement {
  enum class Outcome { placed, too_long, equal } outcome = Outcome::placed;
  std::uint32_t first = 0;
  std::uint32_t second = 0;
};

Placement place(std::span<const std::string_view> names, std::uint64_t seed,
                std::uint64_t slots, std::byte* table) {
  const std::uint64_t mask = slots - 1;
  for (std::uint32_t i = 0; i < names.size(); ++i) {
    const std::uint64_t hash = name_hash(names[i], seed);
    const auto fingerprint = static_cast<std::uint32_t>(hash >> 32);
    std::uint64_t step = 0;
    for (; step < disk::kMaxProbe; ++step) {
      std::byte* slot = table + ((hash + step) & mask) * sizeof(disk::IndexSlot);
      const auto ordinal = load<std::uint32_t>(slot + 4);
      if (ordinal == 0) {
        store(slot, fingerprint);
        store(slot + 4, i + 1);
        break;
      }
      if (load<std::uint32_t>(slot) == fingerprint && names[ordinal - 1] == names[i])
        return {Placement::Outcome::equal, ordinal - 1, i};
    }
    if (step == disk::kMaxProbe) return {Placement::Outcome::too_long, i, i};
  }
  return {};
}

// F3's exception: tied weights repeat the range of the record directly before. Asked
// only of data that starts before the end of earlier ones: never of the first record,
// nor of an empty one that repeats an empty one.
bool is_alias(const disk::TensorMeta& before, const disk::TensorMeta& meta) {
  return meta.data_offset == before.data_offset && meta.data_size == before.data_size;
}

Error data_order_error(const Record& before, const Record& record,
                       std::uint64_t ordinal, std::uint64_t end) {
  return Error(Code::corrupt,
               "the tensor's data overlaps, or lies before, that of an earlier record")
      .tensor(record.name)
      .at(record.meta.data_offset)
      .found("record " + std::to_string(ordinal) + ", behind " + in_quotes(before.name))
      .expected("data at or after " + std::to_string(end) +
                ", or exactly that of the record before");
}

// F4 for names in order of their ordinals. A short queue lies between hashing a name
// and looking it up, so that the slots' memory has come by then.
class IndexCheck {
 public:
  IndexCheck(const detail::Claim& claim, UnknownDtypes unknown_dtypes,
             std::uint64_t first)
      : claim_(claim), unknown_dtypes_(unknown_dtypes), first_(first) {}

  Status add(std::string_view name) {
    Waiting& place = queue_[added_ % kQueue];
    if (added_ >= kQueue && !leads_home(place)) WEIG_TRY(check(place));
    place.name = name;
    place.hash = name_hash(name, claim_.index_seed);
    place.ordinal = static_cast<std::uint32_t>(first_ + added_++);
    Probe(claim_, place.hash).prefetch();
    return {};
  }

  Status finish() {
    const std::uint64_t first = added_ < kQueue ? 0 : added_ - kQueue;
    for (std::uint64_t i = first; i < added_; ++i)
      if (!leads_home(queue_[i % kQueue])) WEIG_TRY(check(queue_[i % kQueue]));
    return {};
  }

 private:
  static constexpr std::uint64_t kQueue = 64;
  struct Waiting {
    std::string_view name;
    std::uint64_t hash;
    std::uint32_t ordinal;
  };

  // The common case: the first candidate is the name's own record.
  bool leads_home(const Waiting& waiting) const noexcept {
    return Probe(claim_, waiting.hash).next() == waiting.ordinal;
  }

  Status check(const Waiting& waiting) const {
    Probe probe(claim_, waiting.hash);
    std::uint32_t candidate = probe.next();
    while (candidate != waiting.ordinal) {
      WEIG_TRY(check_other(waiting, candidate));
      candidate = probe.next();
    }
    return {};
  }

  // A candidate that is not the name's own record: of another name, or a refusal.
  Status check_other(const Waiting& waiting, std::uint32_t candidate) const {
    if (candidate >= claim_.tensor_count)
      return Error(Code::corrupt, "the name index does not lead to the tensor")
          .tensor(waiting.name)
          .at(claim_.index_offset)
          .expected("record " + std::to_string(waiting.ordinal));
    Record other;
    WEIG_TRY(check_record(claim_, candidate, unknown_dtypes_, other));
    if (other.name != waiting.name) return {};
    return Error(Code::corrupt, "two tensors have the same name")
        .tensor(waiting.name)
        .at(claim_.meta_offset + waiting.ordinal * sizeof(disk::TensorMeta))
        .found("records " + std::to_string(candidate) + " and " +
               std::to_string(waiting.ordinal));
  }

  const detail::Claim& claim_;
  UnknownDtypes unknown_dtypes_;
  std::uint64_t first_;  // ordinal of the first name added
  Waiting queue_[kQueue];
  std::uint64_t added_ = 0;
};

}  // namespace

std::uint64_t name_hash(std::string_view name, std::uint64_t seed) noexcept {
  return XXH3_64bits_withSeed(name.data(), name.size(), seed);
}

Status check_records(const detail::Claim& claim, UnknownDtypes unknown_dtypes,
                     std::uint64_t first, std::uint64_t last, NameBytes& names) {
  // Added up in pieces: threads must not wait for each other at each name.
  constexpr std::uint64_t kPiece = std::uint64_t{1} << 20;
  std::uint64_t name_bytes = 0;
  IndexCheck index(claim, unknown_dtypes, first);
  // Two, in turn: a record and the one before it.
  Record records[2];
  std::uint64_t end = claim.data_begin;
  if (first > 0) {
    Record& before = records[(first + 1) % 2];
    WEIG_TRY(check_record(claim, first - 1, unknown_dtypes, before));
    // Data is in order up to here, or another range's pass refuses the file.
    end = before.meta.data_offset + before.meta.data_size;
  }
  for (std::uint64_t i = first; i < last; ++i) {
    Record& record = records[i % 2];
    const Rule rule = read_record(claim, i, unknown_dtypes, record);
    if (rule != Rule::none) return refusal(rule, claim, i, record);
    const disk::TensorMeta& meta = record.meta;
    if (meta.data_offset >= end) {
      end = meta.data_offset + meta.data_size;
    } else if (!is_alias(records[(i + 1) % 2].meta, meta)) {
      return data_order_error(records[(i + 1) % 2], record, i, end);
    }
    WEIG_TRY(index.add(record.name));
    name_bytes += record.name.size();
    if (name_bytes >= kPiece || i + 1 == last)
      WEIG_TRY(names.add(std::exchange(name_bytes, 0)));
  }
  return index.finish();
}

Result<std::vector<std::byte>> build_index(std::span<const std::string_view> names) {
  const std::uint64_t slots =
      std::bit_ceil(std::max<std::uint64_t>(2 * names.size(), 1));
  std::vector<std::byte> section;
  for (std::uint64_t seed = 0; seed < kMaxSeeds; ++seed) {
    section.assign(sizeof(disk::IndexHead) + slots * sizeof(disk::IndexSlot),
                   std::byte{0});
    store(section.data(), seed);
    store(section.data() + 8, slots);
    const Placement placement =
        place(names, seed, slots, section.data() + sizeof(disk::IndexHead));
    if (placement.outcome == Placement::Outcome::placed) return section;
    if (placement.outcome == Placement::Outcome::equal)
      return Error(Code::invalid_argument, "two tensors have the same name")
          .tensor(names[placement.second]);
  }
  return Error(Code::limit, "no name index can be built: the names' hashes collide");
}

}  // namespace weig
