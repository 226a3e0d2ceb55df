// SPDX-License-Identifier: Apache-2.0
// verify: hashes every tensor through the mapping, on several threads, in file order.
#include <weig/host.h>
#include <weig/verify.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <mutex>
#include <thread>

#include "core/byteswap.h"
#include "core/claim.h"
#include "core/digest.h"
#include "core/progress.h"
#include "core/record.h"
#include "core/text.h"
#include "core/try.h"
#include "os/os.h"

namespace weig {
namespace {

// Hashed between two looks at the cancel flag, and reported as progress.
constexpr std::uint64_t kStep = std::uint64_t{8} << 20;
// Small tensors are taken by threads in runs of about this many bytes.
constexpr std::uint64_t kRun = std::uint64_t{4} << 20;

// One verification: threads take runs of tensors until none are left.
class Verification {
 public:
  Verification(const Model& model, const VerifyOptions& options)
      : model_(model),
        options_(options),
        count_(options.tensors ? options.tensors->size() : model.size()),
        total_(model.data_end() - model.data_begin()) {}

  Result<VerifyReport> run() {
    const auto start = std::chrono::steady_clock::now();
    WEIG_TRY(model_.check_structure());
    report_.tensors = count_;
    if (options_.tensors) WEIG_TRY(add_up());
    check_sections();
    const unsigned threads =
        std::max(1u, options_.threads ? options_.threads : usable_cpus());
    os::run_on_threads(
        threads, [](void* given) { static_cast<Verification*>(given)->work(); }, this);
    if (stopped_) return Error(Code::cancelled, "verification was stopped");
    if (failure_) return *std::move(failure_);
    std::ranges::stable_sort(report_.damages, {}, &Damage::begin);
    if (stops() && report_.damages.size() > 1)
      report_.damages.erase(report_.damages.begin() + 1, report_.damages.end());
    report_.bytes = done_;
    report_.tensors_with_digest = with_digest_;
    report_.seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return std::move(report_);
  }

 private:
  // How much there is to do, where not all is.
  Status add_up() {
    total_ = 0;
    for (const std::uint32_t ordinal : *options_.tensors) {
      WEIG_TRY_ASSIGN(tensor, model_.view()[ordinal]);
      const std::uint64_t end = tensor.data_offset() + tensor.byte_count();
      if (!model_.is_mapped({tensor.data_offset(), end}))
        return Error(Code::invalid_argument, "the tensor's data is not mapped")
            .file(model_.path())
            .tensor(tensor.name());
      total_ += tensor.byte_count();
    }
    return {};
  }

  std::uint32_t ordinal_of(std::uint64_t i) const {
    return options_.tensors ? (*options_.tensors)[i] : static_cast<std::uint32_t>(i);
  }

  bool stops() const { return options_.on_damage == OnDamage::stop; }

  void add(Error error, std::uint64_t begin, std::uint64_t end) {
    const std::lock_guard lock(mutex_);
    report_.damages.push_back({std::move(error).file(model_.path()), begin, end});
    if (stops()) bad_ = std::min<std::uint64_t>(bad_, begin);
  }

  // Where all ends at the first damage, what lies before it in the file is still looked
  // at, so that it is the first on any number of threads.
  bool is_needless(const Tensor& tensor) const {
    return stopped_ || tensor.data_offset() > bad_;
  }

  // All sections; one whose bytes are damaged does not hide the others.
  void check_sections() {
    const detail::Claim& claim = detail::ViewAccess::claim(model_.view());
    std::uint64_t end = claim.core_end;
    for (std::uint64_t at = claim.sections_begin; at < claim.core_end;
         at += sizeof(disk::SectionEntry)) {
      const disk::SectionEntry entry = load_section(claim.core + at);
      const auto kind = static_cast<disk::SectionKind>(entry.kind);
      auto bytes = model_.section(kind);
      if (!bytes) {
        add(std::move(bytes).error(), entry.offset, entry.offset + entry.size);
      } else if (kind == disk::SectionKind::digests) {
        has_digests_ = true;
      } else if (kind == disk::SectionKind::metadata) {
        if (auto metadata = model_.metadata(); !metadata)
          add(std::move(metadata).error(), entry.offset, entry.offset + entry.size);
      }
      check_zeros(end, entry.offset, "before a section");
      end = entry.offset + entry.size;
    }
    if (!claim.sealed) return;
    check_zeros(end, claim.data_begin, "before the data");
    check_zeros(sizeof(disk::Header), claim.meta_offset, "before the tensor table");
    check_strings(claim);
    const auto first = model_.view()[0];
    check_zeros(claim.data_begin, first ? first->data_offset() : claim.data_end,
                "before the first tensor");
  }

