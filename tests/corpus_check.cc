// SPDX-License-Identifier: Apache-2.0
// Opens every file of the corpus (tests/corpus/corpus.py) through the public API, in
// one process: accepted ones must have exactly the tensors of the manifest, refused
// ones must fail with its code and words. Prints what is not so, and nothing else.
#include <weig/weig.h>

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace {

using Fields = std::vector<std::string>;

int problems = 0;

void problem(const std::string& file, const std::string& what) {
  ++problems;
  std::printf("%s: %s\n", file.c_str(), what.c_str());
}

Fields split(const std::string& line, char separator) {
  Fields fields;
  std::size_t begin = 0;
  for (std::size_t end; (end = line.find(separator, begin)) != line.npos;
       begin = end + 1)
    fields.push_back(line.substr(begin, end - begin));
  fields.push_back(line.substr(begin));
  return fields;
}

std::string from_hex(const std::string& hex) {
  std::string bytes;
  for (std::size_t i = 0; hex != "-" && i < hex.size(); i += 2)
    bytes += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  return bytes;
}

weig::OpenOptions options_of(const std::string& words) {
  weig::OpenOptions options;
  if (words.find("unsealed") != words.npos) options.unsealed = weig::Unsealed::accept;
  if (words.find("unknown_dtypes") != words.npos)
    options.unknown_dtypes = weig::UnknownDtypes::accept;
  return options;
}

// tensor NAME DTYPE SHAPE DATA
void check_tensor(const std::string& file, const weig::Model& model,
                  const Fields& expected) {
  const std::string name = from_hex(expected[1]);
  const auto tensor = model.tensor(name);
  if (!tensor) return problem(file, tensor.error().message());
  std::string shape;
  for (const std::uint64_t size : tensor->shape())
    shape += (shape.empty() ? "" : ",") + std::to_string(size);
  if (shape.empty()) shape = "-";
  const std::string dtype =
      expected[2].substr(0, expected[2].find(':'));  // of an unknown
  if (weig::dtype_name(tensor->dtype()) != dtype || shape != expected[3])
    problem(file, "another type or shape: " + shape);
  const std::string data = from_hex(expected[4]);
  const auto bytes = tensor->bytes();
  if (!std::ranges::equal(bytes, std::as_bytes(std::span(data))))
    problem(file, "other bytes in tensor " + expected[1]);
}

void check_accepted(const std::string& path, weig::OpenOptions options,
                    const std::vector<Fields>& tensors) {
  for (const auto validation : {weig::Validation::full, weig::Validation::lazy}) {
    options.validation = validation;
    const auto model = weig::Model::open(path, options);
    if (!model) return problem(path, "refused: " + model.error().message());
    if (model->size() != tensors.size())
      problem(path, std::to_string(model->size()) + " tensors");
    for (const Fields& tensor : tensors) check_tensor(path, *model, tensor);
    if (const auto status = model->check_structure(); !status)
      problem(path, status.error().message());
    if (const auto metadata = model->metadata(); !metadata)
      problem(path, metadata.error().message());
    const auto report = weig::verify(*model);
    if (!report) problem(path, report.error().message());
    if (report && !report->sound())
      problem(path, "not sound: " + report->damages[0].error.message());
    if (model->find("no such tensor, by far").value())
      problem(path, "a tensor that it does not have");
  }
}

// What convert() makes of a file, beside no other; removed with it.
class Converted {
 public:
  Converted() {
    static int number = 0;
    folder_ =
        std::filesystem::temp_directory_path() /
        ("weig-corpus-" + std::to_string(::getpid()) + "-" + std::to_string(number++));
    std::filesystem::create_directory(folder_);
  }
  ~Converted() { std::filesystem::remove_all(folder_); }
  Converted(const Converted&) = delete;
  Converted& operator=(const Converted&) = delete;

  std::string path() const { return (folder_ / "made.weig").string(); }
  weig::Result<weig::ConvertReport> make(const std::string& source) const {
    return weig::convert({&source, 1}, path());
  }

 private:
  std::filesystem::path folder_;
};

bool is_converted_first(const Fields& line) {
  return line[3].find("convert") != std::string::npos;
}

// refused FILE FORMAT OPTIONS WHEN CODE SAYS
void check_error(const std::string& path, const weig::Error& error,
                 const Fields& expected) {
  const std::string message = error.message();
  const std::string says = expected[6] == "-" ? "" : expected[6];
  if (weig::code_name(error.code()) != expected[5])
    problem(path, "another code than " + expected[5] + ": " + message);
  if (!message.starts_with(path + ": "))
    problem(path, "does not name the file: " + message);
  if (message.find(says) == message.npos)
    problem(path, "does not say '" + says + "': " + message);
  if (message.find('\n') != message.npos) problem(path, "two lines: " + message);
}

// Of a file that full refuses, lazy may hand out what obeys the rules, reads nothing
// outside and does not pass the whole.
void check_lazy(const std::string& path, weig::OpenOptions options) {
  options.validation = weig::Validation::lazy;
  const auto model = weig::Model::open(path, options);
  if (!model) return;
  unsigned sum = 0;
  for (std::uint64_t i = 0; i < std::min<std::uint64_t>(model->size(), 1000); ++i) {
    const auto tensor = (*model)[i];
    if (!tensor) continue;
    for (const std::byte b : tensor->bytes()) sum += std::to_integer<unsigned>(b);
    static_cast<void>(model->find(tensor->name()));
  }
  if (const auto absent = model->find("no such tensor, by far"); absent)
    problem(path, "lazily denies a tensor; its bytes add up to " + std::to_string(sum));
}

// Of a format that is read by convert() alone: opening says so.
void check_not_opened(const std::string& path) {
  const auto model = weig::Model::open(path);
  if (model) return problem(path, "opened");
  if (model.error().code() != weig::Code::unsupported ||
      model.error().message().find("weig convert") == std::string::npos)
    problem(path, "does not say what to do: " + model.error().message());
}

void check_converted(const std::string& path, const std::vector<Fields>& tensors) {
  check_not_opened(path);
  const Converted converted;
  if (const auto report = converted.make(path); !report)
    return problem(path, "refused: " + report.error().message());
  check_accepted(converted.path(), {}, tensors);
}

void check_refused(const std::string& path, weig::OpenOptions options,
                   const Fields& expected) {
  if (is_converted_first(expected)) {
    const Converted converted;
    const auto report = converted.make(path);
    if (report) return problem(path, "converted");
    if (std::filesystem::exists(converted.path())) problem(path, "left a file behind");
    return check_error(path, report.error(), expected);
  }
  const auto model = weig::Model::open(path, options);
  if (expected[4] == "open") {
    if (model) return problem(path, "opened");
    check_error(path, model.error(), expected);
    check_lazy(path, options);
    options.part = weig::Part::metadata;
    const auto metadata = weig::Model::open(path, options);
    if (metadata) return problem(path, "opened for metadata");
    return check_error(path, metadata.error(), expected);
  }
  if (!model) return problem(path, "does not open: " + model.error().message());
  const auto report = weig::verify(*model);
  if (!report) return problem(path, "not verified: " + report.error().message());
  if (report->sound()) return problem(path, "sound");
  check_error(path, report->damages[0].error, expected);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 64;
  const std::string folder = std::string(argv[1]) + "/";
  std::ifstream manifest(folder + "manifest.tsv");
  std::vector<Fields> lines;
  for (std::string line; std::getline(manifest, line);)
    lines.push_back(split(line, '\t'));
  int files = 0;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const std::string path = folder + lines[i][1];
    const auto options = options_of(lines[i][3]);
    ++files;
    if (lines[i][0] == "refused") {
      check_refused(path, options, lines[i]);
      continue;
    }
    const Fields& accepted = lines[i];
    std::vector<Fields> tensors;
    while (i + 1 < lines.size() && lines[i + 1][0] == "tensor")
      tensors.push_back(lines[++i]);
    if (is_converted_first(accepted)) {
      check_converted(path, tensors);
    } else {
      check_accepted(path, options, tensors);
    }
  }
  if (files == 0) problem(folder, "no files");
  return problems == 0 ? 0 : 1;
}
