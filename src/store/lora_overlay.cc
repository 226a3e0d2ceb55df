// SPDX-License-Identifier: Apache-2.0
// An adapter as overlays of an open model: all are made before the first is put on.
#include <algorithm>
#include <unordered_set>

#include "core/try.h"
#include "store/lora.h"

namespace weig {
namespace {

// Tensors of one file that an adapter must leave.
class Untouchable {
 public:
  static Result<Untouchable> of(const Model& model) {
    Untouchable found;
    for (std::uint32_t ordinal = 0; ordinal < model.size(); ++ordinal) {
      WEIG_TRY_ASSIGN(owner, model.owner(ordinal));
      if (owner == ordinal) continue;
      found.shared_.insert(ordinal);
      found.shared_.insert(owner);
    }
    WEIG_TRY_ASSIGN(count, model.quantization_count());
    for (std::uint32_t i = 0; i < count; ++i) {
      WEIG_TRY_ASSIGN(q, model.quantization(i));
      found.quantized_.insert({q.tensor, q.scale, q.zero_point, q.scale2});
    }
    return found;
  }

  Status check(const Tensor& tensor) const {
    if (shared_.contains(tensor.ordinal()))
      return Error(Code::unsupported, "tensors that share bytes are not changed alike")
          .hint("an adapter changes one of them alone");
    if (quantized_.contains(tensor.ordinal()))
      return Error(Code::unsupported, "nothing is added to what is quantized");
    return {};
  }

 private:
  std::unordered_set<std::uint32_t> shared_;
  std::unordered_set<std::uint32_t> quantized_;
};

// The tensor with the module added, in memory of its own.
Result<Overlay> sum_of(const LoraAdapter& adapter, const LoraModule& module,
                       const Tensor& tensor) {
  WEIG_TRY(check_base(adapter, module, tensor.dtype(), tensor.shape()));
  if (!tensor.has_data())
    return Error(Code::invalid_argument, "the tensor's data is not in memory");
  WEIG_TRY_ASSIGN(sum, Overlay::make(tensor.dtype(), tensor.shape()));
  std::ranges::copy(tensor.bytes(), sum.bytes().begin());
  const LoraPiece all{
      .row = 0, .rows = module.rows, .column = 0, .columns = module.columns};
  WEIG_TRY(LoraDelta(adapter, module, tensor.dtype()).add(all, sum.bytes()));
  return std::move(sum);
}

// A tensor of a model, and what is put over it.
struct Target {
  Model* model = nullptr;
  std::string name;
  Overlay contents;
};

class Application {
 public:
  explicit Application(const LoraAdapter& adapter) : adapter_(adapter) {}

  // Makes the sum for a tensor of `model`, whose Untouchable it is.
  Status make(Model& model, const Untouchable& untouchable, std::uint32_t ordinal,
              const LoraModule& module) {
    WEIG_TRY_ASSIGN(tensor, model[ordinal]);
    const auto named = [&](Error error) {
      if (!error.fields().file.empty()) return error;
      return std::move(error).file(model.path()).tensor(tensor.name());
    };
    if (auto status = untouchable.check(tensor); !status)
      return named(std::move(status).error());
    auto sum = sum_of(adapter_, module, tensor);
    if (!sum) return named(std::move(sum).error());
    targets_.push_back({&model, std::string(tensor.name()), *std::move(sum)});
    return {};
  }

  // Puts all on. The names are known to be there: nothing fails.
  Result<std::uint64_t> finish() {
    for (Target& target : targets_)
      WEIG_TRY(target.model->overlay(target.name, std::move(target.contents)));
    return std::uint64_t{targets_.size()};
  }

 private:
  const LoraAdapter& adapter_;
  std::vector<Target> targets_;
};

}  // namespace

Result<std::uint64_t> apply_lora(Model& model, const LoraAdapter& adapter) {
  const auto find = [&](std::string_view name) -> Result<std::optional<std::uint64_t>> {
    WEIG_TRY_ASSIGN(tensor, model.find(name));
    if (!tensor) return std::optional<std::uint64_t>();
    return std::optional<std::uint64_t>(tensor->ordinal());
  };
  WEIG_TRY_ASSIGN(ordinals, match_modules(adapter, find));
  WEIG_TRY_ASSIGN(untouchable, Untouchable::of(model));
  Application application(adapter);
  for (std::size_t i = 0; i < ordinals.size(); ++i)
    WEIG_TRY(application.make(model, untouchable,
                              static_cast<std::uint32_t>(ordinals[i]),
                              adapter.modules()[i]));
  return application.finish();
}

Result<std::uint64_t> apply_lora(ModelSet& set, const LoraAdapter& adapter) {
  WEIG_TRY_ASSIGN(ordinals, match_modules(adapter, [&](std::string_view name) {
                    return set.find_ordinal(name);
                  }));
  std::vector<std::optional<Untouchable>> untouchable(set.member_count());
  Application application(adapter);
  for (std::size_t i = 0; i < ordinals.size(); ++i) {
    const std::uint32_t m = set.member_of(ordinals[i]);
    if (!untouchable[m]) {
      WEIG_TRY_ASSIGN(found, Untouchable::of(*set.member(m)));
      untouchable[m] = std::move(found);
    }
    WEIG_TRY(application.make(*set.member(m), *untouchable[m],
                              static_cast<std::uint32_t>(ordinals[i] - set.first(m)),
                              adapter.modules()[i]));
  }
  return application.finish();
}

}  // namespace weig
