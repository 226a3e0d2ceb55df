// SPDX-License-Identifier: Apache-2.0
// diff: two models side by side, tensor by tensor, streaming.
#include <weig/diff.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>
#include <cstring>
#include <memory>
#include <unordered_map>

#include <weig/metadata.h>
#include <weig/quantize.h>

#include "convert/source_reader.h"
#include "convert/sources.h"
#include "core/bytes.h"
#include "core/digest.h"
#include "core/progress.h"
#include "core/text.h"
#include "core/try.h"

namespace weig {
namespace {

constexpr std::uint64_t kStepElements = std::uint64_t{1} << 18;
constexpr std::uint64_t kStepBytes = std::uint64_t{1} << 21;

// One of the models, with what its tensors are called.
class Side {
 public:
  static Result<Side> open(const std::string& path, const DiffOptions& options) {
    Side side;
    ConvertOptions how;
    how.strictness = options.strictness;
    how.max_header_bytes = options.max_header_bytes;
    WEIG_TRY_ASSIGN(sources, open_sources({&path, 1}, how));
    side.sources_ = std::make_unique<Sources>(std::move(sources));
    for (const SourceFile& file : side.sources_->files)
      side.readers_.emplace_back(file);
    for (const SourceTensor& tensor : side.sources_->tensors) {
      const std::string_view name = side.sources_->name(tensor);
      if (options.choose && !options.choose(name)) continue;
      side.tensors_.emplace(name, &tensor);
      side.bytes_ += side.entry(tensor).size;
    }
    return side;
  }

  const auto& tensors() const noexcept { return tensors_; }
  std::uint64_t bytes() const noexcept { return bytes_; }
  const std::optional<std::string>& metadata() const noexcept {
    return sources_->metadata;
  }
  const SourceTensor* find(std::string_view name) const {
    const auto found = tensors_.find(name);
    return found == tensors_.end() ? nullptr : found->second;
  }
  const Manifest::Entry& entry(const SourceTensor& tensor) const {
    return manifest(tensor).entries()[tensor.entry];
  }
  std::span<const std::uint64_t> shape(const SourceTensor& tensor) const {
    return manifest(tensor).shape(entry(tensor));
  }
  DiffSide described(const SourceTensor& tensor) const {
    const auto dimensions = shape(tensor);
    return {.dtype = entry(tensor).dtype,
            .shape = {dimensions.begin(), dimensions.end()},
            .bytes = entry(tensor).size};
  }
  const Digest* digest(const SourceTensor& tensor) const {
    const SourceFile& file = sources_->files[tensor.file];
    return file.digests.empty() ? nullptr : &file.digests[tensor.entry];
  }
  Status read(const SourceTensor& tensor, std::uint64_t offset, MutableBytes out) {
    auto status = readers_[tensor.file].read(tensor.entry, offset, out);
    if (status || !status.error().fields().file.empty()) return status;
    return std::move(status).error().file(sources_->files[tensor.file].file.path());
  }
  // Half of a file and half of what somebody wrote over it are no model.
  Status check_unchanged() const {
    for (const SourceFile& source : sources_->files) {
      if (source.file.stamp().differs_from(source.opened))
        return Error(Code::corrupt, "the file was changed while it was read")
            .file(source.file.path());
      WEIG_TRY(weig::check_unchanged(source.data_files));
    }
    return {};
  }

 private:
  const Manifest& manifest(const SourceTensor& tensor) const {
    return sources_->files[tensor.file].manifest;
  }

  std::unique_ptr<Sources> sources_;
  std::vector<SourceReader> readers_;  // by file
  std::unordered_map<std::string_view, const SourceTensor*, SeededHash> tensors_;
  std::uint64_t bytes_ = 0;
};

bool is_number(Dtype dtype) { return dtype == Dtype::f64 || is_castable(dtype); }

// Elements as doubles, which hold all of them.
Status to_doubles(Dtype dtype, Bytes bytes, std::vector<float>& scratch,
                  std::span<double> out) {
  if (dtype == Dtype::f64) {
    for (std::size_t i = 0; i < out.size(); ++i)
      out[i] = std::bit_cast<double>(load<std::uint64_t>(bytes.data() + 8 * i));
    return {};
  }
  scratch.resize(out.size());
  WEIG_TRY(cast(dtype, bytes, Dtype::f32, std::as_writable_bytes(std::span(scratch))));
  std::ranges::copy(scratch, out.begin());
  return {};
}

class NumberSum {
 public:
  void add(std::span<const double> a, std::span<const double> b) {
    for (std::size_t i = 0; i < a.size(); ++i) {
      if (a[i] == b[i]) continue;
      const bool none = std::isnan(a[i]);
      const bool other_none = std::isnan(b[i]);
      if (none && other_none) continue;
      ++found_.differing;
      if (none || other_none) {
        ++found_.nan;
        continue;
      }
      const double apart = std::abs(a[i] - b[i]);
      found_.max = std::max(found_.max, apart);
      sum_ += apart;
    }
  }
  NumberDiff result(std::uint64_t elements) const {
    NumberDiff found = found_;
    found.elements = elements;
    found.mean = elements == 0 ? 0 : sum_ / static_cast<double>(elements);
    return found;
  }

