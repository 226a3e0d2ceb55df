// SPDX-License-Identifier: Apache-2.0
// Changes: which tensors the new file has, where some of the sources' are cast,
// quantized or dequantized on the way, and how their bytes come about.
#pragma once

#include <deque>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include <weig/convert.h>
#include <weig/quantize.h>

#include "convert/sources.h"

namespace weig {

// A tensor of the new file.
struct NewTensor {
  enum class Part { copy, cast, numbers, codes, scales, zero_points };
  std::uint32_t source = 0;  // index into Sources::tensors
  Part part = Part::copy;
};

class Changes {
 public:
  // Asks `options.change` for every tensor. Fails with invalid_argument where a change
  // cannot be, exists where the name of an added tensor is taken, and unsupported where
  // tensors that share bytes are not changed alike. `sources` must outlive the object.
  static Result<Changes> make(const Sources& sources, const ConvertOptions& options);

  // Of the new file; names and shapes live as long as this object and the sources.
  std::span<const TensorSpec> specs() const noexcept { return specs_; }
  const NewTensor& operator[](std::size_t spec) const noexcept {
    return tensors_[spec];
  }
  bool any() const noexcept { return cast_ + quantized_ + dequantized_ > 0; }
  std::uint64_t cast() const noexcept { return cast_; }
  std::uint64_t quantized() const noexcept { return quantized_; }
  std::uint64_t dequantized() const noexcept { return dequantized_; }
  // Of a source's tensor that is quantized.
  const QuantizePlan& plan(std::uint32_t source) const noexcept {
    return *plans_[source];
  }
  // Of a source's tensor that is dequantized; the ordinals in it are indices into
  // Sources::tensors.
  const Quantization& quantization(std::uint32_t source) const {
    return quantized_sources_.at(source).first;
  }
  // As the sources have it.
  const TensorSpec& source_spec(std::uint32_t source) const noexcept {
    return source_specs_[source];
  }
  std::uint64_t source_bytes(std::uint32_t source) const noexcept {
    const SourceTensor& tensor = sources_->tensors[source];
    return sources_->files[tensor.file].manifest.entries()[tensor.entry].size;
  }
  // The file that a source's tensor is in.
  const std::string& file(std::uint32_t source) const noexcept {
    return sources_->files[sources_->tensors[source].file].file.path();
  }
  // The first of the sources' tensors whose bytes are those of this one.
  std::uint32_t owner(std::uint32_t source) const noexcept { return owners_[source]; }
  // The entries of quantized tensors, with their places in the new table; its order is
  // that of `plan`.
  std::vector<Quantization> entries(const Plan& plan) const;

 private:
  explicit Changes(const Sources& sources) : sources_(&sources) {}
  void make_source_specs();
  void find_quantized();
  TensorChange change_of(std::uint32_t source, const ConvertOptions& options) const;
  Status check_shared(std::uint32_t source, const TensorChange& change,
                      const TensorChange& first_change) const;
  Status add_all(std::span<const TensorChange> changes);
  Status add(std::uint32_t source, TensorSpec spec, const TensorChange& change);
  Status add_quantized(std::uint32_t source, TensorSpec spec,
                       const QuantizeOptions& how);
  Status add_dequantized(std::uint32_t source, TensorSpec spec, Dtype to);
  void add_parameter(TensorSpec spec, const char* suffix, NewTensor tensor,
                     Dtype dtype);
  Status check_names() const;

  const Sources* sources_;
  std::vector<TensorSpec> source_specs_;
  // By source that is quantized: with what, and whether the sources have all of that.
  std::unordered_map<std::uint32_t, std::pair<Quantization, bool>> quantized_sources_;
  std::unordered_set<std::uint32_t> parameters_;  // sources that those need
  std::vector<TensorSpec> specs_;
  std::vector<NewTensor> tensors_;
  std::vector<std::optional<QuantizePlan>> plans_;  // by source
  std::vector<std::uint32_t> owners_;               // by source
  std::deque<std::string> names_;                   // of added tensors
  std::uint32_t share_count_ = 0;                   // in the sources
  std::uint64_t cast_ = 0;
  std::uint64_t quantized_ = 0;
  std::uint64_t dequantized_ = 0;
};

// Makes the bytes of changed tensors, in the order of the new file, in pieces.
class ChangeWriter {
 public:
  // Reads bytes of a source's tensor, little-endian, from that offset of it on.
  using Read = std::function<Status(std::uint32_t source, std::uint64_t offset,
                                    MutableBytes out)>;
  // Told how many bytes of the sources were used up.
  using Tell = std::function<Status(std::uint64_t bytes)>;

  ChangeWriter(const Changes& changes, Read read, Tell tell)
      : changes_(changes), read_(std::move(read)), tell_(std::move(tell)) {}

  // All bytes of a tensor that is not copied. Scales and zero points come after their
  // tensor's codes, and are in memory from then on until they are written.
  Status write(Writer& writer, std::size_t spec, Dtype from, std::uint64_t bytes);

 private:
  Status write_cast(Writer& writer, std::size_t spec, Dtype from, std::uint64_t bytes);
  Status write_codes(Writer& writer, std::size_t spec);
  Status write_numbers(Writer& writer, std::size_t spec);
  Result<std::vector<std::byte>> read_all(std::uint32_t source);
  Status read_piece(std::uint32_t source, Dtype from, std::uint64_t offset,
                    std::uint64_t bytes);

  struct Parameters {
    std::uint32_t source = 0;
    std::vector<std::byte> scales;
    std::vector<std::byte> zero_points;
  };

  const Changes& changes_;
  Read read_;
  Tell tell_;
  std::vector<std::byte> in_;
  std::vector<std::byte> out_;
  std::vector<Parameters> kept_;
};

}  // namespace weig
