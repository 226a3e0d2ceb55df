// SPDX-License-Identifier: Apache-2.0
#include "raw_elements.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "elements.h"

namespace weig::cli {
namespace {

constexpr bool kSwap = std::endian::native == std::endian::big;

// Elements written between two looks at whether to stop.
constexpr std::uint64_t kBatch = std::uint64_t{1} << 20;

// Writes one element of `size` bytes in units of `unit`, each little-endian.
void write_element(Output& output, const void* data, std::size_t size,
                   std::size_t unit) {
  std::array<std::byte, 16> element;
  std::memcpy(element.data(), data, size);
  if constexpr (kSwap)
    for (std::size_t at = 0; at < size; at += unit)
      std::reverse(element.begin() + at, element.begin() + at + unit);
  else
    static_cast<void>(unit);
  output.write(std::span<const std::byte>(element.data(), size));
}

template <typename T>
void write_number(Output& output, T number) {
  write_element(output, &number, sizeof number, sizeof number);
}

// Calls `write(element)` for each element of the selection, in order.
template <typename Write>
void for_each_element(Output& output, const Selection& selection, Write write) {
  Runs runs(selection);
  while (const auto run = runs.next()) {
    std::uint64_t element = run->first;
    for (std::uint64_t i = 0; i < run->count; ++i) {
      if (i % kBatch == 0 && output.stopped()) return;
      write(element);
      element += static_cast<std::uint64_t>(run->stride);
    }
  }
}

// Gathers bits into bytes, from the least significant up.
class BitPacker {
 public:
  explicit BitPacker(Output& output) : output_(output) {}

  void add(std::uint64_t bits, std::uint32_t count) {
    pending_ |= bits << pending_bits_;
    pending_bits_ += count;
    while (pending_bits_ >= 8) {
      write_byte();
      pending_ >>= 8;
      pending_bits_ -= 8;
    }
  }
  // Spare bits of the last byte are 0.
  void finish() {
    if (pending_bits_ > 0) write_byte();
  }

 private:
  void write_byte() { write_number(output_, static_cast<std::uint8_t>(pending_)); }

  Output& output_;
  std::uint64_t pending_ = 0;
  std::uint32_t pending_bits_ = 0;
};

void write_whole_bytes(Output& output, const Tensor& tensor,
                       const Selection& selection) {
  const DtypeInfo& info = *dtype_info(tensor.dtype());
  const std::uint64_t size = info.block_bytes;
  Runs runs(selection);
  while (const auto run = runs.next()) {
    const std::byte* at = tensor.data() + run->first * size;
    if ((run->stride == 1 || run->count == 1) && !kSwap) {
      output.write(std::span<const std::byte>(at, run->count * size));
      continue;
    }
    for (std::uint64_t i = 0; i < run->count; ++i) {
      if (i % kBatch == 0 && output.stopped()) return;
      const auto step = run->stride * static_cast<std::int64_t>(i * size);
      write_element(output, at + step, size, info.swap_unit);
    }
  }
}

}  // namespace

Dtype widened(Dtype dtype) noexcept {
  const DtypeInfo* info = dtype_info(dtype);
  if (info == nullptr || info->is_block()) return dtype;
  if (dtype == Dtype::complex32 || dtype == Dtype::bcomplex32) return Dtype::complex64;
  const auto elements = Elements::of(dtype, nullptr);
  switch (elements->kind()) {
    case Kind::signed_integer:
      return elements->bits() < 8 ? Dtype::i8 : dtype;
    case Kind::unsigned_integer:
      return elements->bits() < 8 ? Dtype::u8 : dtype;
    case Kind::real:
      return elements->bits() <= 8 || dtype == Dtype::bf16 ? Dtype::f32 : dtype;
    case Kind::boolean:
    case Kind::complex:
      break;
  }
  return dtype;
}

void write_bytes(Output& output, const Tensor& tensor) {
  const DtypeInfo* info = dtype_info(tensor.dtype());
  if (!kSwap || info == nullptr || info->swap_unit == 1)
    return output.write(tensor.bytes());
  for (std::uint64_t at = 0; at < tensor.byte_count(); at += info->swap_unit)
    write_element(output, tensor.data() + at, info->swap_unit, info->swap_unit);
}

void write_elements(Output& output, const Tensor& tensor, const Selection& selection) {
  const auto elements = *Elements::of(tensor.dtype(), tensor.data());
  if (elements.bits() >= 8) return write_whole_bytes(output, tensor, selection);
  BitPacker packer(output);
  for_each_element(output, selection, [&](std::uint64_t element) {
    packer.add(elements.raw(element), elements.bits());
  });
  packer.finish();
}

void write_widened(Output& output, const Tensor& tensor, const Selection& selection) {
  const auto elements = *Elements::of(tensor.dtype(), tensor.data());
  const Dtype target = widened(tensor.dtype());
  const bool truth = target == Dtype::boolean;
  if (target == tensor.dtype() && !truth)
    return write_elements(output, tensor, selection);
  const bool complex = target == Dtype::complex64;
  for_each_element(output, selection, [&](std::uint64_t element) {
    if (truth) {
      write_number(output, static_cast<std::uint8_t>(elements.raw(element) != 0));
    } else if (complex) {
      write_number(output, static_cast<float>(elements.real(2 * element)));
      write_number(output, static_cast<float>(elements.real(2 * element + 1)));
    } else if (target == Dtype::f32) {
      write_number(output, static_cast<float>(elements.real(element)));
    } else if (target == Dtype::i8) {
      write_number(output, static_cast<std::int8_t>(elements.integer(element)));
    } else {
      write_number(output, static_cast<std::uint8_t>(elements.raw(element)));
    }
  });
}

}  // namespace weig::cli