 private:
  NumberDiff found_;
  double sum_ = 0;
};

class Comparison {
 public:
  Comparison(Side& a, Side& b, const DiffOptions& options)
      : a_(a), b_(b), options_(options) {}

  Result<DiffReport> run() {
    std::vector<std::string_view> names;
    for (const auto& [name, tensor] : a_.tensors()) names.push_back(name);
    for (const auto& [name, tensor] : b_.tensors())
      if (a_.find(name) == nullptr) names.push_back(name);
    std::ranges::sort(names, [](std::string_view one, std::string_view other) {
      return natural_compare(one, other) < 0;
    });
    for (const std::string_view name : names)
      if (needs_bytes(name)) total_ += a_.entry(*a_.find(name)).size;
    WEIG_TRY(tell());
    for (const std::string_view name : names) WEIG_TRY(compare(name));
    report_.tensors_a = a_.tensors().size();
    report_.tensors_b = b_.tensors().size();
    report_.bytes_a = a_.bytes();
    report_.bytes_b = b_.bytes();
    WEIG_TRY(compare_metadata());
    WEIG_TRY(a_.check_unchanged());
    WEIG_TRY(b_.check_unchanged());
    return std::move(report_);
  }

 private:
  bool same_kind(const SourceTensor& a, const SourceTensor& b) const {
    return a_.entry(a).dtype == b_.entry(b).dtype && same_shape(a, b);
  }
  bool same_shape(const SourceTensor& a, const SourceTensor& b) const {
    return std::ranges::equal(a_.shape(a), b_.shape(b));
  }
  bool are_numbers(const SourceTensor& a, const SourceTensor& b) const {
    return same_shape(a, b) && is_number(a_.entry(a).dtype) &&
           is_number(b_.entry(b).dtype);
  }
  // What digests say of two tensors of one kind, if they say anything.
  std::optional<bool> equal_by_digest(const SourceTensor& a,
                                      const SourceTensor& b) const {
    const Digest* one = a_.digest(a);
    const Digest* other = b_.digest(b);
    if (one == nullptr || other == nullptr) return std::nullopt;
    return *one == *other;
  }
  bool needs_bytes(std::string_view name) const {
    const SourceTensor* a = a_.find(name);
    const SourceTensor* b = b_.find(name);
    if (a == nullptr || b == nullptr) return false;
    if (!same_kind(*a, *b)) return are_numbers(*a, *b);
    if (options_.read_all) return true;
    const auto known = equal_by_digest(*a, *b);
    return !known || (!*known && are_numbers(*a, *b));
  }

  Status compare(std::string_view name) {
    const SourceTensor* a = a_.find(name);
    const SourceTensor* b = b_.find(name);
    TensorDiff found{.name = std::string(name), .a = {}, .b = {}, .numbers = {}};
    if (a != nullptr) found.a = a_.described(*a);
    if (b != nullptr) found.b = b_.described(*b);
    if (a != nullptr && b != nullptr) {
      const bool read = needs_bytes(name);
      bool equal = same_kind(*a, *b);
      if (read) {
        WEIG_TRY(same_kind(*a, *b) ? compare_bytes(*a, *b, equal, found)
                                   : compare_numbers(*a, *b, found));
      } else if (equal) {
        equal = equal_by_digest(*a, *b).value_or(true);
      }
      if (equal) {
        ++report_.equal;
        report_.equal_by_digest += read ? 0 : 1;
        return {};
      }
    }
    report_.tensors.push_back(std::move(found));
    return {};
  }

