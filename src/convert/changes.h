// SPDX-License-Identifier: Apache-2.0
// Changes: which tensors the new file has, where some of the sources' are cast,
// quantized, dequantized or added to on the way.
#pragma once

#include <deque>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <variant>
#include <vector>

#include <weig/convert.h>
#include <weig/lora.h>
#include <weig/quantize.h>

#include "convert/sources.h"

namespace weig {

// A tensor of the new file.
struct NewTensor {
  enum class Part { copy, cast, adapted, numbers, codes, scales, zero_points };
  std::uint32_t source = 0;  // index into Sources::tensors
  Part part = Part::copy;
};

class Changes {
 public:
  // Asks `options.change` for every tensor that `options.adapter` does not name. Fails
  // with invalid_argument where a change cannot be, unsupported where the name of an
  // added tensor is taken and where tensors that share bytes are not changed alike,
  // and as apply_lora() does. `sources` and the adapter must outlive the object.
  static Result<Changes> make(const Sources& sources, const ConvertOptions& options);

  // Of the new file; names and shapes live as long as this object and the sources.
  std::span<const TensorSpec> specs() const noexcept { return specs_; }
  const NewTensor& operator[](std::size_t spec) const noexcept {
    return tensors_[spec];
  }
  bool any() const noexcept { return cast_ + quantized_ + dequantized_ + adapted_ > 0; }
  std::uint64_t cast() const noexcept { return cast_; }
  std::uint64_t quantized() const noexcept { return quantized_; }
  std::uint64_t dequantized() const noexcept { return dequantized_; }
  std::uint64_t adapted() const noexcept { return adapted_; }
  // Of a source's tensor that is quantized.
  const QuantizePlan& plan(std::uint32_t source) const { return plans_.at(source); }
  // Of a source's tensor that is dequantized; the ordinals in it are indices into
  // Sources::tensors.
  const Quantization& quantization(std::uint32_t source) const {
    return quantized_sources_.at(source).entry;
  }
  // As the sources have it.
  const TensorSpec& source_spec(std::uint32_t source) const noexcept {
    return source_specs_[source];
  }
  std::uint64_t source_bytes(std::uint32_t source) const noexcept {
    const SourceTensor& tensor = sources_->tensors[source];
    return sources_->files[tensor.file].manifest.entries()[tensor.entry].size;
  }
  // Of a source's tensor that is adapted.
  const LoraAdapter& adapter() const noexcept { return *adapter_; }
  const LoraModule& module(std::uint32_t source) const noexcept {
    return adapter_->modules()[modules_[source]];
  }
  // The file that a source's tensor is in.
  const std::string& file(std::uint32_t source) const noexcept {
    return sources_->files[sources_->tensors[source].file].file.path();
  }
  // The first of the sources' tensors whose bytes are those of this one.
  std::uint32_t owner(std::uint32_t source) const noexcept { return owners_[source]; }
  // The entries of quantized tensors, with their places in the new table, in ascending
  // order of these; the table is that of `plan`.
  std::vector<Quantization> entries(const Plan& plan) const;

 private:
  explicit Changes(const Sources& sources) : sources_(&sources) {}
  // What one of the sources' tensors is quantized with; the ordinals are indices into
  // Sources::tensors.
  struct QuantizedSource {
    Quantization entry;
    bool is_whole = false;  // nothing of that is left out
  };
  // One of the adapter's modules is added.
  struct Adapt {
    std::uint32_t module = 0;
    friend bool operator==(const Adapt&, const Adapt&) = default;
  };
  // What becomes of a source's tensor.
  using Fate = std::variant<Keep, Dtype, QuantizeOptions, Dequantize, Adapt>;

  void make_source_specs();
  void find_quantized();
  Status match_adapter(const LoraAdapter& adapter);
  Result<Fate> fate_of(std::uint32_t source, const ConvertOptions& options) const;
  Status check_shared(std::uint32_t source, const Fate& fate,
                      const Fate& first_fate) const;
  Status add_all(std::span<const Fate> fates);
  Status add(std::uint32_t source, TensorSpec spec, const Fate& fate);
  Status add_cast(std::uint32_t source, TensorSpec spec, Dtype to);
  Status add_quantized(std::uint32_t source, TensorSpec spec,
                       const QuantizeOptions& how);
  Status add_dequantized(std::uint32_t source, TensorSpec spec, Dtype to);
  void add_parameter(TensorSpec spec, const char* suffix, NewTensor tensor,
                     Dtype dtype);
  Status check_names() const;

  const Sources* sources_;
  std::vector<TensorSpec> source_specs_;
  std::unordered_map<std::uint32_t, QuantizedSource> quantized_sources_;  // by source
  std::unordered_set<std::uint32_t> parameters_;  // sources that those need
  std::vector<TensorSpec> specs_;
  std::vector<NewTensor> tensors_;
  std::unordered_map<std::uint32_t, QuantizePlan> plans_;  // by source
  std::vector<std::uint32_t> owners_;                      // by source
  const LoraAdapter* adapter_ = nullptr;
  std::vector<std::uint32_t> modules_;  // by source; empty without an adapter
  std::deque<std::string> names_;       // of added tensors
  std::uint32_t share_count_ = 0;       // in the sources
  std::uint64_t cast_ = 0;
  std::uint64_t quantized_ = 0;
  std::uint64_t dequantized_ = 0;
  std::uint64_t adapted_ = 0;
};

}  // namespace weig
