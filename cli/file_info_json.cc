// SPDX-License-Identifier: Apache-2.0
// FileInfo for programs: complete.
#include <string>

#include "file_info.h"
#include "json.h"
#include "tensor_text.h"

namespace weig::cli {
namespace {

void add_summary(Json& json, const Summary& summary) {
  json.member("tensors", summary.tensors).member("aliases", summary.aliases);
  json.member("parameters", summary.parameters).member("data_bytes", summary.bytes);
  json.key("dtypes").begin_array();
  for (const DtypeCount& count : summary.dtypes)
    json.begin_object()
        .member("dtype", dtype_text(count.dtype))
        .member("tensors", count.tensors)
        .member("parameters", count.parameters)
        .member("bytes", count.bytes)
        .end_object();
  json.end_array();
  json.key("alignment").begin_object();
  json.member("bytes", summary.alignment).member("tensors", summary.with_bytes);
  json.member("on_4_kib", summary.on_4_kib).member("on_2_mib", summary.on_2_mib);
  json.end_object();
}

void add_groups(Json& json, const std::vector<SetGroup>& groups) {
  json.key("groups").begin_array();
  for (const SetGroup& group : groups) {
    json.begin_object().member("name", group.name).member("first", group.first);
    json.member("count", group.count).end_object();
  }
  json.end_array();
}

void add_shard(Json& json, const std::optional<Shard>& shard) {
  json.key("shard");
  if (!shard) {
    json.null();
    return;
  }
  json.begin_object();
  json.member("set", digest_text({.low = shard->set_low, .high = shard->set_high}));
  json.member("member", shard->index + std::uint64_t{1});
  json.member("count", shard->count);
  json.member("tensors", shard->tensors).end_object();
}

// The files of a set; none for a file alone.
void add_members(Json& json, const FileInfo& info) {
  json.key("members").begin_array();
  for (std::uint32_t m = 0; info.is_set() && m < info.set->member_count(); ++m) {
    const Model& member = *info.set->member(m);
    json.begin_object().member("file", member.path()).member("tensors", member.size());
    json.member("file_size", member.file_size());
    json.member("file_id", digest_text(member.file_id())).end_object();
  }
  json.end_array();
}

void add_source(Json& json, const std::optional<SourceHeader>& source) {
  json.key("source");
  if (!source) {
    json.null();
    return;
  }
  const bool safetensors = source->format == SourceHeader::Format::safetensors;
  json.begin_object().member("format", safetensors ? "safetensors" : "gguf");
  json.member("file_size", source->file_size);
  json.member("header_size", source->header_size);
  json.member("header_digest", digest_text(source->digest)).end_object();
}

}  // namespace

void print_info_json(Output& output, const FileInfo& info) {
  const Model& model = info.first();
  Json json(output, 2);
  json.begin_object().member("file", model.path());
  json.member("format", format_identifier(model.format()));
  json.member("file_size", info.set->file_size()).member("sealed", model.sealed());
  json.key("file_id");
  model.sealed() && !info.is_set() ? json.value(digest_text(model.file_id()))
                                   : json.null();
  json.member("digests", info.has_digests);
  add_summary(json, info.summary);
  add_groups(json, info.groups);
  json.member("quantized_tensors", info.quantized);
  add_shard(json, info.shard);
  add_members(json, info);
  add_source(json, info.source);
  // The file's own JSON object, proven to be one when it was parsed.
  json.key("metadata").json(info.metadata_text.value_or("{}"));
  json.end_object();
}

}  // namespace weig::cli