  // Names and shapes cover their region, or what is between them is zero.
  void check_strings(const detail::Claim& claim) {
    struct Range {
      std::uint64_t begin;
      std::uint64_t end;
    };
    std::vector<Range> ranges;
    ranges.reserve(2 * claim.tensor_count);
    for (std::uint64_t i = 0; i < claim.tensor_count; ++i) {
      const disk::TensorMeta meta =
          load_meta(claim.core + claim.meta_offset + i * sizeof(disk::TensorMeta));
      if (const auto tensor = model_.view()[i])
        ranges.push_back(
            {meta.name_offset, meta.name_offset + tensor->name().size() + 1});
      if (meta.shape_count > 0)
        ranges.push_back({meta.shape_offset, meta.shape_offset + 8 * meta.shape_count});
    }
    std::ranges::sort(ranges, {}, &Range::begin);
    std::uint64_t end = claim.strings_begin;
    for (const Range& range : ranges) {
      check_zeros(end, range.begin, "between names and shapes");
      end = std::max(end, range.end);
    }
    check_zeros(end, claim.strings_end, "behind names and shapes");
  }

  void check_zeros(std::uint64_t begin, std::uint64_t end, const char* where) {
    if (begin >= end || !model_.is_mapped({begin, end})) return;
    const Bytes gap = model_.mapped().subspan(begin, end - begin);
    // All bytes are zero if the first is, and each is as the one before it.
    if (gap[0] == std::byte{0} &&
        std::memcmp(gap.data(), gap.data() + 1, gap.size() - 1) == 0)
      return;
    const auto bad =
        std::ranges::find_if(gap, [](std::byte b) { return b != std::byte{0}; });
    const std::uint64_t at = begin + static_cast<std::uint64_t>(bad - gap.begin());
    add(Error(Code::corrupt, std::string("padding ") + where + " is not zero").at(at),
        begin, end);
  }

  // Takes the next run: tensors [first, last), whole, each with the gap behind it.
  bool take(std::uint64_t& first, std::uint64_t& last) {
    const std::lock_guard lock(mutex_);
    if (next_ == count_ || stopped_ || failure_) return false;
    first = next_;
    std::uint64_t bytes = 0;
    while (next_ < count_ && bytes < kRun) {
      const auto tensor = model_.view()[ordinal_of(next_++)];
      if (!tensor) {
        failure_ = tensor.error();
        return false;
      }
      bytes += tensor->byte_count();
    }
    last = next_;
    return true;
  }

  // What a thread hashed last: names that share bytes are neighbours, and thousands of
  // them are hashed once.
  struct Hashed {
    std::uint32_t owner = disk::kNone;
    Dtype dtype = {};
    Digest digest;
    bool is(std::uint32_t other, Dtype type) const {
      return owner == other && (kNativeOrder == ByteOrder::little || dtype == type);
    }
  };

  void work() {
    Hasher hasher;
    Hashed last_hashed;
    std::uint64_t first = 0;
    std::uint64_t last = 0;
    while (take(first, last))
      for (std::uint64_t i = first; i < last && !stopped_; ++i)
        if (auto status = check(ordinal_of(i), hasher, last_hashed); !status) {
          const std::lock_guard lock(mutex_);
          failure_ = std::move(status).error();
          return;
        }
  }

  // Adds part of a tensor to its digest, which is of the file's bytes: sealed files are
  // little-endian, and elsewhere a Model has their elements in another order.
  static void hash(Hasher& hasher, const Tensor& tensor, Bytes part) {
    const DtypeInfo* info = dtype_info(tensor.dtype());
    if (kNativeOrder == ByteOrder::little || !info || info->swap_unit == 1)
      return hasher.update(part);
    std::array<std::byte, 4096> swapped;
    while (!part.empty()) {
      const auto some =
          MutableBytes(swapped).first(std::min(part.size(), swapped.size()));
      std::memcpy(some.data(), part.data(), some.size());
      swap_in_place(some, info->swap_unit);
      hasher.update(some);
      part = part.subspan(some.size());
    }
  }

