// SPDX-License-Identifier: Apache-2.0
// Reading an adapter: its names, its config, and whether all of it can be added.
#include "store/lora.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <unordered_map>

#include "core/digest.h"
#include "core/text.h"
#include "core/try.h"
#include "os/os.h"
#include "store/lora_config.h"

namespace weig {
namespace {

constexpr std::string_view kConfigName = "adapter_config.json";
constexpr std::string_view kWeightsName = "adapter_model.safetensors";
constexpr std::string_view kPrefix = "base_model.model.";
constexpr std::string_view kModel = "model.";

// What a factor's name ends in.
struct Ending {
  std::string_view text;
  bool is_a;
  bool is_embedding;
};
constexpr auto kEndings = std::to_array<Ending>({
    {".lora_A.weight", true, false},
    {".lora_B.weight", false, false},
    {".lora_A.default.weight", true, false},
    {".lora_B.default.weight", false, false},
    {".lora_embedding_A", true, true},
    {".lora_embedding_B", false, true},
    {".lora_embedding_A.default", true, true},
    {".lora_embedding_B.default", false, true},
});

// The factors of one layer, as they are found.
struct Pair {
  std::string module;
  bool is_embedding = false;
  std::optional<std::uint32_t> a;
  std::optional<std::uint32_t> b;
};

bool is_addable(Dtype dtype) {
  return dtype == Dtype::f32 || dtype == Dtype::f16 || dtype == Dtype::bf16;
}

std::string number_text(double number) {
  std::array<char, 32> text;
  const auto end = std::to_chars(text.data(), text.data() + text.size(), number).ptr;
  return {text.data(), end};
}

// Why a tensor cannot be added, which is no factor.
Error no_factor(std::string_view name) {
  const auto has = [name](std::string_view part) {
    return name.find(part) != name.npos;
  };
  std::string what = "the tensor would replace one of the base, not be added to it";
  if (has("lora_magnitude_vector"))
    what = "the tensor is a magnitude of DoRA, which is more than a sum";
  else if (has("lora_bias") || has("lora_B.bias") || has("lora_B.default.bias"))
    what = "the tensor is a bias of the adapter's own";
  else if (has("lora_"))
    what = "the tensor is no factor of a linear layer or an embedding";
  return Error(Code::unsupported, what)
      .expected(
          "names that end in .lora_A.weight, .lora_B.weight, .lora_embedding_A, "
          ".lora_embedding_B");
}

Status check_factor(const Tensor& tensor) {
  if (!is_addable(tensor.dtype()))
    return Error(Code::unsupported,
                 "a factor of the adapter has a type that is not added")
        .found(std::string(dtype_name(tensor.dtype())))
        .expected("f32, f16 or bf16");
  if (tensor.shape().size() == 2) return {};
  return Error(Code::unsupported,
               "only linear layers and embeddings are added, not convolutions")
      .found("a factor of shape " + shape_text(tensor.shape()))
      .expected("two dimensions");
}

// All tensors of the file, as pairs of factors.
Result<std::vector<Pair>> pairs_of(const Model& file) {
  std::vector<Pair> pairs;
  std::unordered_map<std::string, std::size_t, SeededHash> place;
  for (std::uint32_t ordinal = 0; ordinal < file.size(); ++ordinal) {
    WEIG_TRY_ASSIGN(tensor, file[ordinal]);
    std::string_view name = tensor.name();
    const auto ending = std::ranges::find_if(
        kEndings, [name](const Ending& e) { return name.ends_with(e.text); });
    if (ending == kEndings.end()) return no_factor(name).file(file.path()).tensor(name);
    if (auto status = check_factor(tensor); !status)
      return std::move(status).error().file(file.path()).tensor(name);
    name.remove_suffix(ending->text.size());
    if (name.starts_with(kPrefix)) name.remove_prefix(kPrefix.size());
    // One layer may have factors of both kinds in a file: they are told when matched.
    const std::string key =
        std::string(ending->is_embedding ? "e" : "l") + std::string(name);
    const auto [at, fresh] = place.try_emplace(key, pairs.size());
    if (fresh)
      pairs.push_back(
          {std::string(name), ending->is_embedding, std::nullopt, std::nullopt});
    Pair& pair = pairs[at->second];
    std::optional<std::uint32_t>& factor = ending->is_a ? pair.a : pair.b;
    if (factor)
      return Error(Code::corrupt, "the adapter has a factor under two names")
          .file(file.path())
          .tensor(tensor.name());
    factor = ordinal;
  }
  return pairs;
}

// The scale of a module, from the config or in its place.
Result<double> scale_of(const std::string& module, std::uint64_t rank,
                        const LoraConfig& config, const LoraOptions& options) {
  if (options.scale) return *options.scale;
  std::optional<double> alpha = options.alpha;
  if (!alpha) alpha = pattern_value(config.alphas, module);
  if (!alpha) alpha = config.alpha;
  if (!alpha && config.path.empty())
    return Error(Code::invalid_argument, "nothing tells the scale of the adapter")
        .found("no " + std::string(kConfigName) + " beside it")
        .hint("LoraOptions, --alpha or --scale, give it");
  if (!alpha)
    return Error(Code::corrupt, "the adapter's config has no lora_alpha")
        .file(config.path);
  const auto r = static_cast<double>(rank);
  return *alpha / (config.rank_stabilized ? std::sqrt(r) : r);
}

Result<LoraModule> module_of(const Model& file, Pair pair, const LoraConfig& config,
                             const LoraOptions& options) {
  if (!pair.a || !pair.b) {
    WEIG_TRY_ASSIGN(found, file[pair.a ? *pair.a : *pair.b]);
    return Error(Code::corrupt, pair.a ? "the adapter lacks the factor B that belongs "
                                         "to this A"
                                       : "the adapter lacks the factor A that belongs "
                                         "to this B")
        .tensor(found.name());
  }
  WEIG_TRY_ASSIGN(a, file[*pair.a]);
  WEIG_TRY_ASSIGN(b, file[*pair.b]);
  LoraModule module{.name = std::move(pair.module),
                    .rank = a.shape()[0],
                    .transposed = pair.is_embedding || config.fan_in_fan_out,
                    .a = *pair.a,
                    .b = *pair.b};
  if (b.shape()[1] != module.rank || module.rank == 0)
    return Error(Code::corrupt, "the factors of the adapter do not go together")
        .tensor(b.name())
        .found("B of shape " + shape_text(b.shape()) + ", A of " +
               shape_text(a.shape()))
        .expected("B [out, r], A [r, in]");
  auto rank = pattern_value(config.ranks, module.name);
  if (!rank) rank = config.rank;
  if (rank && *rank != static_cast<double>(module.rank))
    return Error(Code::corrupt, "a factor has another rank than the adapter's config")
        .tensor(a.name())
        .found(module.rank)
        .expected(number_text(*rank));
  module.rows = module.transposed ? a.shape()[1] : b.shape()[0];
  module.columns = module.transposed ? b.shape()[0] : a.shape()[1];
  WEIG_TRY_ASSIGN(scale, scale_of(module.name, module.rank, config, options));
  module.scale = scale;
  return module;
}

Status check_options(const LoraOptions& options) {
  if (options.alpha && options.scale)
    return Error(Code::invalid_argument,
                 "an adapter has an alpha or a scale, not both");
  if (!std::isfinite(options.alpha.value_or(0)) ||
      !std::isfinite(options.scale.value_or(0)))
    return Error(Code::invalid_argument, "an adapter's alpha and scale are finite");
  return {};
}

// Into memory: of a mapped file, somebody might cut off a part.
Result<Model> open_weights(const std::string& path) {
  WEIG_TRY_ASSIGN(file, Model::open(path, {.load = {.way = LoadWay::read}}));
  if (file.format() != FileFormat::safetensors)
    return Error(Code::unsupported, "an adapter is a safetensors file")
        .file(path)
        .found(std::string(file_format_name(file.format())));
  WEIG_TRY_ASSIGN(change, file.changed());
  if (change == FileChange::modified)
    return Error(Code::corrupt, "the file was changed while it was read").file(path);
  return std::move(file);
}

std::string path_beside(const std::string& file, std::string_view name) {
  const std::size_t slash = file.rfind('/');
  return file.substr(0, slash == file.npos ? 0 : slash + 1) + std::string(name);
}

}  // namespace

Result<LoraAdapter> LoraAdapter::open(const std::string& path,
                                      const LoraOptions& options) {
  WEIG_TRY(check_options(options));
  const std::string weights =
      os::is_folder(path) ? path_beside(path + "/", kWeightsName) : path;
  WEIG_TRY_ASSIGN(file, open_weights(weights));
  LoraConfig config;
  // Also one that leads nowhere: what it would say is not guessed.
  if (const auto beside = path_beside(weights, kConfigName); os::exists(beside)) {
    WEIG_TRY_ASSIGN(read, read_lora_config(beside));
    config = std::move(read);
  }
  WEIG_TRY_ASSIGN(pairs, pairs_of(file));
  std::vector<LoraModule> modules;
  modules.reserve(pairs.size());
  for (Pair& pair : pairs) {
    auto module = module_of(file, std::move(pair), config, options);
    if (!module) {
      Error error = std::move(module).error();
      return error.fields().file.empty() ? std::move(error).file(weights) : error;
    }
    modules.push_back(*std::move(module));
  }
  if (modules.empty())
    return Error(Code::corrupt, "the adapter has no tensors").file(weights);
  return LoraAdapter(std::move(file), std::move(config.path), std::move(modules));
}

Result<std::vector<std::uint64_t>> match_modules(const LoraAdapter& adapter,
                                                 const FindTensor& find) {
  std::vector<std::uint64_t> numbers;
  std::unordered_map<std::uint64_t, const LoraModule*> taken;
  for (const LoraModule& module : adapter.modules()) {
    const std::string name = module.name + ".weight";
    const std::string other = name.starts_with(kModel) ? name.substr(kModel.size())
                                                       : std::string(kModel) + name;
    WEIG_TRY_ASSIGN(number, find(name));
    if (!number) {
      WEIG_TRY_ASSIGN(second, find(other));
      number = second;
    }
    WEIG_TRY_ASSIGN(a, adapter.file()[module.a]);
    if (!number)
      return Error(Code::not_found, "the base has no tensor for this factor")
          .file(adapter.file().path())
          .tensor(a.name())
          .expected(in_quotes(name) + " or " + in_quotes(other));
    if (const auto [at, fresh] = taken.emplace(*number, &module); !fresh)
      return Error(Code::corrupt, "two modules of the adapter are for one tensor")
          .file(adapter.file().path())
          .tensor(a.name())
          .found(in_quotes(module.name) + " and " + in_quotes(at->second->name));
    numbers.push_back(*number);
  }
  return numbers;
}

Status check_base(const LoraAdapter& adapter, const LoraModule& module, Dtype dtype,
                  std::span<const std::uint64_t> shape) {
  WEIG_TRY_ASSIGN(a, adapter.file()[module.a]);
  if (!is_addable(dtype))
    return Error(
               Code::unsupported,
               "the base's tensor for this factor has a type that nothing is added to")
        .file(adapter.file().path())
        .tensor(a.name())
        .found(std::string(dtype_name(dtype)))
        .expected("f32, f16 or bf16")
        .hint(
            "'weig convert --dequantize f32' makes numbers of what is quantized, "
            "--cast other floating types");
  const std::uint64_t expected[] = {module.rows, module.columns};
  if (!std::ranges::equal(shape, expected))
    return Error(Code::corrupt, "the base's tensor for this factor has another shape")
        .file(adapter.file().path())
        .tensor(a.name())
        .found(shape_text(shape))
        .expected(shape_text(expected));
  return {};
}

}  // namespace weig
