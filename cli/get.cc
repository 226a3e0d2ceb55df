// SPDX-License-Identifier: Apache-2.0
// weig get: a tensor's values, as text, as raw bytes or as an .npy file.
#include <weig/model_set.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "command.h"
#include "near_names.h"
#include "new_file.h"
#include "options.h"
#include "report.h"
#include "slice.h"
#include "tensor_output.h"
#include "terminal.h"

namespace weig::cli {
namespace {

struct Arguments {
  std::string file;
  std::string name;
  std::optional<std::string> slice;
  std::string target;
  TensorOutput output;
  Existing existing = Existing::refuse;
  OpenOptions open;
};

bool is_npy(const std::string& path) { return path.ends_with(".npy"); }

// What is wrong with the options together, if anything.
std::optional<std::string> conflict(const Arguments& arguments) {
  const TensorOutput& output = arguments.output;
  const bool raw = output.encoding == Encoding::raw;
  if (raw && is_npy(arguments.target))
    return "--raw writes no .npy file: name the output otherwise, or leave out --raw";
  if (output.form == Form::json && (raw || is_npy(arguments.target)))
    return "--json is text: it goes neither with --raw nor with an .npy file";
  if (output.length == Length::all && (raw || is_npy(arguments.target)))
    return "--all is about text: it goes neither with --raw nor with an .npy file";
  return std::nullopt;
}

Result<Tensor> find_tensor(const ModelSet& model, const std::string& name) {
  auto tensor = model.tensor(name);
  if (tensor) return tensor;
  Error error = Error(tensor.error()).file(model.path(0));
  if (error.code() != Code::not_found) return error;
  // Names with characters that are unsafe on a terminal are shown, and so given,
  // escaped.
  if (name.find('\\') != name.npos)
    if (const auto shown = from_printable(name))
      if (auto same = model.tensor(*shown)) return same;
  std::string near;
  for (const std::string& candidate : near_names(model, name))
    near += (near.empty() ? "" : ", ") + in_quotes(candidate);
  if (!model.whole())
    return std::move(error).hint("the set's other members may have it");
  if (near.empty()) return std::move(error).hint("weig ls lists the names");
  return std::move(error).hint("did you mean " + near + "?");
}

Result<Selection> select_elements(const Arguments& arguments, const Tensor& tensor) {
  std::vector<SlicePart> parts;
  if (arguments.slice) {
    auto parsed = parse_slice(*arguments.slice);
    if (!parsed) return std::move(parsed).error();
    parts = *std::move(parsed);
  }
  auto selection = select(tensor.shape(), parts);
  if (selection) return selection;
  return Error(selection.error())
      .file(arguments.file)
      .tensor(tensor.name())
      .hint("the shape is " + shape_text(tensor.shape()));
}

// A member of the set must not be replaced by its own tensor.
Status check_no_member(const std::string& target, const ModelSet& set) {
  std::error_code ignored;
  for (std::uint32_t m = 0; m < set.member_count(); ++m)
    if (std::filesystem::equivalent(target, set.path(m), ignored))
      return Error(Code::exists, "the output is the input").file(target);
  return {};
}

// Into a file, which appears whole or not at all.
Status write_file(const Arguments& arguments, const ModelSet& set, const Tensor& tensor,
                  const Selection& selection, const TensorOutput& how) {
  if (auto status = check_no_member(arguments.target, set); !status) return status;
  auto file = NewFile::create(arguments.target, arguments.existing, set.path(0));
  if (!file) return std::move(file).error();
  write_tensor(file->output(), tensor, selection, how);
  if (auto status = check_unchanged(set); !status) return status;
  return file->publish();
}

int run_get(const Arguments& arguments) {
  const Form form = arguments.output.form;
  if (const auto wrong = conflict(arguments))
    return fail_usage("weig get", *wrong, form);
  const auto set = open_set(arguments.file, arguments.open);
  if (!set) return fail(set.error(), form);
  const auto tensor = find_tensor(*set, arguments.name);
  if (!tensor) return fail(tensor.error(), form);
  const auto selection = select_elements(arguments, *tensor);
  if (!selection) return fail(selection.error(), form);
  TensorOutput how = arguments.output;
  how.sliced = arguments.slice ? Sliced::yes : Sliced::no;
  if (is_npy(arguments.target)) how.encoding = Encoding::npy;
  if (auto status = check_output(*tensor, how); !status)
    return fail(Error(status.error()).file(arguments.file), form);
  if (!arguments.target.empty()) {
    const auto status = write_file(arguments, *set, *tensor, *selection, how);
    return status ? 0 : fail(status.error(), form);
  }
  if (how.encoding == Encoding::text && form == Form::text)
    tell(printable(tensor->name()) + ": " + dtype_text(tensor->dtype()) + " " +
         shape_text(selection->shape));
  Output output(stdout, "standard output");
  how.target = Target::standard_output;
  write_tensor(output, *tensor, *selection, how);
  return close_output_of(output, *set);
}

void add_get_options(CLI::App& command, Arguments& arguments) {
  TensorOutput& output = arguments.output;
  command
      .add_option("--slice", arguments.slice,
                  "Only these elements, as NumPy has it:\n'0:10, ::-1, 3, ...'")
      ->type_name("PARTS");
  command
      .add_option(
          "-o,--output", arguments.target,
          "Write to a file: .npy if its name ends so, else\ntext, or bytes with --raw")
      ->check(file_name())
      ->type_name("DST");
  add_force(command, arguments.existing);
  command.add_flag_callback(
      "--raw", [&output] { output.encoding = Encoding::raw; },
      "Bytes as they are stored, little-endian");
  command.add_flag_callback(
      "--widen", [&output] { output.width = Width::widened; },
      "Types that NumPy lacks become float32, int8, uint8\nor complex64, exactly");
  command.add_flag_callback(
      "--all", [&output] { output.length = Length::all; },
      "Print all values of a large tensor, on a terminal\ntoo");
}

}  // namespace

Command add_get(CLI::App& app) {
  auto arguments = std::make_shared<Arguments>();
  // Pages of 2 MiB would read more than the elements that are asked for.
  arguments->open.huge_pages = HugePages::leave;
  CLI::App* command =
      app.add_subcommand("get", "Print a tensor's values, or write them to a file");
  add_model(*command, arguments->file);
  command->add_option("NAME", arguments->name, "The tensor's name")
      ->required()
      ->type_name("");
  add_get_options(*command, *arguments);
  add_accept_unsealed(*command, arguments->open);
  add_accept_unknown_dtypes(*command, arguments->open);
  add_json(*command, arguments->output.form);
  command->footer(
      "Of a member whose set is not whole, its own tensors are given, with a "
      "warning.\n\n"
      "Examples:\n"
      "  weig get model.weig wte.weight --slice '0:2, :8'\n"
      "  weig get model.weig wte.weight -o wte.npy --widen\n"
      "  weig get model.weig wte.weight --raw | sha256sum");
  return {command, [arguments] { return run_get(*arguments); }};
}

}  // namespace weig::cli
