// SPDX-License-Identifier: Apache-2.0
#include "convert/changes.h"

#include <algorithm>
#include <string_view>
#include <unordered_map>

#include "core/digest.h"
#include "core/try.h"
#include "store/dequantize.h"
#include "store/lora.h"

namespace weig {
namespace {

bool same_shape(const TensorSpec& one, const TensorSpec& other) {
  return one.dtype == other.dtype && std::ranges::equal(one.shape, other.shape);
}

}  // namespace

// The tensors as the sources have them.
void Changes::make_source_specs() {
  // Share numbers are per file; one after the other they are numbers for all.
  std::vector<std::uint32_t> bases;
  for (const SourceFile& file : sources_->files) {
    bases.push_back(share_count_);
    for (const auto& e : file.manifest.entries())
      if (e.shares != TensorSpec::kOwn)
        share_count_ = std::max(share_count_, bases.back() + e.shares + 1);
  }
  source_specs_.reserve(sources_->tensors.size());
  for (const SourceTensor& tensor : sources_->tensors) {
    const Manifest& manifest = sources_->files[tensor.file].manifest;
    const Manifest::Entry& e = manifest.entries()[tensor.entry];
    source_specs_.push_back({.name = sources_->name(tensor),
                             .dtype = e.dtype,
                             .shape = manifest.shape(e),
                             .shares = e.shares == TensorSpec::kOwn
                                           ? TensorSpec::kOwn
                                           : bases[tensor.file] + e.shares});
  }
}

// Which tensors the sources' quantization sections name.
void Changes::find_quantized() {
  if (std::ranges::all_of(sources_->files, [](const SourceFile& file) {
        return file.quantization.empty();
      }))
    return;
  std::vector<std::vector<std::uint32_t>> sources;  // by file and entry
  sources.reserve(sources_->files.size());
  for (const SourceFile& file : sources_->files)
    sources.emplace_back(file.manifest.entries().size(), disk::kNone);
  for (std::uint32_t source = 0; source < sources_->tensors.size(); ++source)
    sources[sources_->tensors[source].file][sources_->tensors[source].entry] = source;
  for (std::size_t f = 0; f < sources.size(); ++f)
    for (Quantization q : sources_->files[f].quantization) {
      bool whole = q.scale != disk::kNone;
      for (std::uint32_t* field : {&q.tensor, &q.scale, &q.zero_point, &q.scale2}) {
        if (*field == disk::kNone) continue;
        const bool is_there = *field < sources[f].size();
        *field = is_there ? sources[f][*field] : disk::kNone;
        whole = whole && *field != disk::kNone;
        if (field != &q.tensor && *field != disk::kNone) parameters_.insert(*field);
      }
      if (q.tensor != disk::kNone)
        quantized_sources_[q.tensor] = {.entry = q, .is_whole = whole};
    }
}

// Whether a tensor and the first with the same bytes can share them afterwards, too.
Status Changes::check_shared(std::uint32_t source, const Fate& fate,
                             const Fate& first_fate) const {
  const std::uint32_t first = owners_[source];
  const TensorSpec& spec = source_specs_[source];
  bool alike = fate == first_fate;
  if (alike && fate != Fate(Keep{})) alike = same_shape(spec, source_specs_[first]);
  if (alike && std::holds_alternative<Dequantize>(fate)) {
    const Quantization& one = quantized_sources_.at(source).entry;
    const Quantization& other = quantized_sources_.at(first).entry;
    const auto same = [this](std::uint32_t a, std::uint32_t b) {
      return a == b ||
             (a != disk::kNone && b != disk::kNone && owners_[a] == owners_[b]);
    };
    alike = one.axis == other.axis && one.block == other.block &&
            same(one.scale, other.scale) && same(one.zero_point, other.zero_point);
  }
  if (alike) return {};
  const bool adapted =
      std::holds_alternative<Adapt>(fate) || std::holds_alternative<Adapt>(first_fate);
  const bool differ = !adapted && !same_shape(spec, source_specs_[first]);
  return Error(Code::unsupported,
               differ ? "tensors that share bytes and differ in type or shape are not "
                        "changed"
                      : "tensors that share bytes are not changed alike")
      .file(file(source))
      .tensor(spec.name)
      .found("'" + std::string(source_specs_[first].name) + "' has the same bytes")
      .hint(adapted  ? "an adapter changes one of them alone"
            : differ ? "leave both as they are (--exclude)"
                     : "leave both as they are (--exclude), or change both");
}

// Which module is for which of the sources' tensors.
Status Changes::match_adapter(const LoraAdapter& adapter) {
  std::unordered_map<std::string_view, std::uint64_t, SeededHash> by_name;
  for (std::uint64_t source = 0; source < source_specs_.size(); ++source)
    by_name.emplace(source_specs_[source].name, source);
  const auto find = [&](std::string_view name) -> Result<std::optional<std::uint64_t>> {
    const auto found = by_name.find(name);
    if (found == by_name.end()) return std::optional<std::uint64_t>();
    return std::optional(found->second);
  };
  WEIG_TRY_ASSIGN(matched, match_modules(adapter, find));
  adapter_ = &adapter;
  modules_.assign(source_specs_.size(), disk::kNone);
  for (std::uint32_t module = 0; module < matched.size(); ++module) {
    const TensorSpec& spec = source_specs_[matched[module]];
    WEIG_TRY(check_base(adapter, adapter.modules()[module], spec.dtype, spec.shape));
    modules_[matched[module]] = module;
  }
  return {};
}

Result<Changes::Fate> Changes::fate_of(std::uint32_t source,
                                       const ConvertOptions& options) const {
  const TensorSpec& spec = source_specs_[source];
  const bool is_quantized = quantized_sources_.contains(source);
  const bool is_named = is_quantized || parameters_.contains(source);
  if (adapter_ != nullptr && modules_[source] != disk::kNone) {
    if (!is_named) return Fate(Adapt{modules_[source]});
    return Error(Code::unsupported, "nothing is added to what is quantized")
        .file(file(source))
        .tensor(spec.name);
  }
  if (!options.change || source_bytes(source) == 0 || (is_named && !is_quantized))
    return Fate(Keep{});
  const TensorChange change = options.change(spec.name, spec.dtype, spec.shape);
  if (is_quantized != std::holds_alternative<Dequantize>(change)) return Fate(Keep{});
  if (change == TensorChange(spec.dtype)) return Fate(Keep{});
  return std::visit([](const auto& one) { return Fate(one); }, change);
}

Result<Changes> Changes::make(const Sources& sources, const ConvertOptions& options) {
  Changes changes(sources);
  changes.make_source_specs();
  changes.find_quantized();
  if (options.adapter != nullptr) WEIG_TRY(changes.match_adapter(*options.adapter));
  const std::vector<TensorSpec>& specs = changes.source_specs_;
  std::vector<Fate> fates;
  fates.reserve(specs.size());
  changes.owners_.resize(specs.size());
  std::unordered_map<std::uint32_t, std::uint32_t> shared;  // first, by share number
  for (std::uint32_t source = 0; source < specs.size(); ++source) {
    WEIG_TRY_ASSIGN(fate, changes.fate_of(source, options));
    fates.push_back(fate);
    changes.owners_[source] =
        specs[source].shares == TensorSpec::kOwn
            ? source
            : shared.try_emplace(specs[source].shares, source).first->second;
  }
  for (std::uint32_t source = 0; source < specs.size(); ++source)
    if (const std::uint32_t first = changes.owners_[source]; first != source)
      WEIG_TRY(changes.check_shared(source, fates[source], fates[first]));
  WEIG_TRY(changes.add_all(fates));
  if (!changes.names_.empty()) WEIG_TRY(changes.check_names());
  return changes;
}

Status Changes::add_all(std::span<const Fate> fates) {
  // What quantized tensors need that stay so.
  std::unordered_set<std::uint32_t> needed;
  for (const auto& [source, quantized] : quantized_sources_)
    if (!std::holds_alternative<Dequantize>(fates[source]))
      needed.insert(
          {quantized.entry.scale, quantized.entry.zero_point, quantized.entry.scale2});
  specs_.reserve(source_specs_.size());
  tensors_.reserve(source_specs_.size());
  for (std::uint32_t source = 0; source < source_specs_.size(); ++source) {
    if (parameters_.contains(source) && !needed.contains(source) &&
        !quantized_sources_.contains(source))
      continue;
    const TensorSpec& spec = source_specs_[source];
    if (auto status = add(source, spec, fates[source]); !status)
      return std::move(status).error().file(file(source)).tensor(spec.name);
  }
  return {};
}

Status Changes::add(std::uint32_t source, TensorSpec spec, const Fate& fate) {
  if (const auto* how = std::get_if<QuantizeOptions>(&fate))
    return add_quantized(source, spec, *how);
  if (const auto* how = std::get_if<Dequantize>(&fate))
    return add_dequantized(source, spec, how->to);
  if (const auto* to = std::get_if<Dtype>(&fate)) return add_cast(source, spec, *to);
  const bool adapted = std::holds_alternative<Adapt>(fate);
  specs_.push_back(spec);
  tensors_.push_back(
      {source, adapted ? NewTensor::Part::adapted : NewTensor::Part::copy});
  adapted_ += adapted ? 1 : 0;
  return {};
}

Status Changes::add_cast(std::uint32_t source, TensorSpec spec, Dtype to) {
  WEIG_TRY(weig::cast(spec.dtype, {}, to, {}));  // of no elements, the types alone
  spec.dtype = to;
  specs_.push_back(spec);
  tensors_.push_back({source, NewTensor::Part::cast});
  ++cast_;
  return {};
}

Status Changes::add_quantized(std::uint32_t source, TensorSpec spec,
                              const QuantizeOptions& how) {
  WEIG_TRY_ASSIGN(plan, QuantizePlan::make(spec.dtype, spec.shape, how));
  const QuantizePlan& kept = plans_.emplace(source, std::move(plan)).first->second;
  spec.dtype = how.to;
  specs_.push_back(spec);
  tensors_.push_back({source, NewTensor::Part::codes});
  ++quantized_;
  spec.shape = kept.scale_shape();
  add_parameter(spec, ".scale", {source, NewTensor::Part::scales}, Dtype::f32);
  if (kept.zero_point_bytes() > 0)
    add_parameter(spec, ".zero_point", {source, NewTensor::Part::zero_points}, how.to);
  return {};
}

Status Changes::add_dequantized(std::uint32_t source, TensorSpec spec, Dtype to) {
  const auto& [entry, is_whole] = quantized_sources_.at(source);
  if (!is_whole)
    return Error(Code::unsupported, "its quantization needs a tensor left out");
  const auto kind = [this](std::uint32_t number) {
    const TensorSpec& one = source_specs_[number];
    return TensorKind{.name = one.name, .dtype = one.dtype, .shape = one.shape};
  };
  const bool has_zero_point = entry.zero_point != disk::kNone;
  const TensorKind zero_point = has_zero_point ? kind(entry.zero_point) : TensorKind{};
  WEIG_TRY(check_dequantizable(entry, kind(source), kind(entry.scale),
                               has_zero_point ? &zero_point : nullptr));
  spec.dtype = to;
  specs_.push_back(spec);
  tensors_.push_back({source, NewTensor::Part::numbers});
  ++dequantized_;
  return {};
}

void Changes::add_parameter(TensorSpec spec, const char* suffix, NewTensor tensor,
                            Dtype dtype) {
  spec.name = names_.emplace_back(std::string(spec.name) + suffix);
  spec.dtype = dtype;
  // Tensors that share codes share what belongs to them: numbers of their own.
  if (spec.shares != TensorSpec::kOwn)
    spec.shares += share_count_ * (tensor.part == NewTensor::Part::scales ? 1 : 2);
  specs_.push_back(spec);
  tensors_.push_back(tensor);
}

Status Changes::check_names() const {
  std::unordered_set<std::string_view> names;
  for (std::size_t i = 0; i < specs_.size(); ++i)
    if (tensors_[i].part <= NewTensor::Part::codes) names.insert(specs_[i].name);
  for (const std::string& name : names_)
    if (!names.insert(name).second)
      return Error(Code::unsupported, "quantizing adds a tensor whose name is taken")
          .file(sources_->files[0].file.path())
          .tensor(name)
          .hint("leave the tensor that it would belong to as it is (--exclude)");
  return {};
}

std::vector<Quantization> Changes::entries(const Plan& plan) const {
  std::vector<Quantization> entries;
  if (quantized_ == 0) return entries;
  std::unordered_map<std::uint32_t, Quantization> by_source;
  for (const auto& [source, how] : plans_)
    by_source.emplace(source, Quantization{.tensor = disk::kNone,
                                           .scheme = 1,
                                           .axis = how.axis(),
                                           .block = how.block(),
                                           .scale = disk::kNone,
                                           .zero_point = disk::kNone,
                                           .scale2 = disk::kNone,
                                           .zero = 0});
  for (std::uint32_t ordinal = 0; ordinal < plan.size(); ++ordinal) {
    const NewTensor& tensor = tensors_[plan.order()[ordinal]];
    const auto found = by_source.find(tensor.source);
    if (found == by_source.end()) continue;
    Quantization& entry = found->second;
    if (tensor.part == NewTensor::Part::codes) entry.tensor = ordinal;
    if (tensor.part == NewTensor::Part::scales) entry.scale = ordinal;
    if (tensor.part == NewTensor::Part::zero_points) entry.zero_point = ordinal;
  }
  for (const auto& [source, entry] : by_source) entries.push_back(entry);
  std::ranges::sort(entries, {}, &Quantization::tensor);
  return entries;
}

}  // namespace weig
