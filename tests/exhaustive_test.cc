// SPDX-License-Identifier: Apache-2.0
// Every truncation and every changed byte of the golden files: refused with one clear
// error, or the same tensors. Without digests made right again, as damage happens.
#include <gtest/gtest.h>

#include "image.h"

namespace weig::test {
namespace {

// What opening these bytes gives: a description, or nothing where they are refused.
// The bytes lie in memory of their own, so that a read past the end is found.
std::optional<std::string> read_all(std::span<const std::byte> bytes,
                                    const ViewOptions& options) {
  const std::vector<std::byte> copy(bytes.begin(), bytes.end());
  const auto view = View::open(copy, options);
  if (!view) {
    EXPECT_FALSE(view.error().message().empty());
    return std::nullopt;
  }
  const auto text = describe(*view);
  if (!text || !view->check_sections()) return std::nullopt;
  return *text;
}

class Exhaustive : public testing::TestWithParam<const char*> {
 protected:
  Image image() const {
    const std::string_view name = GetParam();
    if (name == "basic") return Image::basic();
    if (name == "all_sections") return Image::all_sections();
    if (name == "small_model") return Image::small_model();
    return Image::minimal({{"w", Dtype::f32, {2, 3}}, {"b", Dtype::i16, {3}}});
  }
  ViewOptions options(Validation validation = Validation::full) const {
    return {.validation = validation, .unsealed = Unsealed::accept};
  }
};

TEST_P(Exhaustive, every_truncation_is_refused) {
  const Image whole = image();
  for (std::size_t length = 0; length < whole.size(); ++length)
    for (const auto validation : {Validation::full, Validation::lazy})
      ASSERT_FALSE(read_all(whole.span().first(length), options(validation))) << length;
}

TEST_P(Exhaustive, every_appended_byte_is_refused) {
  Image longer = image();
  longer.bytes.push_back(std::byte{0});
  EXPECT_FALSE(read_all(longer.span(), options()));
}

// Bytes that no digest covers: a minimal file has none at all, so only the sealed ones
// promise that what opens is unchanged.
TEST_P(Exhaustive, every_changed_byte_is_refused_or_harmless) {
  Image changed = image();
  const std::string before = *read_all(changed.span(), options());
  const bool sealed = changed.header(40) != 0;
  const std::uint64_t data_begin = changed.header(24);
  for (std::uint64_t at = 0; at < changed.size(); ++at) {
    const bool in_data =
        at >= data_begin && at < changed.size() - (sealed ? sizeof(disk::Trailer) : 0);
    if (in_data) continue;  // verify's part: verify_test.cc
    const std::byte old = changed.bytes[at];
    for (int bit = 0; bit < 8; ++bit) {
      changed.bytes[at] = old ^ static_cast<std::byte>(1 << bit);
      for (const auto validation : {Validation::full, Validation::lazy}) {
        const auto after = read_all(changed.span(), options(validation));
        if (sealed && validation == Validation::full) {
          ASSERT_TRUE(!after || *after == before) << "byte " << at << " bit " << bit;
        }
      }
    }
    changed.bytes[at] = old;
  }
}

// The same, but with all digests made right again: whoever forges a file gets an error
// or a file that obeys the rules, and nothing is read outside it (the sanitizers
// watch).
TEST_P(Exhaustive, every_forged_byte_is_survived) {
  const Image original = image();
  if (original.header(40) == 0) return;
  const std::uint64_t data_begin = original.header(24);
  for (std::uint64_t at = 0; at < data_begin; ++at) {
    for (const int value : {0x00, 0x01, 0x7F, 0x80, 0xFF}) {
      Image forged = original;
      forged.bytes[at] = static_cast<std::byte>(value);
      forged.reseal();
      const auto full = read_all(forged.span(), options());
      const auto lazy = read_all(forged.span(), options(Validation::lazy));
      if (full) {
        // What full accepts, lazy answers identically.
        ASSERT_TRUE(lazy) << "byte " << at;
        ASSERT_EQ(*full, *lazy) << "byte " << at;
      }
    }
  }
}

// A lazily opened file that full refuses never denies a tensor that it holds.
TEST_P(Exhaustive, lazy_never_denies_a_tensor) {
  const Image original = image();
  if (original.header(40) == 0) return;
  const View sound = original.open().value();
  std::vector<std::string> names;
  for (const auto& tensor : sound.tensors()) names.emplace_back(tensor->name());
  const std::uint64_t data_begin = original.header(24);
  for (std::uint64_t at = 0; at < data_begin; ++at) {
    Image damaged = original;
    damaged.bytes[at] ^= std::byte{0x10};
    const auto view = damaged.open({.validation = Validation::lazy});
    if (!view) continue;
    for (const std::string& name : names) {
      const auto found = view->find(name);
      ASSERT_FALSE(found && !*found) << "byte " << at << ", " << name;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Golden, Exhaustive,
                         testing::Values("basic", "all_sections", "small_model",
                                         "minimal"));

}  // namespace
}  // namespace weig::test
