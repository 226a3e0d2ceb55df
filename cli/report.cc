// SPDX-License-Identifier: Apache-2.0
#include "report.h"

#include <fmt/format.h>

#include <cstdio>
#include <string>
#include <utility>

#include "host.h"
#include "json.h"
#include "terminal.h"

namespace weig::cli {
namespace {

void optional_member(Json& json, std::string_view name, const std::string& text) {
  json.key(name);
  text.empty() ? json.null() : json.value(text);
}

void write_error(Json& json, const Error& error) {
  const Error::Fields& fields = error.fields();
  json.begin_object().key("error").begin_object();
  json.member("code", code_name(error.code()));
  json.member("status", exit_status(error));
  optional_member(json, "file", fields.file);
  json.key("tensor");
  fields.names_tensor ? json.value(fields.tensor) : json.null();
  json.key("offset");
  fields.offset == Error::kNoOffset ? json.null() : json.value(fields.offset);
  json.member("what", fields.what);
  optional_member(json, "found", fields.found);
  optional_member(json, "expected", fields.expected);
  optional_member(json, "hint", fields.hint);
  json.member("message", error.message());
  json.end_object().end_object();
}

}  // namespace

void tell(std::string_view line) {
  constexpr std::size_t kIndent = 6;  // that of "weig: "
  const std::string text = fitting(Stream::talk, line, kIndent) + '\n';
  std::fwrite(text.data(), 1, text.size(), stderr);
}

int exit_status(const Error& error) noexcept {
  if (stop_signal() != 0) return kSignalStatus + stop_signal();
  return static_cast<int>(error.code());
}

int fail(const Error& error, Form form) {
  if (form == Form::json) {
    Output output(stdout, "standard output", OnSignal::finish);
    Json json(output, 2);
    write_error(json, error);
    // The error in hand matters more than one of telling it.
    [[maybe_unused]] const Status ignored = output.finish();
  }
  const std::string& hint = error.fields().hint;
  if (stop_signal() == 0)
    tell("weig: " + error.message());
  else
    tell("weig: interrupted" + (hint.empty() ? "" : " (" + printable(hint) + ")"));
  return exit_status(error);
}

Error with_force_hint(Error error) {
  // Not where the output is an input, which nothing replaces. Should the library come
  // to say it in other words, only the hint is lost.
  const bool in_the_way = error.code() == Code::exists && error.fields().hint.empty() &&
                          error.fields().what == "the output exists already";
  return in_the_way ? std::move(error).hint("--force replaces it") : error;
}

int fail_usage(std::string_view command, std::string_view message, Form form) {
  const std::string hint =
      fmt::format("Run '{} --help' to see how it is called.", command);
  if (form == Form::json) {
    // Not a weig::Code, which files and systems cause.
    Output output(stdout, "standard output", OnSignal::finish);
    Json json(output, 2);
    json.begin_object().key("error").begin_object();
    json.member("code", "usage").member("status", kUsageStatus);
    for (const char* name : {"file", "tensor", "offset"}) json.key(name).null();
    json.member("what", message);
    for (const char* name : {"found", "expected"}) json.key(name).null();
    json.member("hint", hint).member("message", message);
    json.end_object().end_object();
    [[maybe_unused]] const Status ignored = output.finish();
  }
  tell(fmt::format("weig: {}", message));
  tell(hint);
  return kUsageStatus;
}

void warn(std::string_view message) { tell("weig: warning: " + printable(message)); }

int close_output(Output& output, int status) {
  const Status finished = output.finish();
  if (output.reader_gone()) return kReaderGoneStatus;
  if (!finished) return fail(finished.error(), Form::text);
  if (!output.interrupted()) return status;
  return fail(Error(Code::cancelled, "interrupted"), Form::text);
}

}  // namespace weig::cli
