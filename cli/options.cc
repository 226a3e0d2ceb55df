// SPDX-License-Identifier: Apache-2.0
#include "options.h"

#include <fmt/format.h>

#include <charconv>
#include <utility>

#include "host.h"
#include "quantity.h"
#include "terminal.h"

namespace weig::cli {
namespace {

// The options that a file would need besides those given, found out by trying.
std::string missing_options(const std::string& file, OpenOptions options) {
  options.load = {};  // for that, nothing need be loaded
  const bool sealed_only = options.unsealed == Unsealed::refuse;
  const bool known_only = options.unknown_dtypes == UnknownDtypes::refuse;
  constexpr const char* kUnsealed = "--accept-unsealed";
  constexpr const char* kUnknown = "--accept-unknown-dtypes";
  options.unsealed = Unsealed::accept;
  if (sealed_only && Model::open(file, options)) return kUnsealed;
  options.unknown_dtypes = UnknownDtypes::accept;
  if (!known_only || !Model::open(file, options)) return {};
  options.unsealed = Unsealed::refuse;
  if (!sealed_only || Model::open(file, options)) return kUnknown;
  return fmt::format("{} {}", kUnsealed, kUnknown);
}

void tell_warnings(const Model& model) {
  for (const std::string& warning : model.load_report().warnings)
    warn(fmt::format("{}: {}", printable(model.path()), warning));
}

}  // namespace

Result<Model> open_model(const std::string& file, const OpenOptions& options) {
  auto model = Model::open(file, options);
  if (!model) return with_option_hint(model.error(), file, options);
  tell_warnings(*model);
  tell_if_member(*model);
  return model;
}

void tell_if_member(const Model& model) {
  const auto shard = model.shard();
  if (shard && *shard && (*shard)->count > 1)
    warn(fmt::format("{} is member {} of {} of a set: this is about that file alone",
                     model.path(), (*shard)->index + std::uint64_t{1},
                     (*shard)->count));
}

Result<ModelSet> open_set(const std::string& file, const OpenOptions& options) {
  auto set = ModelSet::open(file, options);
  if (!set) {
    auto alone = ModelSet::open_alone(file, options);
    if (!alone || alone->whole()) return with_option_hint(set.error(), file, options);
    warn(fmt::format("{} is member {} of {} of a set, shown alone: {}", file,
                     alone->shard()->index + std::uint64_t{1}, alone->shard()->count,
                     set.error().message()));
    set = std::move(alone);
  }
  for (std::uint32_t m = 0; m < set->member_count(); ++m)
    tell_warnings(*set->member(m));
  return set;
}

Error with_option_hint(const Error& error, const std::string& file,
                       const OpenOptions& options) {
  if (error.code() != Code::unsupported) return error;
  const std::string missing = missing_options(file, options);
  if (missing.empty()) return error;
  std::string hint = missing + " opens it all the same";
  if (missing.find("unsealed") != missing.npos) hint += ", 'weig convert' seals it";
  return Error(error).hint(std::move(hint));
}

Status check_unchanged(const Model& model) {
  const auto change = model.changed();
  if (!change) return change.error();
  if (*change != FileChange::modified) return {};  // another file at its place is none
  return Error(Code::corrupt, "the file was changed while it was read")
      .file(model.path());
}

Status check_unchanged(const ModelSet& set) {
  for (std::uint32_t m = 0; m < set.member_count(); ++m)
    if (auto status = check_unchanged(*set.member(m)); !status) return status;
  return {};
}

int close_output_of(Output& output, const ModelSet& set) {
  if (const int status = close_output(output, 0); status != 0) return status;
  const auto unchanged = check_unchanged(set);
  return unchanged ? 0 : fail(unchanged.error(), Form::text);  // the output is there
}

CLI::Validator whole_number(std::uint64_t max, std::uint64_t min) {
  const auto check = [max, min](std::string& text) -> std::string {
    std::uint64_t number = 0;
    const char* end = text.data() + text.size();
    const auto read = std::from_chars(text.data(), end, number);
    if (read.ec == std::errc() && read.ptr == end && number >= min && number <= max)
      return {};
    return fmt::format("must be a whole number from {} to {}", min, max);
  };
  return {check, ""};
}

CLI::Validator file_name() {
  const auto check = [](std::string& text) -> std::string {
    return text.empty() ? "'' is not a file's name" : "";
  };
  return {check, ""};
}

void add_file(CLI::App& command, std::string& file) {
  command.add_option("FILE", file, "A WEIG or safetensors file")
      ->required()
      ->type_name("");
}

void add_model(CLI::App& command, std::string& file) {
  command
      .add_option("FILE", file,
                  "A WEIG or safetensors file; a member of a set\n"
                  "stands for all of it, a folder for the one WEIG\n"
                  "model in it")
      ->required()
      ->type_name("");
}

void add_json(CLI::App& command, Form& form) {
  command.add_flag_callback(
      "--json",
      [&form] {
        form = Form::json;
        promise_json();
      },
      "Print JSON, errors too");
}

void add_force(CLI::App& command, Existing& existing) {
  command.add_flag_callback(
      "-f,--force", [&existing] { existing = Existing::replace; },
      "Replace the output if it is there already");
}

void add_accept_unsealed(CLI::App& command, OpenOptions& options) {
  command.add_flag_callback(
      "--accept-unsealed", [&options] { options.unsealed = Unsealed::accept; },
      "Open minimal files too, which have no seal and no\ndigests");
}

void add_accept_unknown_dtypes(CLI::App& command, OpenOptions& options) {
  command.add_flag_callback(
      "--accept-unknown-dtypes",
      [&options] { options.unknown_dtypes = UnknownDtypes::accept; },
      "Open files with element types that this version\ndoes not know");
}

void add_shard_size(CLI::App& command, std::optional<std::uint64_t>& bytes,
                    const char* what) {
  command
      .add_option_function<std::string>(
          "--shard-size",
          [&bytes](const std::string& text) {
            bytes = parse_bytes(text);
            if (bytes.value_or(0) == 0)
              throw CLI::ValidationError(
                  "--shard-size", fmt::format("{} is no size; 5GB, 500MB and 2GiB are",
                                              in_quotes(text)));
          },
          what)
      ->type_name("SIZE");
}

void add_load(CLI::App& command, OpenOptions& options) {
  command
      .add_option_function<std::string>(
          "--load",
          [&options](const std::string& name) {
            const auto way = load_way_named(name);
            if (!way)
              throw CLI::ValidationError(
                  "--load", fmt::format("no way is called {}; there are map, stream, "
                                        "populate, read, auto",
                                        printable(name)));
            options.load.way = *way;
          },
          "How to bring the file into memory: map (the\ndefault), stream, populate, "
          "read, auto")
      ->type_name("WAY");
}

}  // namespace weig::cli
