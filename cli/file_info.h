// SPDX-License-Identifier: Apache-2.0
// FileInfo: all that `weig info` knows of a file or a set, and its two printed forms.
#pragma once

#include <weig/model_set.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "output.h"
#include "summary.h"

namespace weig::cli {

struct FileInfo {
  const ModelSet* set = nullptr;  // whatever follows points into it
  Summary summary;
  std::vector<SetGroup> groups;
  Metadata metadata;
  std::optional<std::string_view> metadata_text;
  std::optional<SourceHeader> source;
  std::optional<Shard> shard;
  std::uint32_t quantized = 0;
  bool has_digests = false;

  // The file, or the first of several.
  const Model& first() const { return *set->member(0); }
  bool is_set() const { return set->member_count() > 1; }
};

// Fails where a section is damaged. `set` must outlive the result.
Result<FileInfo> file_info(const ModelSet& set);

// "weig", "safetensors", ...: for programs.
std::string_view format_identifier(FileFormat format) noexcept;

// One screen; long values and lists are cut to fit `width` columns.
void print_info(Output& output, const FileInfo& info, std::size_t width);

// Everything.
void print_info_json(Output& output, const FileInfo& info);

}  // namespace weig::cli
