// SPDX-License-Identifier: Apache-2.0
// The bytes of files, which never change meaning, and are the same on every machine.
#include <gtest/gtest.h>

#include <algorithm>

#include "core/byteswap.h"
#include "golden.h"

namespace weig::test {
namespace {

TEST(Golden, basic_file) { expect_golden("basic.weig", Image::basic()); }

TEST(Golden, file_with_all_sections) {
  expect_golden("all_sections.weig", Image::all_sections());
}

TEST(Golden, file_of_24_tensors_with_all_sections) {
  expect_golden("small_model.weig", Image::small_model());
}

TEST(Golden, file_without_tensors) {
  expect_golden("empty.weig",
                Image::sealed({}, {{disk::SectionKind::metadata, to_bytes("{}")}}));
}

TEST(Golden, minimal_file) {
  expect_golden("minimal.weig", Image::minimal({{"w", Dtype::f32, {2, 3}},
                                                {"b", Dtype::i16, {3}},
                                                {"s", Dtype::f64, {}}}));
}

TEST(Golden, big_endian_file) {
  expect_golden("big_endian.weig", Image::minimal({{"w", Dtype::f32, {2, 3}},
                                                   {"b", Dtype::i16, {3}},
                                                   {"s", Dtype::f64, {}}},
                                                  ByteOrder::big));
}

// The same tensors through the Writer and a real file give the same bytes.
TEST(Golden, writer_makes_the_planned_bytes) {
  const Image image = Image::basic();
  const View view = image.open().value();
  std::vector<TensorData> tensors;
  std::vector<std::vector<std::uint64_t>> shapes;
  std::vector<std::vector<std::byte>> elements;  // in this machine's byte order
  shapes.reserve(view.size());
  for (const Result<Tensor>& tensor : view.tensors()) {
    elements.emplace_back(tensor->bytes().begin(), tensor->bytes().end());
    if (kNativeOrder == ByteOrder::big)
      swap_in_place(elements.back(), dtype_info(tensor->dtype())->swap_unit);
    shapes.emplace_back(tensor->shape().begin(), tensor->shape().end());
    const std::uint32_t owner = view.owner(tensor->ordinal()).value();
    const bool shared = owner != tensor->ordinal() ||
                        (tensor->ordinal() + 1 < view.size() &&
                         view.owner(tensor->ordinal() + 1).value() == owner);
    tensors.push_back({.spec = {.name = tensor->name(),
                                .dtype = tensor->dtype(),
                                .shape = shapes.back(),
                                .shares = shared ? owner : TensorSpec::kOwn},
                       .bytes = elements.back()});
  }
  std::ranges::reverse(tensors);  // the order given does not matter
  const Folder folder;
  save(folder.path("a.weig"), tensors, *view.metadata_text().value()).value();
  EXPECT_TRUE(read_file(folder.path("a.weig")) == image.bytes);
}

}  // namespace
}  // namespace weig::test
