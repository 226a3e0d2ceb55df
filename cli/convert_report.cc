// SPDX-License-Identifier: Apache-2.0
#include "convert_report.h"

#include <fmt/format.h>

#include <string>
#include <vector>

#include "json.h"
#include "quantity.h"
#include "tensor_text.h"
#include "terminal.h"

namespace weig::cli {
namespace {

constexpr std::size_t kFilesShown = 4;

std::string joined(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

}  // namespace

void warn_of_name(ConvertReport& report) {
  for (const std::string_view name : export_format_names()) {
    if (!report.output.ends_with("." + std::string(name))) continue;
    report.warnings.push_back(fmt::format(
        "{} is a WEIG file, whatever its name says: 'weig export' writes {} files",
        report.output, name));
  }
}

void tell_more(const ConvertReport& report, OtherFiles others_were) {
  for (const std::string& warning : report.warnings) warn(warning);
  const bool copied = others_were == OtherFiles::copy;
  const auto& others = report.other_files;
  const auto& left = report.left_behind;
  if (copied && !others.empty()) tell("weig: copied too: " + printable(joined(others)));
  if (left.empty()) return;
  std::string hint;
  if (!copied && !others.empty())
    hint = others.size() == left.size()
               ? " (--copy-others copies them)"
               : " (--copy-others copies those without weights)";
  tell("weig: left behind: " + printable(joined(left)) + hint);
}

namespace {

// Of a set, the first few files and the last.
void print_files(Output& output, const ConvertReport& report) {
  if (report.members.empty()) return output.print("{}\n", printable(report.output));
  const std::size_t count = report.members.size();
  for (std::size_t m = 0; m < count; ++m) {
    if (m == kFilesShown && count > kFilesShown + 2) {
      output.print("...\n");
      m = count - 1;
    }
    output.print("{}\n", printable(report.members[m].path));
  }
}

void print_text(Output& output, const ConvertReport& report) {
  print_files(output, report);
  output.print("  tensors  {}", grouped(report.tensors));
  if (report.aliases > 0)
    output.print(", of them {} (shared bytes, stored once)",
                 counted(report.aliases, "alias"));
  if (report.left_out > 0)
    output.print("\n  left out {}", counted(report.left_out, "tensor"));
  if (report.renamed > 0)
    output.print("\n  renamed  {}", counted(report.renamed, "tensor"));
  if (report.cast > 0)
    output.print("\n  changed  {}, cast", counted(report.cast, "tensor"));
  if (report.adapted > 0)
    output.print("\n  changed  {}, with the adapter",
                 counted(report.adapted, "tensor"));
  if (report.quantized > 0)
    output.print("\n  changed  {}, quantized: integers and their scales",
                 counted(report.quantized, "tensor"));
  if (report.dequantized > 0)
    output.print("\n  changed  {}, dequantized", counted(report.dequantized, "tensor"));
  output.print("\n  data     {}\n", full_bytes(report.data_bytes));
  if (!report.members.empty())
    output.print("  members  {}\n", grouped(report.members.size()));
  const double percent = 100.0 * static_cast<double>(report.padding_bytes) /
                         static_cast<double>(report.file_size);
  output.print("  padding  {}, {:.2f} % of the {}\n", full_bytes(report.padding_bytes),
               percent, report.members.empty() ? "file" : "files");
  output.print("  {}    {}\n", report.members.empty() ? "file " : "files",
               full_bytes(report.file_size));
  output.print("  time     {}, {}\n", duration(report.seconds),
               rate(report.file_size, report.seconds));
  const bool changed = report.cast + report.dequantized + report.adapted > 0;
  output.print("  export   {}\n",
               report.exact_source ? "gives the source back byte for byte"
               : report.quantized > 0
                   ? "gives the changed tensors, unless they have 4 bits"
               : changed ? "gives the changed tensors"
                         : "gives the same tensors, not the same bytes");
}

void print_names(Json& json, std::string_view key,
                 const std::vector<std::string>& names) {
  json.key(key).begin_array();
  for (const std::string& name : names) json.value(name);
  json.end_array();
}

void print_members(Json& json, const ConvertReport& report) {
  json.key("members").begin_array();
  for (const ConvertedMember& member : report.members) {
    json.begin_object().member("file", member.path).member("tensors", member.tensors);
    json.member("file_size", member.file_size);
    json.member("file_id", digest_text(member.file_id)).end_object();
  }
  json.end_array();
}

void print_json(Output& output, const ConvertReport& report) {
  Json json(output);
  json.begin_object().member("output", report.output);
  json.member("tensors", report.tensors).member("aliases", report.aliases);
  json.member("left_out", report.left_out).member("renamed", report.renamed);
  json.member("cast", report.cast).member("quantized", report.quantized);
  json.member("dequantized", report.dequantized);
  json.member("adapted", report.adapted);
  json.member("data_bytes", report.data_bytes);
  json.member("padding_bytes", report.padding_bytes);
  json.member("file_size", report.file_size);
  json.member(report.members.empty() ? "file_id" : "set_id",
              digest_text(report.file_id));
  if (!report.members.empty()) print_members(json, report);
  json.member("seconds", report.seconds);
  json.member("exact_source", report.exact_source);
  print_names(json, "sources", report.sources);
  print_names(json, "other_files", report.other_files);
  print_names(json, "left_behind", report.left_behind);
  print_names(json, "warnings", report.warnings);
  json.end_object();
}

}  // namespace

int print_report(const ConvertReport& report, Form form) {
  // The file is there: whoever says stop now is too late.
  Output output(stdout, "standard output", OnSignal::finish);
  form == Form::json ? print_json(output, report) : print_text(output, report);
  return close_output(output, 0);
}

}  // namespace weig::cli
