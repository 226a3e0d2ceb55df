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

Result<FileInfo> file_info(const ModelSet& set) {
  FileInfo info;
  info.set = &set;
  info.shard = set.shard();
  Collector collector;
  collector.put(info.summary, summarize(set));
  collector.put(info.groups, set.groups());
  collector.put(info.metadata, set.metadata());
  collector.put(info.metadata_text, set.metadata_text());
  collector.put(info.source, set.source());
  info.has_digests = true;
  for (std::uint32_t m = 0; m < set.member_count(); ++m) {
    std::uint32_t quantized = 0;
    std::optional<std::span<const std::byte>> digests;
    collector.put(quantized, set.member(m)->quantization_count());
    collector.put(digests, set.member(m)->section(disk::SectionKind::digests));
    info.quantized += quantized;
    info.has_digests = info.has_digests && digests;
  }
  if (auto status = std::move(collector).status(); !status)
    return status.error().fields().file.empty()
               ? Error(status.error()).file(set.path(0))
               : status.error();
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
    case FileFormat::gguf:
      return "gguf";
    case FileFormat::safetensors:
      return "safetensors";
  }
  return "unknown";
}

}  // namespace weig::cli
