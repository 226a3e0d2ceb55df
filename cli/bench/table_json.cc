// SPDX-License-Identifier: Apache-2.0
#include <string_view>

#include "bench/table.h"
#include "file_info.h"
#include "json.h"

namespace weig::cli::bench {
namespace {

void member_or_null(Json& json, std::string_view name, const auto& value) {
  json.key(name);
  value ? json.value(*value) : json.null();
}

void texts(Json& json, std::string_view name, const std::vector<std::string>& texts) {
  json.key(name).begin_array();
  for (const std::string& text : texts) json.value(text);
  json.end_array();
}

void text_or_null(Json& json, std::string_view name, const std::string& text) {
  json.key(name);
  text.empty() ? json.null() : json.value(text);
}

void print_limit(Json& json, const MemoryLimit& limit) {
  json.member("limit", limit.limit).member("available", limit.available);
  json.member("source", limit.source);
}

void print_subject(Json& json, const Subject& subject) {
  json.member("file", subject.file);
  json.member("format", format_identifier(subject.format));
  json.member("file_size", subject.file_size);
  json.member("data_bytes", subject.data_bytes);
  json.member("tensors", subject.tensors);
  json.key("storage").begin_object();
  json.member("file_system", subject.storage.file_system);
  json.member("remote", subject.storage.remote);
  json.member("in_memory", subject.storage.in_memory);
  member_or_null(json, "read_ahead", subject.storage.read_ahead);
  json.end_object();
  json.key("memory").begin_object();
  print_limit(json, subject.memory);
  json.end_object();
  json.key("machine").begin_object();
  json.member("kernel", subject.kernel).member("processor", subject.processor);
  json.member("cpus", subject.cpus).end_object();
  json.member("threads", subject.threads);
}

void print_figures(Json& json, const Figures& figures) {
  json.member("total", figures.total());
  json.member("start", figures.start).member("open", figures.open);
  json.member("resident", figures.resident).member("first_use", figures.first_use);
  json.member("user", figures.user).member("system", figures.system);
  json.member("major_faults", figures.major_faults);
  json.member("minor_faults", figures.minor_faults);
  member_or_null(json, "huge_mapped", figures.huge_mapped);
  json.member("anonymous", figures.anonymous);
  json.member("file_backed", figures.file_backed);
  member_or_null(json, "device_bytes", figures.device_bytes);
  text_or_null(json, "chosen", figures.chosen);
  json.member("direct_io", figures.direct_io);
}

void print_sample(Json& json, const Sample& sample, State state) {
  json.begin_object().member("round", sample.round);
  json.member("order", sample.order);
  json.member("state", proof_text(sample.proof, state));
  member_or_null(json, "cached_before", sample.cached);
  member_or_null(json, "huge_folios_before", sample.huge_folios);
  json.member("backed_bytes", sample.backed);
  text_or_null(json, "failure", sample.failure);
  if (sample.figures) print_figures(json, *sample.figures);
  json.end_object();
}

void print_spread(Json& json, const std::optional<Spread>& spread) {
  if (!spread) {
    json.null();
    return;
  }
  json.begin_object().member("median", spread->median);
  json.member("min", spread->low).member("max", spread->high).end_object();
}

void print_samples(Json& json, std::string_view name,
                   const std::vector<Sample>& samples, State state) {
  json.key(name).begin_object().key("total");
  print_spread(json, total_of(samples));
  json.key("samples").begin_array();
  for (const Sample& sample : samples) print_sample(json, sample, state);
  json.end_array().end_object();
}

void print_row(Json& json, const Report& report, const Row& row) {
  json.begin_object().member("way", way_name(row.way));
  json.member("for", state_name(row.state));
  json.member("state", proof_text(proof_of(row.backed), row.state));
  json.key("refused");
  if (row.refusal.empty()) {
    json.null();
  } else {
    json.begin_object().member("reason", row.refusal).member("need", row.need);
    print_limit(json, row.limit);
    json.end_object();
  }
  const auto total = total_of(row.backed);
  const auto limit = raw_limit(report, row.state);
  json.key("of_raw");
  total&& limit ? json.value(total->median / *limit) : json.null();
  print_samples(json, "backed", row.backed, row.state);
  if (report.with_fresh) print_samples(json, "fresh", row.fresh, row.state);
  texts(json, "command", row.command);
  texts(json, "notes", row.notes);
  json.end_object();
}

}  // namespace

void print_json(Output& output, const Report& report) {
  Json json(output, 3);
  json.begin_object();
  print_subject(json, report.subject);
  json.member("rounds", report.rounds);
  json.member("memory_measured",
              "at the end of loading, with what was freed before it");
  json.key("rows").begin_array();
  for (const Row& row : report.rows) print_row(json, report, row);
  json.end_array();
  texts(json, "notes", report.notes);
  json.end_object();
}

}  // namespace weig::cli::bench
