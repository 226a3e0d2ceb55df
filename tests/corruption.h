// SPDX-License-Identifier: Apache-2.0
// What rows of rejections are made of: a change of a file, and how it is refused.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

#include "image.h"

namespace weig::test {

using Kind = disk::SectionKind;
using Change = std::function<void(Image&)>;

struct Row {
  const char* name;    // of the row in docs/format.md
  Change change;       // what is done to the file
  Code code;           // how it is refused
  const char* says;    // part of the message
  bool reseal = true;  // make digests right again
  const char* base = "basic";
};

// The ordinal of a tensor of the basic file.
inline std::uint64_t record_of(std::string_view name) {
  static const Image image = Image::basic();
  static const View view = image.open().value();
  return image.record(view.tensor(name)->ordinal());
}

template <typename T>
Change put(std::uint64_t at, T value) {
  return [=](Image& image) { image.set<T>(at, value); };
}
template <typename T>
Change put_in_record(const char* name, std::uint64_t field, T value) {
  return [=](Image& image) { image.set<T>(record_of(name) + field, value); };
}
template <typename T>
Change put_in_trailer(std::uint64_t field, T value) {
  return [=](Image& image) { image.set<T>(image.trailer() + field, value); };
}
template <typename T>
Change put_in_entry(Kind kind, std::uint64_t field, T value) {
  return [=](Image& image) { image.set<T>(image.section_entry(kind) + field, value); };
}
template <typename T>
Change put_in_section(Kind kind, std::uint64_t field, T value) {
  return [=](Image& image) { image.set<T>(image.section_offset(kind) + field, value); };
}

}  // namespace weig::test
