// SPDX-License-Identifier: Apache-2.0
// A target without a fuzzer, as an ordinary program: over the inputs that are given,
// and a fixed number of mutations of each. Shows again what a fuzzer has found:
//   weig_fuzz_replay TARGET FILE|FOLDER...
// Also: --list (the targets' names), --seeds FOLDER (writes FOLDER/TARGET/NUMBER).
#include <algorithm>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <string>

#include "check.h"
#include "image.h"
#include "target.h"

namespace weig::fuzz {
namespace {

namespace fs = std::filesystem;

constexpr int kUsage = 64;
constexpr std::size_t kMaxBytes = 16'384;

int list() {
  for (const Target& target : targets())
    std::printf("%.*s\n", static_cast<int>(target.name.size()), target.name.data());
  return 0;
}

int write_seeds(const fs::path& folder) {
  for (const Target& target : targets()) {
    fs::create_directories(folder / target.name);
    const std::vector<Input> seeds = target.seeds();
    for (std::size_t i = 0; i < seeds.size(); ++i)
      test::write_file((folder / target.name / std::to_string(i)).string(), seeds[i]);
  }
  return 0;
}

// The files at `path`, in an order that does not depend on the disk.
void add_files(const fs::path& path, std::vector<fs::path>& files) {
  if (!fs::is_directory(path)) return files.push_back(path);
  const std::size_t before = files.size();
  for (const auto& entry : fs::directory_iterator(path)) add_files(entry.path(), files);
  std::sort(files.begin() + static_cast<std::ptrdiff_t>(before), files.end());
}

// The input, and mutations of it: the same in every run.
void run_mutated(const Target& target, const Input& seed, std::uint64_t mutations) {
  target.run(seed);
  Random random(42);
  Input input;
  for (std::uint64_t i = 0; i < mutations; ++i) {
    if (i % 4 == 0) input = seed;
    target.mutate(input, kMaxBytes, random, plain_mutation);
    target.run(input);
  }
}

int run(std::span<char* const> arguments) {
  if (arguments.empty()) return kUsage;
  const std::string_view first = arguments[0];
  if (first == "--list") return list();
  if (first == "--seeds" && arguments.size() == 2) return write_seeds(arguments[1]);
  const Target* target = find_target(first);
  if (!target) return kUsage;
  std::uint64_t mutations = 0;
  std::vector<fs::path> files;
  for (const std::string_view argument : arguments.subspan(1)) {
    if (argument.starts_with("--mutations=")) {
      mutations = std::stoull(std::string(argument.substr(12)));
    } else {
      add_files(argument, files);
    }
  }
  if (files.empty()) return kUsage;
  for (const fs::path& file : files)
    run_mutated(*target, test::read_file(file.string()), mutations);
  return 0;
}

}  // namespace
}  // namespace weig::fuzz

int main(int count, char** arguments) {
  try {
    const int status = weig::fuzz::run({arguments + 1, arguments + count});
    if (status != 0)
      std::fputs(
          "usage: weig_fuzz_replay TARGET [--mutations=N] FILE|FOLDER...\n"
          "       weig_fuzz_replay --list | --seeds FOLDER\n",
          stderr);
    return status;
  } catch (const std::exception& error) {
    weig::fuzz::broken("nothing throws", error.what());
  }
}
