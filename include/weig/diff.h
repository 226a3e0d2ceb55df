// SPDX-License-Identifier: Apache-2.0
// diff: what two models differ in, whatever their formats.
// Bounded memory: buffers and what the headers say, about 350 bytes a tensor and model.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <weig/convert.h>
#include <weig/dtype.h>
#include <weig/error.h>
#include <weig/progress.h>

namespace weig {

struct DiffOptions {
  // How the sources are read; what they hold beside tensors and metadata, and their
  // warnings, are not of interest here.
  Strictness strictness = Strictness::strict;
  std::uint64_t max_header_bytes = std::uint64_t{1} << 30;
  // Whether bytes are read, and proven, also of tensors whose digests are equal.
  bool read_all = false;
  // Which tensors are looked at, by name; empty: all.
  std::function<bool(std::string_view name)> choose = {};
  Progress progress = nullptr;  // bytes of the first model that are read
};

// What one of the models has of a tensor.
struct DiffSide {
  Dtype dtype{};
  std::vector<std::uint64_t> shape;
  std::uint64_t bytes = 0;
};

// How numbers of one shape differ, as doubles. NaN is equal to NaN here, whatever its
// bits are, and an infinity to one of its sign.
struct NumberDiff {
  std::uint64_t elements = 0;
  std::uint64_t differing = 0;
  std::uint64_t nan = 0;  // of those: NaN in one model alone
  double max = 0;         // of |a - b| where neither is NaN
  double mean = 0;        // of the same, over all elements
};

struct TensorDiff {
  std::string name;
  std::optional<DiffSide> a;  // none: only the other model has it
  std::optional<DiffSide> b;
  // Of tensors of equal shape whose types are among f64, f32, f16, bf16 and f8_e4m3fn.
  std::optional<NumberDiff> numbers;
};

// A key of the metadata that one model lacks, or of which they have different values.
struct MetadataDiff {
  std::string key;
  bool in_a = false;
  bool in_b = false;
};

struct DiffReport {
  std::uint64_t tensors_a = 0;  // of those that were chosen
  std::uint64_t tensors_b = 0;
  std::uint64_t bytes_a = 0;
  std::uint64_t bytes_b = 0;
  std::uint64_t equal = 0;            // in type, shape and bytes
  std::uint64_t equal_by_digest = 0;  // of them: whose bytes nobody read
  std::vector<TensorDiff> tensors;    // that differ, in natural order of names
  std::vector<MetadataDiff> metadata;
  double seconds = 0;
  bool same() const noexcept { return tensors.empty() && metadata.empty(); }
};

// Compares two models of any format that convert() takes: files, folders, members of
// sets, which stand for all of theirs. Tensors are compared by name. Where both models
// have digests, equal ones are believed, and different ones too: only numbers are then
// read, to say how they differ. Fails as convert() does where a source cannot be read.
Result<DiffReport> diff(const std::string& a, const std::string& b,
                        const DiffOptions& options = {});

}  // namespace weig
