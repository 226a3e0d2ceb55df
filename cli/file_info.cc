// SPDX-License-Identifier: Apache-2.0
#include "file_info.h"

#include <utility>

namespace weig::cli {
namespace {

// Puts a Result's value where it belongs; remembers the first failure.
class Collector {
 public:
  template <typename T>
  void put(T& place, Result<T> result) {
    if (result)
      place = *std::move(result);
    else if (status_)
      status_ = std::move(result).error();
  }
  Status status() && { return std::move(status_); }

 private:
  Status status_;
};

}  // namespace

Result<FileInfo> file_info(const Model& model) {
  FileInfo info;
  info.model = &model;
  Collector collector;
  std::optional<std::span<const std::byte>> digests;
  collector.put(info.summary, summarize(model));
  collector.put(info.groups, model.groups());
  collector.put(info.metadata, model.metadata());
  collector.put(info.metadata_text, model.metadata_text());
  collector.put(info.source, model.source());
  collector.put(info.shard, model.shard());
  collector.put(info.quantized, model.quantization_count());
  collector.put(digests, model.section(disk::SectionKind::digests));
  info.has_digests = digests.has_value();
  if (auto status = std::move(collector).status(); !status)
    return Error(status.error()).file(model.path());
  return info;
}

std::string_view format_identifier(FileFormat format) noexcept {
  switch (format) {
    case FileFormat::weig:
      return "weig";
    case FileFormat::weig_minimal:
      return "weig_minimal";
    case FileFormat::weig_big_endian:
      return "weig_big_endian";
    case FileFormat::safetensors:
      return "safetensors";
  }
  return "unknown";
}

}  // namespace weig::cli
