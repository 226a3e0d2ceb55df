// SPDX-License-Identifier: Apache-2.0
#include <weig/view.h>

#include "core/claim.h"
#include "core/record.h"
#include "fields.h"
#include "image.h"
#include "mutate.h"

namespace weig::fuzz {
namespace {

// Changes `length` bytes at `at`, without moving what lies around.
void mutate_in_place(Input& input, std::uint64_t at, std::uint64_t length,
                     RawMutation raw) {
  if (length == 0 || !fits(at, length, input.size())) return;
  std::vector<std::uint8_t> part(length);
  std::memcpy(part.data(), input.data() + at, length);
  const std::size_t left = raw(part.data(), length, length);
  std::memcpy(input.data() + at, part.data(), std::min<std::size_t>(left, length));
}

void change_field(Input& input, Random& random) {
  const std::vector<Field> fields = fields_of(input);
  if (fields.empty()) return;
  const Field field = random.pick(fields);
  const std::uint64_t old = get(input, field);
  const std::vector<std::uint64_t> edges = edges_of(input);
  switch (random.below(5)) {
    case 0:
      return set(input, field, random.pick(edges));
    case 1:  // another field's value: two records at one place, say
      return set(input, field, get(input, random.pick(fields)));
    case 2:
      return set(input, field, old ^ std::uint64_t{1} << random.below(64));
    case 3: {
      constexpr std::uint64_t kSteps[] = {1, 8, 48, 64, 4096};
      const std::uint64_t step = random.pick(kSteps);
      return set(input, field, random.one_in(2) ? old + step : old - step);
    }
    default:
      return set(input, field, random.below(64));
  }
}

// One record over another, or two in each other's place.
void move_records(Input& input, Random& random) {
  const disk::Header header = load_header(input, byte_order(input));
  const std::uint64_t count = std::min<std::uint64_t>(header.tensor_count, 64);
  if (count < 2 ||
      !fits(header.meta_offset, count * sizeof(disk::TensorMeta), input.size()))
    return;
  std::byte* table = input.data() + header.meta_offset;
  std::byte* a = table + random.below(count) * sizeof(disk::TensorMeta);
  std::byte* b = table + random.below(count) * sizeof(disk::TensorMeta);
  if (a == b) return;
  if (random.one_in(2)) {
    std::swap_ranges(a, a + sizeof(disk::TensorMeta), b);
  } else {
    std::memcpy(a, b, sizeof(disk::TensorMeta));
  }
}

// Longer or shorter by a few bytes or pages, before the trailer.
void resize(Input& input, std::size_t max_size, Random& random) {
  constexpr std::uint64_t kSteps[] = {1, 8, 63, 64, 128, 4096};
  const std::uint64_t step = random.pick(kSteps);
  const std::size_t tail = std::min(input.size(), sizeof(disk::Trailer));
  const auto at = input.end() - static_cast<std::ptrdiff_t>(tail);
  if (random.one_in(2)) {
    if (input.size() + step <= max_size) input.insert(at, step, std::byte{0});
  } else if (input.size() >= step + tail) {
    input.erase(at - static_cast<std::ptrdiff_t>(step), at);
  }
}

constexpr std::uint64_t kDimensions[] = {0, 1, 2, 3, 8, 32, 64, 256};
constexpr std::string_view kNames[] = {
    "a",   "b", "h.0.w",   "h.0.b",    "h.1.w",   "h.10.w", "h.010.w", "..",
    "0.0", "",  "x.1.y.2", "\xC3\xA9", "a\x01\n", "h.1",    "12345678"};

void change_tensor(test::ImageTensor& tensor, std::size_t others, Random& random) {
  switch (random.below(5)) {
    case 0:
      tensor.name = random.pick(kNames);
      return;
    case 1:
      tensor.name += random.pick(kNames);
      return;
    case 2:
      tensor.dtype = kDtypes[random.below(kDtypes.size())].dtype;
      return;
    case 3:
      tensor.shape.resize(random.one_in(20) ? 64 : random.below(5), 1);
      for (std::uint64_t& dimension : tensor.shape)
        if (tensor.shape.size() < 5) dimension = random.pick(kDimensions);
      return;
    default:
      tensor.shares = random.one_in(2)
                          ? TensorSpec::kOwn
                          : static_cast<std::uint32_t>(random.below(others));
  }
}

bool is_writable(const std::vector<test::ImageTensor>& tensors, std::size_t max_size) {
  std::vector<TensorSpec> specs;
  std::size_t front = 0;
  for (const auto& tensor : tensors) {
    specs.push_back({.name = tensor.name,
                     .dtype = tensor.dtype,
                     .shape = tensor.shape,
                     .shares = tensor.shares});
    front += tensor.name.size() + 128;
  }
  const auto plan = Plan::make(specs);
  return plan && plan->data_bytes() + front + 4096 <= max_size;
}

// Written anew by our own planner with tensors added, removed and changed.
void rebuild(Input& input, std::size_t max_size, Random& random) {
  const auto view = View::open(input, {.unsealed = Unsealed::accept});
  std::vector<test::ImageTensor> tensors;
  std::vector<SectionBytes> sections;
  for (std::uint64_t i = 0; view && i < std::min<std::uint64_t>(view->size(), 40);
       ++i) {
    const Tensor tensor = (*view)[i].value();
    tensors.push_back({.name = std::string(tensor.name()),
                       .dtype = tensor.dtype(),
                       .shape = {tensor.shape().begin(), tensor.shape().end()}});
  }
  for (const std::uint32_t kind : {3u, 4u, 6u, 7u, 0x80000000u}) {
    if (!view || random.one_in(8)) continue;
    const auto bytes = view->section(static_cast<disk::SectionKind>(kind));
    if (bytes && *bytes)
      sections.push_back(
          {static_cast<disk::SectionKind>(kind), {(*bytes)->begin(), (*bytes)->end()}});
  }
  for (std::uint64_t changes = 1 + random.below(4); changes > 0; --changes) {
    const std::uint64_t at = tensors.empty() ? 0 : random.below(tensors.size());
    if (tensors.empty() || random.one_in(4)) {
      tensors.push_back({.name = "n" + std::to_string(random.below(100)),
                         .dtype = Dtype::u8,
                         .shape = {random.pick(kDimensions)}});
    } else if (random.one_in(6)) {
      tensors.erase(tensors.begin() + static_cast<std::ptrdiff_t>(at));
    } else {
      change_tensor(tensors[at], tensors.size(), random);
    }
  }
  if (!is_writable(tensors, max_size)) return;
  test::Image image =
      random.one_in(4)
          ? test::Image::minimal(tensors, ByteOrder::little, random.one_in(2) ? 64 : 1)
          : test::Image::sealed(tensors, std::move(sections));
  if (image.size() <= max_size) input = std::move(image.bytes);
}

// A new big-endian file.
void rebuild_big_endian(Input& input, std::size_t max_size, Random& random) {
  std::vector<test::ImageTensor> tensors;
  for (std::uint64_t n = random.below(5); n > 0; --n) {
    tensors.push_back(
        {.name = "n" + std::to_string(n), .dtype = Dtype::u8, .shape = {1}});
    change_tensor(tensors.back(), 1, random);
    tensors.back().shares = TensorSpec::kOwn;
  }
  if (!is_writable(tensors, max_size)) return;
  input =
      test::Image::minimal(tensors, ByteOrder::big, random.one_in(2) ? 64 : 1).bytes;
}

void mutate_section(Input& input, Random& random, RawMutation raw) {
  const disk::Header header = load_header(input);
  if (header.section_count == 0) return;
  const std::uint64_t at = header.section_offset + random.below(std::min<std::uint64_t>(
                                                       header.section_count, 16)) *
                                                       sizeof(disk::SectionEntry);
  if (!fits(at, sizeof(disk::SectionEntry), input.size())) return;
  const disk::SectionEntry entry = load_section(input.data() + at);
  mutate_in_place(input, entry.offset, entry.size, raw);
}

void mutate_once(Input& input, std::size_t max_size, Random& random, RawMutation raw) {
  const bool big = byte_order(input) == ByteOrder::big;
  const disk::Header header = load_header(input, byte_order(input));
  switch (random.below(16)) {
    case 0:
    case 1:
      return big ? rebuild_big_endian(input, max_size, random)
                 : rebuild(input, max_size, random);
    case 2:
      return move_records(input, random);
    case 3:
      return resize(input, max_size, random);
    case 4:
    case 5:
      return mutate_section(input, random, raw);
    case 6: {  // names and shapes
      const std::uint64_t begin =
          header.meta_offset + header.tensor_count * sizeof(disk::TensorMeta);
      const std::uint64_t end = big ? header.data_offset : header.section_offset;
      return mutate_in_place(input, begin, end > begin ? end - begin : 0, raw);
    }
    case 7:
      return mutate_in_place(input, random.below(input.size()), 1, raw);
    default:
      return change_field(input, random);
  }
}

}  // namespace

void mutate_weig(Input& input, std::size_t max_size, Random& random, RawMutation raw) {
  if (input.size() < sizeof(disk::Header) || random.one_in(32)) {
    mutate_raw(input, max_size, random, raw);
  } else {
    for (std::uint64_t n = random.one_in(2) ? 1 : 1 + random.below(4); n > 0; --n)
      if (input.size() >= sizeof(disk::Header))
        mutate_once(input, max_size, random, raw);
  }
  // Now and then as damage leaves a file.
  if (!random.one_in(16))
    repair(input, {.ends = !random.one_in(8),
                   .index = random.one_in(2),
                   .digests = !random.one_in(4)});
}

}  // namespace weig::fuzz
