// SPDX-License-Identifier: Apache-2.0
#include "convert/gguf_split.h"

#include <algorithm>
#include <filesystem>

#include <weig/metadata.h>

#include "core/text.h"
#include "core/try.h"

namespace weig {
namespace {

constexpr std::uint64_t kMostParts = 65'535;  // split.count is a u16
constexpr std::size_t kNamesShown = 5;

// "00002"
std::string five_digits(std::uint64_t number) {
  std::string digits = std::to_string(number);
  return std::string(5 - std::min<std::size_t>(5, digits.size()), '0') + digits;
}

// "-00002-of-00003.gguf"
std::string ending_of(std::uint64_t number, std::uint64_t count) {
  return "-" + five_digits(number + 1) + "-of-" + five_digits(count) + ".gguf";
}

std::string part_of(const GgufSplit& split) {
  return "part " + std::to_string(split.number + 1) + " of " +
         std::to_string(split.count);
}

// What the names of all parts begin with, by the name of one.
Result<std::string> common_name(const SourceFile& part) {
  const GgufSplit& split = *part.gguf_split;
  const std::string& path = part.file.path();
  if (split.count > kMostParts)
    return Error(Code::corrupt, "the model has more parts than GGUF can number")
        .file(path)
        .found(split.count);
  const std::string ending = ending_of(split.number, split.count);
  if (path.ends_with(ending)) return path.substr(0, path.size() - ending.size());
  return Error(Code::corrupt,
               "the file's name does not say which part of a model it is")
      .file(path)
      .found(part_of(split) + " by its keys")
      .expected("a name that ends in " + ending)
      .hint("the parts may have been renamed");
}

Status check_present(const std::string& common, const GgufSplit& split) {
  std::vector<std::string> missing;
  for (std::uint64_t i = 0; i < split.count; ++i) {
    const std::string path = common + ending_of(i, split.count);
    if (!os::is_file(path))
      missing.push_back(std::filesystem::path(path).filename().string());
  }
  if (missing.empty()) return {};
  std::string names;
  for (std::size_t i = 0; i < missing.size() && i < kNamesShown; ++i)
    names += (i > 0 ? ", " : "") + in_quotes(missing[i]);
  if (missing.size() > kNamesShown)
    names += " and " + std::to_string(missing.size() - kNamesShown) + " more";
  return Error(Code::cannot_open, "parts of the model are not there: " + names)
      .file(common + ending_of(split.number, split.count))
      .found(std::to_string(split.count - missing.size()) + " of " +
             std::to_string(split.count) + " files");
}

Status check_same(const SourceFile& source, const GgufSplit& split,
                  std::uint64_t number) {
  const auto& found = source.gguf_split;
  if (found && found->number == number && found->count == split.count &&
      found->tensors == split.tensors)
    return {};
  const GgufSplit wanted{
      .number = number, .count = split.count, .tensors = split.tensors};
  const auto words = [](const GgufSplit& one) {
    return part_of(one) + " with " + std::to_string(one.tensors) + " tensors in all";
  };
  return Error(Code::corrupt, "the file is another part of a model than its name says")
      .file(source.file.path())
      .found(found ? words(*found) : "no part of a model")
      .expected(words(wanted));
}

// Keys that tell of the parts mean nothing any more.
Status drop_split_keys(Manifest& manifest) {
  WEIG_TRY_ASSIGN(metadata, Metadata::parse(*manifest.metadata));
  for (const char* key : {"split.no", "split.count", "split.tensors.count"})
    metadata.remove(key);
  manifest.metadata = metadata.text();
  return {};
}

}  // namespace

Status add_gguf_split(SourceFile part, const ConvertOptions& options,
                      Sources& sources) {
  const GgufSplit split = *part.gguf_split;
  WEIG_TRY_ASSIGN(common, common_name(part));
  WEIG_TRY(check_present(common, split));
  std::uint64_t tensors = 0;
  for (std::uint64_t i = 0; i < split.count; ++i) {
    WEIG_TRY_ASSIGN(source, open_source(common + ending_of(i, split.count), options));
    WEIG_TRY(check_same(source, split, i));
    WEIG_TRY(drop_split_keys(source.manifest));
    tensors += source.manifest.entries().size();
    sources.files.push_back(std::move(source));
  }
  if (tensors == split.tensors) return {};
  return Error(Code::corrupt,
               "the parts of the model have not as many tensors as they say")
      .file(common + ending_of(0, split.count))
      .found(tensors)
      .expected(split.tensors);
}

}  // namespace weig
