// SPDX-License-Identifier: Apache-2.0
// A manifest of PyTorch's readers as text, for comparisons.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "formats/manifest.h"

namespace weig::test {

// "name dtype [shape] begin size", of a tensor that is not as it is also how it lies.
inline std::string shown(const Manifest& manifest, const Manifest::Entry& entry) {
  std::string out(manifest.name(entry));
  out += " " + std::string(dtype_name(entry.dtype)) + " ";
  for (const std::uint64_t size : manifest.shape(entry))
    out += std::to_string(size) + ",";
  out += " " + std::to_string(entry.begin) + " " + std::to_string(entry.size);
  if (entry.storage == Manifest::kAsItIs) return out;
  const ElementStorage& lies = manifest.storages[entry.storage];
  out += " of " + std::to_string(lies.size) + " strides";
  for (const std::uint64_t stride : lies.strides) out += " " + std::to_string(stride);
  return out + (lies.big_endian ? " big" : "");
}
inline std::string shown(const Result<Manifest>& manifest) {
  if (!manifest) return manifest.error().message();
  std::string out;
  for (const Manifest::Entry& entry : manifest->entries())
    out += (out.empty() ? "" : "; ") + shown(*manifest, entry);
  return out;
}

inline bool has(const std::vector<std::string>& lines, std::string_view part) {
  return std::ranges::any_of(
      lines, [&](const std::string& line) { return line.find(part) != line.npos; });
}

}  // namespace weig::test
