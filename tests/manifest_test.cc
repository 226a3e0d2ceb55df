// SPDX-License-Identifier: Apache-2.0
// What becomes a Manifest, and what is too much for one.
#include "formats/manifest.h"

#include <gtest/gtest.h>

#include "image.h"

namespace weig::test {
namespace {

TEST(Manifest, is_a_files_own_table) {
  const Image image = Image::basic();
  const View view = image.open().value();
  const Manifest manifest = manifest_of(view).value();
  ASSERT_EQ(manifest.entries().size(), view.size());
  EXPECT_EQ(manifest.name(manifest.entries()[0]), view[0]->name());
  EXPECT_EQ(manifest.data_begin, view.data_begin());
}

TEST(Manifest, names_that_overlap_are_copied_while_they_are_few) {
  const Image image = Image::overlapping_names(10);
  const View view = image.open({.unsealed = Unsealed::accept}).value();
  EXPECT_EQ(manifest_of(view)->entries().size(), 10u);
}

// Of a file that nobody has looked at whole.
TEST(Manifest, names_that_overlap_do_not_fill_the_memory) {
  // 1100 x 65,000 bytes and more, of a file of 220 KB.
  const Image image = Image::sealed_overlapping_names(1100);
  const View view = image.open({.validation = Validation::lazy}).value();
  const auto manifest = manifest_of(view);
  ASSERT_FALSE(manifest);
  EXPECT_EQ(manifest.error().code(), Code::limit);
  EXPECT_NE(manifest.error().message().find("overlap"), std::string::npos);
}

TEST(Names, that_overlap_a_little_are_no_harm) {
  const Image sealed = Image::sealed_overlapping_names(1'000);
  const auto view = sealed.open();
  ASSERT_TRUE(view) << view.error().message();
  EXPECT_EQ(view->find((*view)[3]->name()).value()->ordinal(), 3u);
  EXPECT_TRUE(
      Image::overlapping_names(1'000).open({.unsealed = Unsealed::accept}).has_value());
}

}  // namespace
}  // namespace weig::test