  Status check(std::uint32_t ordinal, Hasher& hasher, Hashed& last) {
    WEIG_TRY_ASSIGN(tensor, model_.view()[ordinal]);
    if (is_needless(tensor)) return {};
    WEIG_TRY_ASSIGN(owner, model_.owner(ordinal));
    // Of all, bytes that several tensors share count once.
    const bool in_steps = owner == ordinal || options_.tensors;
    const bool known = last.is(owner, tensor.dtype());
    hasher.reset();
    if (in_steps && known) {
      progress(tensor.byte_count());
    } else if (in_steps) {
      std::uint64_t end = tensor.data_offset();
      for (Bytes rest = tensor.bytes(); !rest.empty();) {
        const Bytes step = rest.first(std::min<std::uint64_t>(rest.size(), kStep));
        WEIG_TRY(follow(tensor, end += step.size()));
        if (is_needless(tensor)) return {};
        hash(hasher, tensor, step);
        rest = rest.subspan(step.size());
        progress(step.size());
      }
    }
    if (!options_.tensors) WEIG_TRY(check_gap(ordinal, tensor));
    if (!has_digests_) return {};
    WEIG_TRY_ASSIGN(stored, model_.digest(ordinal));
    if (!in_steps && !known) hash(hasher, tensor, tensor.bytes());
    if (!known) last = {owner, tensor.dtype(), hasher.digest()};
    const Digest digest = last.digest;
    ++with_digest_;
    if (stored && digest != *stored)
      add(Error(Code::checksum, "the bytes differ from their digest")
              .tensor(tensor.name())
              .at(tensor.data_offset())
              .found(to_hex(digest))
              .expected(to_hex(*stored)),
          tensor.data_offset(), tensor.data_offset() + tensor.byte_count());
    return {};
  }

  // Zeros between this tensor and the next, or the trailer.
  Status check_gap(std::uint32_t ordinal, const Tensor& tensor) {
    if (!model_.sealed()) return {};
    const std::uint64_t begin = tensor.data_offset() + tensor.byte_count();
    std::uint64_t end = model_.data_end();
    if (ordinal + std::uint64_t{1} < model_.size()) {
      WEIG_TRY_ASSIGN(next, model_.view()[ordinal + std::uint64_t{1}]);
      end = next.data_offset();
    }
    check_zeros(begin, end, "behind a tensor");  // nothing if the next is an alias
    return {};
  }

  // Waits until a load that runs meanwhile has come so far. What it could not load must
  // not be touched; what it was told to leave may be.
  Status follow(const Tensor& tensor, std::uint64_t end) {
    constexpr auto kAgain = std::chrono::milliseconds(1);
    while (end > loaded_ && !is_needless(tensor)) {
      const LoadReport load = model_.load_report();
      if (load.finished && load.error && load.error->code() != Code::cancelled)
        return *load.error;
      loaded_ = load.finished ? model_.file_size() : load.bytes;
      if (end <= loaded_) break;
      progress(0);
      std::this_thread::sleep_for(kAgain);
    }
    return {};
  }

  void progress(std::uint64_t bytes) {
    const std::lock_guard lock(mutex_);
    done_ += bytes;
    if (!stopped_ && !goes_on(options_.progress, done_, total_)) stopped_ = true;
  }

  const Model& model_;
  const VerifyOptions& options_;
  const std::uint64_t count_;  // of tensors to look at
  std::uint64_t total_;        // bytes of them
  VerifyReport report_;
  bool has_digests_ = false;
  std::atomic<bool> stopped_ = false;
  std::atomic<std::uint64_t> with_digest_ = 0;
  std::atomic<std::uint64_t> loaded_ = 0;  // where a load is, at least
  std::atomic<std::uint64_t> bad_ =
      UINT64_MAX;  // the first damage, where that ends all

  std::mutex mutex_;  // guards what follows, the report's damages and the callback
  std::uint64_t next_ = 0;
  std::uint64_t done_ = 0;
  std::optional<Error> failure_;
};

}  // namespace

Result<VerifyReport> verify(const Model& model, const VerifyOptions& options) {
  if (model.mapped().size() < model.file_size())
    return Error(Code::invalid_argument, "the model was opened for metadata only")
        .file(model.path());
  if (!options.tensors && !model.is_mapped({0, model.file_size()}))
    return Error(Code::invalid_argument, "parts of the model are not mapped")
        .file(model.path())
        .hint("VerifyOptions::tensors names those to check");
  return Verification(model, options).run();
}

}  // namespace weig
