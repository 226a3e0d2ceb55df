// SPDX-License-Identifier: Apache-2.0
// Reading the source section: a foreign file's header, so that the file can be given
// back byte for byte.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <weig/model_set.h>
#include <weig/view.h>

namespace weig {

// The header that a WEIG file keeps, checked against its digest; nothing where it keeps
// none. Fails with corrupt and limit.
Result<std::optional<std::string>> restore_source_header(const View& view);
// That of a set, in its first member.
Result<std::optional<std::string>> restore_source_header(const ModelSet& set);

// The tensors that such a header names, in order of their data in the source file: as
// ordinals of `view` or of the set, and where they began in that file.
struct SourceOrder {
  std::vector<std::uint32_t> ordinals;
  std::vector<std::uint64_t> begins;
};

// Fails with corrupt unless header and file have the same tensors, of the same types
// and shapes, and they are the whole source file, but for zeros between them.
Result<SourceOrder> source_order(const View& view, std::string_view header);
Result<SourceOrder> source_order(const ModelSet& set, std::string_view header);

// Metadata that convert() adds: "weig.source.sha256", or with ".FILE" for each of
// several. Not part of what goes back into other formats.
inline constexpr std::string_view kSourceKeys = "weig.source.";
inline constexpr std::string_view kSourceHashKey = "weig.source.sha256";

}  // namespace weig
