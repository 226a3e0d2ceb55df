// SPDX-License-Identifier: Apache-2.0
// weig ls: one line a tensor.
#include <weig/model_set.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>

#include "command.h"
#include "glob.h"
#include "host.h"
#include "json.h"
#include "options.h"
#include "owners.h"
#include "report.h"
#include "tensor_text.h"
#include "terminal.h"

namespace weig::cli {
namespace {

struct Arguments {
  std::string file;
  std::optional<std::string> pattern;
  OpenOptions open;
  Form form = Form::text;
};

// Of the column of names, where output goes to no terminal. Longer names push their own
// line to the right instead of all others.
constexpr std::size_t kMaxNameWidth = 100;
constexpr std::size_t kMinNameWidth = 24;

struct Widths {
  std::size_t name = 4;
  std::size_t dtype = 5;
  std::size_t shape = 5;
  std::size_t offset = 6;
  std::size_t bytes = 5;
  std::size_t member = 0;  // of files that are no set: no such column
};

// A tensor that was asked for, with what it shares bytes with.
struct Listed {
  const Tensor& tensor;
  std::uint32_t member;
  // Empty where it has bytes of its own.
  std::optional<std::string_view> alias_of;
};

std::string_view name_of(const Model& model, std::uint32_t ordinal) {
  const auto tensor = model[ordinal];
  return tensor ? tensor->name() : std::string_view();
}

// Calls visit(listed) in the order of the files. Fails where a record is damaged.
template <typename Visit>
Status for_each_tensor(const ModelSet& set, const std::optional<std::string>& pattern,
                       Visit visit) {
  for (std::uint32_t m = 0; m < set.member_count(); ++m) {
    const Model& model = *set.member(m);
    Owners owners(model);
    for (const auto& tensor : model.tensors()) {
      if (!tensor) return tensor.error();
      const std::uint32_t owner = owners.of(*tensor);
      if (pattern && !glob_matches(*pattern, tensor->name())) continue;
      Listed listed{*tensor, m, std::nullopt};
      if (owner != tensor->ordinal()) listed.alias_of = name_of(model, owner);
      visit(listed);
      if (stop_signal() != 0) return {};
    }
  }
  return {};
}

std::size_t digits(std::uint64_t number) { return std::to_string(number).size(); }

void widen(std::size_t& width, std::size_t used) { width = std::max(width, used); }

void add_padded(std::string& line, std::string_view text, std::size_t width) {
  line += text;
  const std::size_t used = display_width(text);
  line.append(used < width ? width - used + 2 : 2, ' ');
}

void add_number(std::string& line, std::string_view number, std::size_t width) {
  line.append(number.size() < width ? width - number.size() : 0, ' ') += number;
}

void print_heading(Output& output, const Widths& widths) {
  std::string line;
  add_padded(line, "NAME", widths.name);
  add_padded(line, "DTYPE", widths.dtype);
  add_padded(line, "SHAPE", widths.shape);
  add_number(line, "OFFSET", widths.offset);
  line += "  ";
  add_number(line, "BYTES", widths.bytes);
  if (widths.member > 0) add_number(line += "  ", "MEMBER", widths.member);
  output.write(line += '\n');
}

// Leaves the other columns their room on a terminal.
void limit_name_width(Widths& widths) {
  std::size_t max = kMaxNameWidth;
  if (is_terminal(Stream::output)) {
    const std::size_t others = widths.dtype + widths.shape + widths.offset +
                               widths.bytes + 8 +
                               (widths.member > 0 ? widths.member + 2 : 0);
    const std::size_t room = columns(Stream::output);
    max = std::max(kMinNameWidth, room > others ? room - others : 0);
  }
  widths.name = std::min(widths.name, max);
}

Status measure(const ModelSet& set, const std::optional<std::string>& pattern,
               Widths& widths, std::uint64_t& count) {
  std::string name;
  auto status = for_each_tensor(set, pattern, [&](const Listed& listed) {
    const Tensor& tensor = listed.tensor;
    ++count;
    name.clear();
    append_printable(name, tensor.name());
    widen(widths.name, display_width(name));
    widen(widths.dtype, dtype_text(tensor.dtype()).size());
    widen(widths.shape, shape_text(tensor.shape()).size());
    widen(widths.offset, digits(tensor.data_offset()));
    widen(widths.bytes, digits(tensor.byte_count()));
  });
  if (set.member_count() > 1) widths.member = 6;
  limit_name_width(widths);
  return status;
}

Status print_text(Output& output, const ModelSet& set,
                  const std::optional<std::string>& pattern, const Widths& widths) {
  if (is_terminal(Stream::output)) print_heading(output, widths);
  std::string line;
  std::string name;
  return for_each_tensor(set, pattern, [&](const Listed& listed) {
    const Tensor& tensor = listed.tensor;
    line.clear();
    name.clear();
    append_printable(name, tensor.name());
    add_padded(line, name, widths.name);
    add_padded(line, dtype_text(tensor.dtype()), widths.dtype);
    add_padded(line, shape_text(tensor.shape()), widths.shape);
    add_number(line, std::to_string(tensor.data_offset()), widths.offset);
    line += "  ";
    add_number(line, std::to_string(tensor.byte_count()), widths.bytes);
    if (widths.member > 0)
      add_number(line += "  ", std::to_string(listed.member + 1), widths.member);
    if (listed.alias_of) append_printable(line += "  -> ", *listed.alias_of);
    output.write(line += '\n');
  });
}

Status print_json(Output& output, const ModelSet& set, const std::string& file,
                  const std::optional<std::string>& pattern) {
  Json json(output, 2);
  json.begin_object().member("file", file);
  const bool is_set = set.member_count() > 1;
  json.key("members").begin_array();
  for (std::uint32_t m = 0; is_set && m < set.member_count(); ++m)
    json.value(set.path(m));
  json.end_array().key("tensors").begin_array();
  auto status = for_each_tensor(set, pattern, [&](const Listed& listed) {
    const Tensor& tensor = listed.tensor;
    json.begin_object().member("name", tensor.name());
    json.member("dtype", dtype_text(tensor.dtype()));
    json.key("shape").begin_array();
    for (const std::uint64_t size : tensor.shape()) json.value(size);
    json.end_array();
    if (is_set) json.member("member", listed.member + 1);
    json.member("offset", tensor.data_offset());
    json.member("bytes", tensor.byte_count()).key("alias_of");
    listed.alias_of ? json.value(*listed.alias_of) : json.null();
    json.end_object();
  });
  json.end_array().end_object();
  return status;
}

int run_ls(const Arguments& arguments) {
  const auto set = open_set(arguments.file, arguments.open);
  if (!set) return fail(set.error(), arguments.form);
  // Before anything is printed: columns, damage, and whether there is anything at all.
  Widths widths;
  std::uint64_t count = 0;
  auto status = measure(*set, arguments.pattern, widths, count);
  if (!status) return fail(Error(status.error()).file(arguments.file), arguments.form);
  if (count == 0 && arguments.pattern)
    return fail(Error(Code::not_found,
                      "no tensor's name matches " + in_quotes(*arguments.pattern))
                    .file(arguments.file),
                arguments.form);
  Output output(stdout, "standard output");
  status = arguments.form == Form::json
               ? print_json(output, *set, arguments.file, arguments.pattern)
               : print_text(output, *set, arguments.pattern, widths);
  if (!status) return fail(status.error(), Form::text);
  return close_output_of(output, *set);
}

}  // namespace

Command add_ls(CLI::App& app) {
  auto arguments = std::make_shared<Arguments>();
  arguments->open.part = Part::metadata;
  CLI::App* command = app.add_subcommand("ls", "List tensors, one line each");
  add_model(*command, arguments->file);
  command
      ->add_option("PATTERN", arguments->pattern,
                   "Only names that match: * ? [a-z] as in a shell;\n"
                   "* also matches dots and slashes")
      ->type_name("");
  add_accept_unsealed(*command, arguments->open);
  add_accept_unknown_dtypes(*command, arguments->open);
  add_json(*command, arguments->form);
  command->footer(
      "Columns: name, element type, shape, offset in the file, bytes, and for a\n"
      "tensor that shares another's bytes, -> that other. Of a set, offsets are in "
      "the\n"
      "member whose number stands behind the bytes; a member whose set is not whole "
      "is\n"
      "shown alone, with a warning.\n\n"
      "Example:\n"
      "  weig ls model.weig '*.layers.0.*'");
  return {command, [arguments] { return run_ls(*arguments); }};
}

}  // namespace weig::cli
