// SPDX-License-Identifier: Apache-2.0
// In place of store/metadata.cc, which needs simdjson: takes any metadata for read.
#include <weig/metadata.h>

namespace weig {

Result<Metadata> Metadata::parse(std::string_view, const MetadataLimits&) {
  return Metadata();
}

}  // namespace weig
