// SPDX-License-Identifier: Apache-2.0
// Whole files, through the library's front doors: convert, verify, export, compare.
#include <weig/convert.h>
#include <weig/model.h>
#include <weig/verify.h>

#include <filesystem>
#include <set>

#include "answers.h"
#include "check.h"
#include "core/text.h"
#include "formats/gguf.h"
#include "image.h"
#include "target.h"

namespace weig::fuzz {
namespace {

// The one folder of this process.
const test::Folder& folder() {
  static const test::Folder* made = [] {
    memory_for_files();
    static const test::Folder one;
    return &one;
  }();
  return *made;
}

std::string path(std::string_view name) { return folder().path(name); }

void remove(std::string_view name) { std::filesystem::remove(path(name)); }

Result<ConvertReport> convert_file(std::string_view source, std::string_view target,
                                   Strictness strictness) {
  remove(target);
  const std::string from = path(source);
  return convert({&from, 1}, path(target), {.strictness = strictness, .progress = {}});
}

Result<Model> open(std::string_view name) {
  return Model::open(path(name),
                     {.unsealed = Unsealed::accept, .max_metadata_bytes = 1 << 20});
}

// All tensors by name. What typed slices say hangs on the alignment, which converting
// improves, and is left out.
std::string tensors_of(const Model& model) {
  std::set<std::string> lines;
  for (const Result<Tensor>& tensor : model.tensors())
    lines.insert(tensor ? tensor_text(*tensor) : failure(tensor.error()));
  std::string out;
  for (const std::string& line : lines) out += line + "\n";
  std::erase_if(out, [](char c) { return c == '+' || c == '-'; });
  return out;
}

std::string metadata_of(const Model& model) {
  const auto text = model.metadata_text();
  return text ? std::string(text->value_or("none")) : failure(text.error());
}

// Quantization by names, since converting may move tensors in the table. What schemes
// other than 1 mean by their numbers is not known.
std::string quantization_of(const Model& model) {
  const auto count = model.quantization_count();
  if (!count) return failure(count.error());
  const auto name = [&](std::uint32_t ordinal) {
    return ordinal < model.size() ? in_quotes(model[ordinal].value().name())
                                  : std::to_string(ordinal);
  };
  std::set<std::string> lines;
  for (std::uint32_t i = 0; i < *count; ++i) {
    const Quantization entry = model.quantization(i).value();
    std::string line = name(entry.tensor) + " " + std::to_string(entry.scheme);
    if (entry.scheme == 1)
      line += " " + std::to_string(entry.axis) + " " + std::to_string(entry.block) +
              " " + name(entry.scale) + name(entry.zero_point) + name(entry.scale2);
    lines.insert(line);
  }
  std::string out;
  for (const std::string& line : lines) out += line + "\n";
  return out;
}

void promise_sound_file(std::string_view name) {
  const auto model = open(name);
  promise(model.has_value(), "a file that we wrote opens",
          model ? "" : failure(model.error()));
  promise(model->sealed(), "a file that we wrote is sealed");
  promise_sound(model->view());
  const auto report = verify(*model, {.threads = 1, .progress = {}});
  promise(report.has_value() && report->sound(), "a file that we wrote is sound",
          !report                   ? failure(report.error())
          : report->damages.empty() ? ""
                                    : failure(report->damages[0].error));
}

// Refused: with a reason that is about the file, and without leaving anything behind.
void promise_clean_refusal(const Error& error) {
  failure(error);
  // The input may say that it is a member of a set, and is alone.
  const bool is_member =
      error.code() == Code::cannot_open && error.fields().what.ends_with("missing");
  // Data that it says are in another file, which is not there.
  const bool is_apart =
      error.code() == Code::cannot_open && error.fields().names_tensor;
  promise(is_member || is_apart || error.code() == Code::corrupt ||
              error.code() == Code::unsupported || error.code() == Code::checksum ||
              error.code() == Code::limit,
          "a file is refused for what it is", error.message());
  promise(folder().names() == std::vector<std::string>{"source"},
          "nothing is left behind");
}

// A stranger's file is exported as it is, too: refused, or a file of the same tensors.
void promise_direct_export() {
  const auto exported = export_file(path("source"), path("e"));
  if (!exported) return promise_clean_refusal(exported.error());
  const auto source = open("source");
  const auto target = Model::open(path("e"));
  promise(target.has_value(), "what we export opens",
          target ? "" : failure(target.error()));
  promise(target->format() == FileFormat::safetensors, "export writes safetensors");
  promise(source.has_value(), "what is exported can be opened");
  promise_equal(tensors_of(*target), tensors_of(*source), "export loses no tensor");
  remove("e");
}

bool is_gguf(Bytes input) { return text_of(input).starts_with(kGgufMark); }

void promise_export(Bytes input, const ConvertReport& report, bool foreign,
                    Strictness strictness) {
  ExportOptions options;
  if (is_gguf(input))
    options = {.format = ExportFormat::gguf, .architecture = "a", .progress = {}};
  const auto exported = export_file(path("a.weig"), path("b"), options);
  if (!exported) {
    promise(exported.error().code() == Code::unsupported && !report.exact_source,
            "only what the format lacks cannot be exported", failure(exported.error()));
    return;
  }
  promise(exported->exact == report.exact_source, "export keeps what convert promised");
  if (foreign && exported->exact)
    promise(std::ranges::equal(test::read_file(path("b")), input),
            "the source comes back byte for byte");
  const auto again = convert_file("b", "c.weig", strictness);
  promise(again.has_value(), "what we export we convert",
          again ? "" : failure(again.error()));
  const auto before = open("a.weig");
  const auto after = open("c.weig");
  promise_equal(tensors_of(*after), tensors_of(*before), "export loses no tensor");
}

// All that can be changed on the way is: a sound file again, or refused for what it
// holds.
void promise_changes() {
  const std::string from = path("a.weig");
  const ConvertOptions options{
      .change = [](std::string_view name, Dtype dtype,
                   std::span<const std::uint64_t> shape) -> TensorChange {
        if (dtype == Dtype::f8_e4m3fn) return Dtype::f16;
        if (!is_castable(dtype)) return Dequantize{Dtype::f32};
        if (shape.empty()) return Dtype::bf16;
        if (name.size() % 2 == 0) return QuantizeOptions{.axis = 0};
        return QuantizeOptions{
            .to = Dtype::u4, .scheme = Scheme::asymmetric, .block = 32};
      },
      .progress = {}};
  remove("f.weig");
  const auto report = convert({&from, 1}, path("f.weig"), options);
  if (report) return promise_sound_file("f.weig");
  promise(report.error().code() == Code::invalid_argument ||
              report.error().code() == Code::exists ||
              report.error().code() == Code::unsupported,
          "changing is refused for what a file holds", report.error().message());
  promise(!std::filesystem::exists(path("f.weig")), "nothing is left behind");
}

void promise_round_trip(Bytes input, const ConvertReport& report,
                        Strictness strictness) {
  promise_sound_file("a.weig");
  const auto source = open("source");
  if (source) {
    const auto target = open("a.weig");
    promise_equal(tensors_of(*target), tensors_of(*source), "convert loses no tensor");
    promise_equal(metadata_of(*target), metadata_of(*source), "convert keeps metadata");
    promise_equal(quantization_of(*target), quantization_of(*source),
                  "convert keeps quantization");
  } else {
    const bool is_converted_first = source.error().code() == Code::unsupported;
    promise(strictness == Strictness::lenient || is_converted_first,
            "what strict converts can be opened as it is", failure(source.error()));
  }
  const bool foreign = !source || source->format() == FileFormat::safetensors ||
                       source->format() == FileFormat::gguf;
  promise_export(input, report, foreign, strictness);
  promise_changes();
  const auto again = convert_file("a.weig", "d.weig", Strictness::strict);
  promise(again.has_value(), "what we wrote we convert",
          again ? "" : failure(again.error()));
  promise(test::read_file(path("a.weig")) == test::read_file(path("d.weig")),
          "a file of ours, converted, is the same file");
}

}  // namespace

void run_roundtrip(Bytes input) {
  test::write_file(path("source"), input);
  for (const char* name : {"a.weig", "b", "c.weig", "d.weig", "e", "f.weig"})
    remove(name);
  promise_direct_export();
  for (const auto strictness : {Strictness::strict, Strictness::lenient}) {
    const auto report = convert_file("source", "a.weig", strictness);
    if (report) return promise_round_trip(input, *report, strictness);
    promise_clean_refusal(report.error());
  }
}

}  // namespace weig::fuzz