  Status compare_bytes(const SourceTensor& a, const SourceTensor& b, bool& equal,
                       TensorDiff& found) {
    const Manifest::Entry& e = a_.entry(a);
    const bool numbers = is_number(e.dtype);
    const std::uint64_t width = dtype_info(e.dtype)->block_bytes;
    const std::uint64_t step = kStepBytes / width * width;
    NumberSum sum;
    for (std::uint64_t at = 0; at < e.size || at == 0;) {
      const std::uint64_t size = std::min(step, e.size - at);
      WEIG_TRY(read_both(a, at, size, b, at, size));
      // Vectors of std::byte compare byte by byte, 12 times slower.
      if (size > 0 && std::memcmp(bytes_a_.data(), bytes_b_.data(), size) != 0) {
        equal = false;
        if (numbers) WEIG_TRY(add(e.dtype, e.dtype, size / width, sum));
      }
      WEIG_TRY(advance(size));
      at += size;
      if (e.size == 0) break;
    }
    if (!equal && numbers) found.numbers = sum.result(e.size / width);
    return {};
  }

  Status compare_numbers(const SourceTensor& a, const SourceTensor& b,
                         TensorDiff& found) {
    const Manifest::Entry& one = a_.entry(a);
    const Manifest::Entry& other = b_.entry(b);
    const std::uint64_t width = dtype_info(one.dtype)->block_bytes;
    const std::uint64_t other_width = dtype_info(other.dtype)->block_bytes;
    const std::uint64_t elements = one.size / width;
    NumberSum sum;
    for (std::uint64_t at = 0; at < elements; at += kStepElements) {
      const std::uint64_t count = std::min(kStepElements, elements - at);
      WEIG_TRY(read_both(a, at * width, count * width, b, at * other_width,
                         count * other_width));
      WEIG_TRY(add(one.dtype, other.dtype, count, sum));
      WEIG_TRY(advance(count * width));
    }
    found.numbers = sum.result(elements);
    return {};
  }

  Status read_both(const SourceTensor& a, std::uint64_t at_a, std::uint64_t size_a,
                   const SourceTensor& b, std::uint64_t at_b, std::uint64_t size_b) {
    bytes_a_.resize(size_a);
    bytes_b_.resize(size_b);
    WEIG_TRY(a_.read(a, at_a, bytes_a_));
    return b_.read(b, at_b, bytes_b_);
  }
  Status add(Dtype a, Dtype b, std::uint64_t count, NumberSum& sum) {
    doubles_a_.resize(count);
    doubles_b_.resize(count);
    WEIG_TRY(to_doubles(a, bytes_a_, floats_, doubles_a_));
    WEIG_TRY(to_doubles(b, bytes_b_, floats_, doubles_b_));
    sum.add(doubles_a_, doubles_b_);
    return {};
  }

  Status advance(std::uint64_t bytes) {
    done_ += bytes;
    return tell();
  }
  Status tell() const {
    if (goes_on(options_.progress, done_, total_)) return {};
    return Error(Code::cancelled, "the comparison was stopped");
  }

  Status compare_metadata() {
    Metadata a;
    Metadata b;
    if (a_.metadata()) {
      WEIG_TRY_ASSIGN(parsed, Metadata::parse(*a_.metadata()));
      a = std::move(parsed);
    }
    if (b_.metadata()) {
      WEIG_TRY_ASSIGN(parsed, Metadata::parse(*b_.metadata()));
      b = std::move(parsed);
    }
    std::unordered_map<std::string_view, const Metadata::Entry*, SeededHash> others;
    for (const Metadata::Entry& entry : b.entries()) others.emplace(entry.key, &entry);
    for (const Metadata::Entry& entry : a.entries()) {
      const auto found = others.find(entry.key);
      const bool in_b = found != others.end();
      if (in_b && found->second->value == entry.value &&
          found->second->type == entry.type) {
        others.erase(found);
        continue;
      }
      report_.metadata.push_back({.key = entry.key, .in_a = true, .in_b = in_b});
      if (in_b) others.erase(found);
    }
    for (const Metadata::Entry& entry : b.entries())
      if (others.contains(entry.key))
        report_.metadata.push_back({.key = entry.key, .in_a = false, .in_b = true});
    return {};
  }

  Side& a_;
  Side& b_;
  const DiffOptions& options_;
  DiffReport report_;
  std::vector<std::byte> bytes_a_;
  std::vector<std::byte> bytes_b_;
  std::vector<float> floats_;
  std::vector<double> doubles_a_;
  std::vector<double> doubles_b_;
  std::uint64_t total_ = 0;  // bytes of the first model that are read
  std::uint64_t done_ = 0;
};

}  // namespace

Result<DiffReport> diff(const std::string& a, const std::string& b,
                        const DiffOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  WEIG_TRY_ASSIGN(one, Side::open(a, options));
  WEIG_TRY_ASSIGN(other, Side::open(b, options));
  WEIG_TRY_ASSIGN(report, Comparison(one, other, options).run());
  report.seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return std::move(report);
}

}  // namespace weig
