// SPDX-License-Identifier: Apache-2.0
#include "convert/changes.h"

#include <algorithm>
#include <bit>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "core/byteswap.h"
#include "core/try.h"

namespace weig {
namespace {

// Elements that are read, changed and written at a time.
constexpr std::uint64_t kPiece = std::uint64_t{1} << 20;

const Manifest::Entry& entry_of(const Sources& sources, std::uint32_t source) {
  const SourceTensor& tensor = sources.tensors[source];
  return sources.files[tensor.file].manifest.entries()[tensor.entry];
}

std::uint64_t element_bytes(Dtype dtype) { return dtype_info(dtype)->block_bytes; }

// Between the file's order of bytes and this machine's.
void swap_elements(MutableBytes bytes, std::uint64_t unit) {
  if constexpr (std::endian::native == std::endian::big)
    swap_in_place(bytes, static_cast<std::uint32_t>(unit));
}

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
    source_specs_.push_back({.name = manifest.name(e),
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
      bool whole = true;
      for (std::uint32_t* field : {&q.tensor, &q.scale, &q.zero_point, &q.scale2}) {
        if (*field == disk::kNone) continue;
        const bool is_there = *field < sources[f].size();
        *field = is_there ? sources[f][*field] : disk::kNone;
        whole = whole && *field != disk::kNone;
        if (field != &q.tensor && *field != disk::kNone) parameters_.insert(*field);
      }
      if (q.tensor != disk::kNone) quantized_sources_[q.tensor] = {q, whole};
    }
}

TensorChange Changes::change_of(std::uint32_t source,
                                const ConvertOptions& options) const {
  const bool quantized = quantized_sources_.contains(source);
  if (!options.change || entry_of(*sources_, source).size == 0 ||
      (!quantized && parameters_.contains(source)))
    return Keep{};
  const TensorSpec& spec = source_specs_[source];
  TensorChange change = options.change(spec.name, spec.dtype, spec.shape);
  if (quantized != std::holds_alternative<Dequantize>(change)) return Keep{};
  if (change == TensorChange(spec.dtype)) return Keep{};
  return change;
}

// Whether a tensor and the first with the same bytes can share them afterwards, too.
Status Changes::check_shared(std::uint32_t source, const TensorChange& change,
                             const TensorChange& first_change) const {
  const std::uint32_t first = owners_[source];
  const TensorSpec& spec = source_specs_[source];
  bool alike = change == first_change;
  if (alike && change != TensorChange(Keep{}))
    alike = same_shape(spec, source_specs_[first]);
  if (alike && std::holds_alternative<Dequantize>(change)) {
    const Quantization& one = quantized_sources_.at(source).first;
    const Quantization& other = quantized_sources_.at(first).first;
    const auto same = [this](std::uint32_t a, std::uint32_t b) {
      return a == b ||
             (a != disk::kNone && b != disk::kNone && owners_[a] == owners_[b]);
    };
    alike = one.axis == other.axis && one.block == other.block &&
            same(one.scale, other.scale) && same(one.zero_point, other.zero_point);
  }
  if (alike) return {};
  return Error(Code::unsupported, "tensors that share bytes are not changed alike")
      .file(file(source))
      .tensor(spec.name)
      .found("'" + std::string(source_specs_[first].name) + "' has the same bytes")
      .hint("leave both as they are, or change both");
}

Result<Changes> Changes::make(const Sources& sources, const ConvertOptions& options) {
  Changes changes(sources);
  changes.make_source_specs();
  changes.find_quantized();
  const std::vector<TensorSpec>& specs = changes.source_specs_;
  std::vector<TensorChange> wanted;
  wanted.reserve(specs.size());
  changes.owners_.resize(specs.size());
  std::unordered_map<std::uint32_t, std::uint32_t> shared;  // first, by share number
  for (std::uint32_t source = 0; source < specs.size(); ++source) {
    wanted.push_back(changes.change_of(source, options));
    changes.owners_[source] =
        specs[source].shares == TensorSpec::kOwn
            ? source
            : shared.try_emplace(specs[source].shares, source).first->second;
  }
  for (std::uint32_t source = 0; source < specs.size(); ++source)
    if (const std::uint32_t first = changes.owners_[source]; first != source)
      WEIG_TRY(changes.check_shared(source, wanted[source], wanted[first]));
  WEIG_TRY(changes.add_all(wanted));
  if (!changes.names_.empty()) WEIG_TRY(changes.check_names());
  return changes;
}

Status Changes::add_all(std::span<const TensorChange> changes) {
  // What quantized tensors need that stay so.
  std::unordered_set<std::uint32_t> needed;
  for (const auto& [source, quantized] : quantized_sources_)
    if (!std::holds_alternative<Dequantize>(changes[source]))
      needed.insert(
          {quantized.first.scale, quantized.first.zero_point, quantized.first.scale2});
  specs_.reserve(source_specs_.size());
  tensors_.reserve(source_specs_.size());
  plans_.resize(source_specs_.size());
  for (std::uint32_t source = 0; source < source_specs_.size(); ++source) {
    if (parameters_.contains(source) && !needed.contains(source) &&
        !quantized_sources_.contains(source))
      continue;
    const TensorSpec& spec = source_specs_[source];
    if (auto status = add(source, spec, changes[source]); !status)
      return std::move(status).error().file(file(source)).tensor(spec.name);
  }
  return {};
}

Status Changes::add(std::uint32_t source, TensorSpec spec, const TensorChange& change) {
  if (const auto* how = std::get_if<QuantizeOptions>(&change))
    return add_quantized(source, spec, *how);
  if (const auto* how = std::get_if<Dequantize>(&change))
    return add_dequantized(source, spec, how->to);
  const auto* to = std::get_if<Dtype>(&change);
  if (to != nullptr) {
    for (const Dtype dtype : {spec.dtype, *to})
      if (!is_castable(dtype))
        return Error(Code::invalid_argument, "elements of this type cannot be cast")
            .found(std::string(dtype_name(dtype)))
            .expected("f32, f16, bf16 or f8_e4m3fn");
    spec.dtype = *to;
    ++cast_;
  }
  specs_.push_back(spec);
  tensors_.push_back(
      {source, to != nullptr ? NewTensor::Part::cast : NewTensor::Part::copy});
  return {};
}

Status Changes::add_quantized(std::uint32_t source, TensorSpec spec,
                              const QuantizeOptions& how) {
  WEIG_TRY_ASSIGN(plan, QuantizePlan::make(spec.dtype, spec.shape, how));
  plans_[source] = std::move(plan);
  spec.dtype = how.to;
  specs_.push_back(spec);
  tensors_.push_back({source, NewTensor::Part::codes});
  ++quantized_;
  spec.shape = plans_[source]->scale_shape();
  add_parameter(spec, ".scale", {source, NewTensor::Part::scales}, Dtype::f32);
  if (plans_[source]->zero_point_bytes() > 0)
    add_parameter(spec, ".zero_point", {source, NewTensor::Part::zero_points}, how.to);
  return {};
}

Status Changes::add_dequantized(std::uint32_t source, TensorSpec spec, Dtype to) {
  const auto& [q, whole] = quantized_sources_.at(source);
  if (q.scheme != 1)
    return Error(Code::unsupported, "its quantization scheme is not known")
        .found(q.scheme)
        .expected("1");
  if (q.scale2 != disk::kNone)
    return Error(Code::unsupported, "its scales have scales of their own");
  if (!whole || q.scale == disk::kNone)
    return Error(Code::unsupported, "its quantization needs a tensor left out");
  const TensorSpec& scale = source_specs_[q.scale];
  if (scale.dtype != Dtype::f32)
    return Error(Code::unsupported, "a parameter of its quantization has another type")
        .found(std::string(dtype_name(scale.dtype)) + " in '" +
               std::string(scale.name) + "'")
        .expected("f32");
  if (q.zero_point != disk::kNone && source_specs_[q.zero_point].dtype != spec.dtype)
    return Error(Code::unsupported, "a parameter of its quantization has another type")
        .found(std::string(dtype_name(source_specs_[q.zero_point].dtype)) + " in '" +
               std::string(source_specs_[q.zero_point].name) + "'")
        .expected(std::string(dtype_name(spec.dtype)));
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
      return Error(Code::exists, "quantizing adds a tensor whose name is taken")
          .tensor(name);
  return {};
}

std::vector<Quantization> Changes::entries(const Plan& plan) const {
  std::vector<Quantization> entries;
  if (quantized_ == 0) return entries;
  std::vector<Quantization> by_source(plans_.size(),
                                      Quantization{.tensor = disk::kNone,
                                                   .scheme = 1,
                                                   .axis = 0,
                                                   .block = 0,
                                                   .scale = 0,
                                                   .zero_point = disk::kNone,
                                                   .scale2 = disk::kNone,
                                                   .zero = 0});
  for (std::uint32_t ordinal = 0; ordinal < plan.size(); ++ordinal) {
    const NewTensor& tensor = tensors_[plan.order()[ordinal]];
    Quantization& entry = by_source[tensor.source];
    if (tensor.part == NewTensor::Part::codes) entry.tensor = ordinal;
    if (tensor.part == NewTensor::Part::scales) entry.scale = ordinal;
    if (tensor.part == NewTensor::Part::zero_points) entry.zero_point = ordinal;
  }
  for (std::size_t source = 0; source < by_source.size(); ++source) {
    if (by_source[source].tensor == disk::kNone) continue;
    by_source[source].axis = plans_[source]->axis();
    by_source[source].block = plans_[source]->block();
    entries.push_back(by_source[source]);
  }
  return entries;
}

// Leaves elements [offset, offset + bytes) of a source in `in_`, in this machine's
// order.
Status ChangeWriter::read_piece(std::uint32_t source, Dtype from, std::uint64_t offset,
                                std::uint64_t bytes) {
  in_.resize(bytes);
  WEIG_TRY(read_(source, offset, in_));
  swap_elements(in_, element_bytes(from));
  return {};
}

Status ChangeWriter::write(Writer& writer, std::size_t spec, Dtype from,
                           std::uint64_t bytes) {
  const NewTensor& tensor = changes_[spec];
  if (tensor.part == NewTensor::Part::cast)
    return write_cast(writer, spec, from, bytes);
  if (tensor.part == NewTensor::Part::codes) return write_codes(writer, spec);
  if (tensor.part == NewTensor::Part::numbers) return write_numbers(writer, spec);
  const auto kept =
      std::ranges::find(kept_, changes_.owner(tensor.source), &Parameters::source);
  if (tensor.part == NewTensor::Part::zero_points) {
    WEIG_TRY(writer.append(kept->zero_points));
    kept->zero_points.clear();
  } else {
    WEIG_TRY(writer.append(kept->scales));
    kept->scales.clear();
  }
  if (kept->scales.empty() && kept->zero_points.empty()) kept_.erase(kept);
  return {};
}

Status ChangeWriter::write_cast(Writer& writer, std::size_t spec, Dtype from,
                                std::uint64_t bytes) {
  const Dtype to = changes_.specs()[spec].dtype;
  const std::uint64_t piece = kPiece * element_bytes(from);
  for (std::uint64_t at = 0; at < bytes; at += piece) {
    WEIG_TRY(read_piece(changes_[spec].source, from, at, std::min(piece, bytes - at)));
    out_.resize(in_.size() / element_bytes(from) * element_bytes(to));
    WEIG_TRY(weig::cast(from, in_, to, out_));
    swap_elements(out_, element_bytes(to));
    WEIG_TRY(writer.append(out_));
    WEIG_TRY(tell_(in_.size()));
  }
  return {};
}

Result<std::vector<std::byte>> ChangeWriter::read_all(std::uint32_t source) {
  if (source == disk::kNone) return std::vector<std::byte>();
  std::vector<std::byte> bytes(changes_.source_bytes(source));
  WEIG_TRY(read_(source, 0, bytes));
  return bytes;
}

Status ChangeWriter::write_numbers(Writer& writer, std::size_t spec) {
  const std::uint32_t source = changes_[spec].source;
  const Quantization& q = changes_.quantization(source);
  const TensorSpec& codes = changes_.source_spec(source);
  const Dtype to = changes_.specs()[spec].dtype;
  WEIG_TRY_ASSIGN(scales, read_all(q.scale));
  swap_elements(scales, sizeof(float));
  WEIG_TRY_ASSIGN(zero_points, read_all(q.zero_point));
  const QuantizedTensor tensor{.dtype = codes.dtype,
                               .shape = codes.shape,
                               .axis = q.axis,
                               .block = q.block,
                               .bytes = {},
                               .scales = scales,
                               .zero_points = zero_points};
  auto dequantizer = Dequantizer::make(tensor, to);
  if (!dequantizer)
    return std::move(dequantizer)
        .error()
        .file(changes_.file(source))
        .tensor(codes.name);
  std::uint64_t count = 1;
  for (const std::uint64_t size : codes.shape) count *= size;
  const bool packed = codes.dtype == Dtype::i4 || codes.dtype == Dtype::u4;
  for (std::uint64_t at = 0; at < count; at += kPiece) {
    const std::uint64_t now = std::min(kPiece, count - at);
    in_.resize(packed ? now / 2 + now % 2 : now);
    WEIG_TRY(read_(source, packed ? at / 2 : at, in_));
    out_.resize(now * element_bytes(to));
    WEIG_TRY(dequantizer->dequantize(at, in_, out_));
    swap_elements(out_, element_bytes(to));
    WEIG_TRY(writer.append(out_));
    WEIG_TRY(tell_(in_.size()));
  }
  return {};
}

Status ChangeWriter::write_codes(Writer& writer, std::size_t spec) {
  const std::uint32_t source = changes_[spec].source;
  const QuantizePlan& plan = changes_.plan(source);
  const std::uint64_t unit = element_bytes(plan.from());
  const std::uint64_t count = plan.element_count();
  const std::uint64_t piece =
      plan.step() * std::max<std::uint64_t>(1, kPiece / plan.step());
  Quantizer quantizer(plan);
  const auto named = [&](Status status) -> Status {
    if (status) return status;
    return std::move(status)
        .error()
        .file(changes_.file(source))
        .tensor(changes_.specs()[spec].name);
  };
  for (std::uint64_t at = 0; at < count && plan.measures_first(); at += piece) {
    WEIG_TRY(
        read_piece(source, plan.from(), at * unit, std::min(piece, count - at) * unit));
    WEIG_TRY(named(quantizer.measure(at, in_)));
    WEIG_TRY(tell_(0));
  }
  const bool packed = plan.to() == Dtype::i4 || plan.to() == Dtype::u4;
  for (std::uint64_t at = 0; at < count; at += piece) {
    const std::uint64_t now = std::min(piece, count - at);
    WEIG_TRY(read_piece(source, plan.from(), at * unit, now * unit));
    out_.resize(packed ? now / 2 + now % 2 : now);
    WEIG_TRY(named(quantizer.quantize(at, in_, out_)));
    WEIG_TRY(writer.append(out_));
    WEIG_TRY(tell_(in_.size()));
  }
  Parameters& kept = kept_.emplace_back();
  kept.source = changes_.owner(source);
  const auto scales = std::as_bytes(quantizer.scales());
  kept.scales.assign(scales.begin(), scales.end());
  swap_elements(kept.scales, sizeof(float));
  kept.zero_points = quantizer.zero_points();
  return {};
}

}  // namespace weig
