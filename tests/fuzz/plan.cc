// SPDX-License-Identifier: Apache-2.0
// The writer's side of the core: any list of tensors is refused with a reason, or its
// planned file opens, holds these tensors, and does not depend on the list's order.
#include <weig/writer.h>

#include "answers.h"
#include "check.h"
#include "core/digest.h"
#include "core/layout.h"
#include "core/text.h"
#include "target.h"

namespace weig::fuzz {
namespace {

// Takes numbers and text off the front of the input; zeros and nothing at its end.
class Reader {
 public:
  explicit Reader(Bytes bytes) : bytes_(bytes) {}
  std::uint64_t number(std::size_t width) {
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < width; ++i)
      value |= std::to_integer<std::uint64_t>(byte()) << (8 * i);
    return value;
  }
  std::string_view text(std::size_t length) {
    const Bytes taken = bytes_.first(std::min(length, bytes_.size()));
    bytes_ = bytes_.subspan(taken.size());
    return text_of(taken);
  }
  bool at_end() const { return bytes_.empty(); }

 private:
  std::byte byte() {
    if (bytes_.empty()) return std::byte{0};
    const std::byte first = bytes_.front();
    bytes_ = bytes_.subspan(1);
    return first;
  }
  Bytes bytes_;
};

// Names are often a prefix that others have too, so that there are groups.
constexpr std::string_view kPrefixes[] = {
    "", "h.1.", "h.02.", "h.2.", "model.layers.10.", "."};

struct Wish {
  std::string name;
  std::uint32_t dtype = 0;
  std::vector<std::uint64_t> shape;
  std::uint32_t shares = TensorSpec::kOwn;
};

Wish read_wish(Reader& reader) {
  Wish wish;
  const std::uint64_t head = reader.number(2);
  wish.name = kPrefixes[head % std::size(kPrefixes)];
  wish.name += reader.text(head / 8 % 16);
  if (head % 1021 == 0) wish.name.append(65'530, 'n');
  wish.dtype = static_cast<std::uint32_t>(reader.number(1));
  if (wish.dtype >= 0x80) wish.dtype += kGgmlBase - 0x80;
  const std::uint64_t form = reader.number(1);
  const std::uint64_t rank = form == 0xFF ? 65 : form % 5;
  for (std::uint64_t d = 0; d < rank; ++d) {
    const std::uint64_t small = reader.number(1);
    wish.shape.push_back(small == 0xFF   ? reader.number(8)
                         : small == 0xFE ? 256 * reader.number(2)
                         : small == 0xFD ? 32
                                         : small % 8);
  }
  if (form & 0x80) wish.shares = static_cast<std::uint32_t>(form >> 5 & 3);
  return wish;
}

// Sections as a caller gives them. `kOdd`: one of any kind, empty, which may be
// unsound.
constexpr std::uint64_t kOdd = 0xFF;
std::vector<SectionBytes> read_sections(Reader& reader, std::uint64_t which) {
  std::vector<SectionBytes> sections;
  const auto add = [&](std::uint32_t kind, Bytes bytes) {
    sections.push_back(
        {static_cast<disk::SectionKind>(kind), {bytes.begin(), bytes.end()}});
  };
  if (which & 1) add(3, bytes_of("{\"k\":\"v\"}"));
  if (which & 2) add(0x80000000, bytes_of(reader.text(which >> 2)));
  if (which == kOdd) add(static_cast<std::uint32_t>(reader.number(1)), {});
  return sections;
}

// The planned file, with bytes that differ from tensor to tensor.
Input write(Front& front, const Plan& plan) {
  Input image(front.file_size);
  std::vector<Digest> digests;
  for (std::uint32_t i = 0; i < plan.size(); ++i) {
    const auto data = MutableBytes(image).subspan(front.data_offset + plan.offset(i),
                                                  plan.byte_count(i));
    for (std::size_t at = 0; !plan.is_alias(i) && at < data.size(); ++at)
      data[at] = static_cast<std::byte>(i * 7 + at + 1);
    digests.push_back(xxh3_128(data));
  }
  const auto trailer = seal(front, digests);
  std::ranges::copy(front.bytes, image.begin());
  std::ranges::copy(trailer, image.end() - sizeof(disk::Trailer));
  return image;
}

void promise_layout(std::span<const TensorSpec> specs, const Plan& plan,
                    const View& view) {
  std::string_view last_owner;
  std::uint64_t end = 0;
  for (std::uint32_t i = 0; i < plan.size(); ++i) {
    const TensorSpec& spec = specs[plan.order()[i]];
    const Tensor tensor = view[i].value();
    promise(tensor.name() == spec.name && tensor.dtype() == spec.dtype &&
                std::ranges::equal(tensor.shape(), spec.shape) &&
                tensor.byte_count() == plan.byte_count(i),
            "a tensor is read as it was planned", spec.name);
    promise((view.owner(i).value() != i) == plan.is_alias(i),
            "aliases are those that were planned", spec.name);
    promise(view.digest(i).value() == xxh3_128(tensor.bytes()), "digests are right");
    if (plan.is_alias(i)) continue;
    promise(i == 0 || natural_compare(last_owner, spec.name) < 0,
            "owners come in natural order", spec.name);
    last_owner = spec.name;
    promise(plan.offset(i) >= end, "data does not overlap", spec.name);
    promise(is_aligned(tensor.data_offset(), layout_alignment(tensor.byte_count())),
            "a tensor has the alignment of its size", spec.name);
    end = plan.offset(i) + plan.byte_count(i);
  }
  promise(plan.data_bytes() == end, "data ends with the last tensor");
  const auto groups = view.groups().value();
  promise(groups.size() == plan.groups().size(), "groups are those that were planned");
}

}  // namespace

void run_plan(Bytes input) {
  Reader reader(input);
  const std::uint64_t which = reader.number(1);
  const std::vector<SectionBytes> sections = read_sections(reader, which);
  std::vector<Wish> wishes;
  while (!reader.at_end() && wishes.size() < 64) wishes.push_back(read_wish(reader));
  std::vector<TensorSpec> specs;
  for (const Wish& wish : wishes)
    specs.push_back({.name = wish.name,
                     .dtype = static_cast<Dtype>(wish.dtype),
                     .shape = wish.shape,
                     .shares = wish.shares});
  const auto plan = Plan::make(specs);
  if (!plan) {
    failure(plan.error());
    return;
  }
  auto front = build_front(specs, *plan, sections);
  if (!front) {
    failure(front.error());
    return;
  }
  std::vector<TensorSpec> reversed(specs.rbegin(), specs.rend());
  const auto other_plan = Plan::make(reversed).value();
  const auto other_front = build_front(reversed, other_plan, sections).value();
  promise(
      other_front.bytes == front->bytes && other_front.file_size == front->file_size,
      "a file does not depend on the order of its list");
  if (front->file_size > 1 << 20) return;
  const Block image(write(*front, *plan));
  const auto view = View::open(image.bytes());
  promise(view.has_value(), "a file that we write opens",
          view ? "" : failure(view.error()));
  promise_sound(*view);
  answers(*view);
  promise(which == kOdd || view->check_sections().has_value(),
          "sections that we write are sound");
  promise_layout(specs, *plan, *view);
}

}  // namespace weig::fuzz
