// SPDX-License-Identifier: Apache-2.0
#include "verify_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>

#include "host.h"
#include "json.h"
#include "quantity.h"
#include "terminal.h"

namespace weig::cli {
namespace {

std::size_t count_of(const VerifyReport& report, Code code) {
  return static_cast<std::size_t>(std::ranges::count_if(
      report.damages,
      [&](const Damage& damage) { return damage.error.code() == code; }));
}

bool is_damage(const Damage& damage) {
  const Code code = damage.error.code();
  return code == Code::corrupt || code == Code::checksum;
}

// One damaged place on one line: digests are for --json.
std::string damage_text(const Damage& damage) {
  const Error::Fields& fields = damage.error.fields();
  std::string text = is_damage(damage) ? "damaged: " : "not checked: ";
  if (fields.names_tensor) text += fmt::format("tensor {}, ", in_quotes(fields.tensor));
  text += fmt::format("bytes [{}, {}), {}: ", damage.begin, damage.end,
                      short_bytes(damage.end - damage.begin));
  if (damage.error.code() == Code::checksum)
    return text + "they differ from their digest";
  text += printable(fields.what);
  if (fields.offset != Error::kNoOffset && fields.offset != damage.begin)
    text += fmt::format(", at offset {}", fields.offset);
  if (!fields.found.empty()) text += ": found " + printable(fields.found);
  if (!fields.expected.empty())
    text += fmt::format("{} expected {}", fields.found.empty() ? ":" : ",",
                        printable(fields.expected));
  if (!fields.hint.empty()) text += fmt::format(" ({})", printable(fields.hint));
  return text;
}

std::string damages_text(const VerifyReport& report) {
  const std::size_t damaged =
      count_of(report, Code::corrupt) + count_of(report, Code::checksum);
  const std::size_t unchecked = report.damages.size() - damaged;
  std::string text =
      damaged > 0 ? counted(damaged, "damaged place") : "no damage found";
  if (unchecked > 0)
    text += fmt::format(", {} that cannot be checked", counted(unchecked, "place"));
  return text;
}

// What was checked, and how that came out.
std::string verdict(Scope scope, const VerifyReport& report, std::uint64_t tensors) {
  const std::string damages = report.sound() ? "" : damages_text(report) + "; ";
  if (scope == Scope::structure)
    return report.sound()
               ? "structure, sections and metadata are sound; weights were not checked"
               : damages + "only structure, sections and metadata were checked";
  if (report.tensors_with_digest == 0 && report.tensors > 0)
    return fmt::format("{}there are no {}digests to check the weights by",
                       report.sound() ? "the structure is sound; " : damages,
                       report.sound() ? "" : "sound ");
  const std::string checked =
      scope == Scope::everything
          ? counted(report.tensors_with_digest, "tensor")
          : fmt::format("{} of {}", grouped(report.tensors_with_digest),
                        counted(tensors, "tensor"));
  return fmt::format("{}{} checked; {}, {}, {}", report.sound() ? "sound, " : damages,
                     checked, short_bytes(report.bytes), duration(report.seconds),
                     rate(report.bytes, report.seconds));
}

std::string_view scope_name(Scope scope) {
  switch (scope) {
    case Scope::structure:
      return "structure";
    case Scope::some_tensors:
      return "some tensors";
    case Scope::everything:
      break;
  }
  return "everything";
}

void print_damage(Json& json, const Damage& damage) {
  const Error::Fields& fields = damage.error.fields();
  json.begin_object().member("code", code_name(damage.error.code()));
  json.key("tensor");
  fields.names_tensor ? json.value(fields.tensor) : json.null();
  json.member("begin", damage.begin).member("end", damage.end);
  json.member("what", fields.what);
  json.member("message", damage.error.message());
  json.end_object();
}

// All files together; `bytes` and times are sums.
VerifyReport total(const ModelCheck& check) {
  VerifyReport all;
  for (const FileCheck& file : check.files) {
    if (!file.report) continue;
    all.tensors += file.report->tensors;
    all.tensors_with_digest += file.report->tensors_with_digest;
    all.bytes += file.report->bytes;
    all.seconds += file.report->seconds;
    all.damages.insert(all.damages.end(), file.report->damages.begin(),
                       file.report->damages.end());
  }
  return all;
}

void print_members(Json& json, const ModelCheck& check) {
  json.key("members").begin_array();
  for (const FileCheck& file : check.files) {
    json.begin_object().member("file", file.file);
    json.member("sound", file.report && file.report->sound());
    json.member("tensors", file.tensors).key("error");
    file.report ? json.null() : json.value(file.report.error().message());
    json.end_object();
  }
  json.end_array().key("set_error");
  check.set_error ? json.value(check.set_error->message()) : json.null();
}

// Damage to the structure weighs more than damage to numbers, and what is damaged more
// than what could not be checked.
int weightiest(const std::vector<Code>& codes) {
  for (const Code code : {Code::corrupt, Code::checksum})
    if (std::ranges::find(codes, code) != codes.end()) return static_cast<int>(code);
  return codes.empty() ? 0 : static_cast<int>(codes.front());
}

}  // namespace

int status_of(const ModelCheck& check) {
  std::vector<Code> codes;
  for (const FileCheck& file : check.files) {
    if (!file.report) codes.push_back(file.report.error().code());
    if (file.report)
      for (const Damage& damage : file.report->damages)
        codes.push_back(damage.error.code());
  }
  if (check.set_error) codes.push_back(check.set_error->code());
  return weightiest(codes);
}

void print_file(Output& output, Scope scope, const FileCheck& file) {
  const auto print = [&output](const std::string& line) {
    output.print("{}\n", fitting(Stream::output, line, 2));
  };
  for (const Damage& damage : file.report->damages) print(damage_text(damage));
  print(printable(file.file) + ": " + verdict(scope, *file.report, file.tensors));
}

void print_set(Output& output, const ModelCheck& check) {
  std::uint64_t tensors = 0;
  for (const FileCheck& file : check.files) tensors += file.tensors;
  output.print("{}\n",
               fitting(Stream::output,
                       fmt::format("the set is whole: {}, {}, the set's id is theirs",
                                   counted(check.files.size(), "member"),
                                   counted(tensors, "tensor")),
                       2));
}

void print_json(Output& output, const std::string& file, Scope scope,
                const ModelCheck& check) {
  const VerifyReport report = total(check);
  const int status = status_of(check);
  Json json(output, 2);
  json.begin_object().member("file", file);
  json.member("checked", scope_name(scope));
  json.member("sound", status == 0).member("status", status);
  json.member("tensors", report.tensors);
  json.member("tensors_with_digest", report.tensors_with_digest);
  json.member("bytes", report.bytes).member("seconds", report.seconds);
  json.key("damages").begin_array();
  for (const Damage& damage : report.damages) print_damage(json, damage);
  json.end_array();
  if (check.is_set) print_members(json, check);
  json.end_object();
}

}  // namespace weig::cli
