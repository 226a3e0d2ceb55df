// SPDX-License-Identifier: Apache-2.0
#include "convert/change_writer.h"

#include <algorithm>
#include <bit>

#include "core/byteswap.h"
#include "core/try.h"
#include "store/codes.h"
#include "store/lora.h"

namespace weig {
namespace {

// Elements that are read, changed and written at a time.
constexpr std::uint64_t kPiece = std::uint64_t{1} << 20;

std::uint64_t element_bytes(Dtype dtype) { return dtype_info(dtype)->block_bytes; }

// Between the file's order of bytes and this machine's.
void swap_elements(MutableBytes bytes, std::uint64_t unit) {
  if constexpr (std::endian::native == std::endian::big)
    swap_in_place(bytes, static_cast<std::uint32_t>(unit));
}

}  // namespace

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
  if (tensor.part == NewTensor::Part::adapted) return write_adapted(writer, spec, from);
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
  for (std::uint64_t at = 0; at < count; at += kPiece) {
    const std::uint64_t now = std::min(kPiece, count - at);
    in_.resize(code_bytes(codes.dtype, now));
    WEIG_TRY(read_(source, code_bytes(codes.dtype, at), in_));
    out_.resize(now * element_bytes(to));
    WEIG_TRY(dequantizer->dequantize(at, in_, out_));
    swap_elements(out_, element_bytes(to));
    WEIG_TRY(writer.append(out_));
    WEIG_TRY(tell_(in_.size()));
  }
  return {};
}

// In pieces of whole rows, or of one row where those are long.
Status ChangeWriter::write_adapted(Writer& writer, std::size_t spec, Dtype from) {
  const std::uint32_t source = changes_[spec].source;
  const LoraModule& module = changes_.module(source);
  const LoraDelta delta(changes_.adapter(), module, from);
  const std::uint64_t unit = element_bytes(from);
  const std::uint64_t count = module.rows * module.columns;
  for (std::uint64_t first = 0; first < count;) {
    LoraPiece piece{.row = first / module.columns, .column = first % module.columns};
    piece.rows = std::min(std::max<std::uint64_t>(1, kPiece / module.columns),
                          module.rows - piece.row);
    piece.columns = std::min(kPiece, module.columns - piece.column);
    const std::uint64_t now = piece.rows * piece.columns;
    WEIG_TRY(read_piece(source, from, first * unit, now * unit));
    WEIG_TRY(delta.add(piece, in_));
    swap_elements(in_, unit);
    WEIG_TRY(writer.append(in_));
    WEIG_TRY(tell_(in_.size()));
    first += now;
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
  for (std::uint64_t at = 0; at < count; at += piece) {
    const std::uint64_t now = std::min(piece, count - at);
    WEIG_TRY(read_piece(source, plan.from(), at * unit, now * unit));
    out_.resize(code_bytes(plan.to(), now));
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
