// SPDX-License-Identifier: Apache-2.0
// LoRA adapters in the form of PEFT: reading one, and adding it to a model's weights.
//
//   const auto adapter = weig::LoraAdapter::open("adapter").value();
//   weig::apply_lora(model, adapter).value();                     // in memory, or
//   weig::convert(sources, "new.weig", {.adapter = &adapter});    // as a file
//
// A module of rank r has factors A [r, in] and B [out, r] for its tensor W [out, in],
// which becomes W + scale * (B x A): of a layer that keeps its weights as [in, out]
// (fan_in_fan_out), and of an embedding, W + scale * (B x A) transposed. Each element
// by itself, in doubles:
//
//   sum = 0; for k = 0, 1, ... r - 1: sum = sum + B[o, k] * A[k, i]
//   W[o, i] = W[o, i] + scale * sum
//
// every operation rounded by itself; the result is rounded to f32, and then to the type
// of W by the rules of cast() (weig/quantize.h). What becomes NaN is the positive quiet
// NaN without payload. All CPUs work, and every machine gives the same bits.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <weig/error.h>
#include <weig/model.h>
#include <weig/model_set.h>
#include <weig/version.h>

namespace weig {

// In place of what the adapter's config says, or where it has none. At most one.
struct LoraOptions {
  std::optional<double> alpha = {};  // lora_alpha of all modules
  std::optional<double> scale = {};  // of all modules
};

// What an adapter adds to one tensor of its base.
struct LoraModule {
  std::string name;        // of the layer: the tensor is called NAME.weight
  std::uint64_t rows = 0;  // of the base's tensor
  std::uint64_t columns = 0;
  std::uint64_t rank = 0;
  double scale = 0;
  bool transposed = false;  // the tensor is [in, out]
  std::uint32_t a = 0;      // ordinals of the factors in LoraAdapter::file()
  std::uint32_t b = 0;
};

// An adapter, proven to be one that can be added: nothing in it is passed over. Its
// file is read into memory. const methods may be called from several threads at once.
class LoraAdapter {
 public:
  // Opens a safetensors file with PEFT's names, or the folder with an
  // adapter_model.safetensors; adapter_config.json beside it tells the scale of each
  // module: lora_alpha / r, or with use_rslora lora_alpha / sqrt(r), where
  // alpha_pattern and rank_pattern have values of single modules.
  //
  // Fails as Model::open() does; with invalid_argument where there is no config and
  // `options` give no scale either, or options that cannot be; with corrupt for a
  // config that is none, a rank that it does not say, a factor without the other,
  // shapes that do not go together; and with unsupported for all that is no pair of
  // f32, f16 or bf16 factors of a linear layer or an embedding (DoRA, convolutions,
  // biases, whole tensors in modules_to_save, pattern keys that are regular
  // expressions, ways to initialize that change the base).
  static Result<LoraAdapter> open(const std::string& path,
                                  const LoraOptions& options = {});

  // In the order of their A in the file. Valid as long as the adapter.
  std::span<const LoraModule> modules() const& noexcept WEIG_LIFETIMEBOUND {
    return modules_;
  }
  std::span<const LoraModule> modules() const&& = delete;
  // The safetensors file.
  const Model& file() const& noexcept WEIG_LIFETIMEBOUND { return file_; }
  const Model& file() const&& = delete;
  // The path of the adapter_config.json; empty where there is none.
  const std::string& config_path() const& noexcept WEIG_LIFETIMEBOUND {
    return config_path_;
  }
  const std::string& config_path() const&& = delete;

 private:
  LoraAdapter(Model file, std::string config_path, std::vector<LoraModule> modules)
      : file_(std::move(file)),
        config_path_(std::move(config_path)),
        modules_(std::move(modules)) {}

  Model file_;
  std::string config_path_;
  std::vector<LoraModule> modules_;
};

// Overlays each tensor that the adapter changes with the sum of what its name leads to
// now and what the adapter adds, so that several adapters can follow each other; the
// bytes are those that convert() writes. Returns how many tensors that are: all of the
// adapter's, or, after a failure, none. Threads may read meanwhile, and see each tensor
// as it was or as it is; no other may change overlays.
//
// A module NAME is for the tensor NAME.weight; if there is none, for the one with
// "model." before it, or without. Fails with not_found where there is none either;
// corrupt where shapes do not agree, or two modules are for one tensor; unsupported for
// a tensor that is quantized, shares its bytes with another (tied weights), or is not
// f32, f16 or bf16; invalid_argument where its data is not in memory; and as
// Overlay::make() does.
Result<std::uint64_t> apply_lora(Model& model, const LoraAdapter& adapter);
// Of a set, in all members. Fails also as ModelSet::tensor() does.
Result<std::uint64_t> apply_lora(ModelSet& set, const LoraAdapter& adapter);

}  // namespace weig
