// SPDX-License-Identifier: Apache-2.0
#include "formats/sniff.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <string>

#include <weig/format.h>

#include "formats/npy_header.h"
#include "formats/onnx_mark.h"
#include "formats/torch_mark.h"

namespace weig {
namespace {

using std::string_view_literals::operator""sv;

constexpr const char* kReads = "weig --version lists what it reads";
constexpr const char* kUnpack = "unpack it first";
constexpr const char* kPickle = "a pickle of Python that is no PyTorch checkpoint";
constexpr const char* kPlainPickle =
    "weig runs no pickles; save its tensors by torch.save or as safetensors";
constexpr const char* kDownload = "download the file itself, not a page about it";

// Files that begin with these bytes are no weights that weig reads.
struct Lookalike {
  std::string_view prefix;
  const char* what;
  const char* hint;
  std::size_t at = 0;
};
constexpr auto kLookalikes = std::to_array<Lookalike>({
    {"version https://git-lfs.github.com/spec/"sv, "a Git LFS pointer, not the file",
     "fetch the file with 'git lfs pull'"},
    {"\x1F\x8B"sv, "a gzip archive", kUnpack},
    {"\xFD"
     "7zXZ\0"sv,
     "an xz archive", kUnpack},
    {"\x28\xB5\x2F\xFD"sv, "a zstd archive", kUnpack},
    {"7z\xBC\xAF\x27\x1C"sv, "a 7z archive", kUnpack},
    {"BZh"sv, "a bzip2 archive", kUnpack},
    {"\x04\x22\x4D\x18"sv, "an lz4 archive", kUnpack},
    {"Rar!\x1A\x07"sv, "a RAR archive", kUnpack},
    {"ustar"sv, "a tar archive", kUnpack, 257},
    {"\x89HDF\r\n\x1A\n"sv, "an HDF5 file", kReads},
    {"\x80\x02"sv, kPickle, kPlainPickle},
    {"\x80\x03"sv, kPickle, kPlainPickle},
    {"\x80\x04"sv, kPickle, kPlainPickle},
    {"\x80\x05"sv, kPickle, kPlainPickle},
    {"\x7F"
     "ELF"sv,
     "a program or shared library", kReads},
    {"%PDF"sv, "a PDF document", kDownload},
});

bool starts_with_ignoring_case(std::string_view text, std::string_view prefix) {
  return text.size() >= prefix.size() &&
         std::ranges::equal(text.substr(0, prefix.size()), prefix, {},
                            [](unsigned char c) { return std::tolower(c); });
}

Error not_weights(std::string what, std::string hint) {
  return Error(Code::corrupt, "not a weights file: it is " + std::move(what))
      .hint(std::move(hint));
}

// Text that is no weights, or nothing.
std::optional<Error> text_lookalike(std::string_view text) {
  // A byte order mark and white space may come first.
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  text.remove_prefix(std::min(text.find_first_not_of(" \t\r\n"), text.size()));
  for (const std::string_view tag :
       {"<!doctype html"sv, "<html"sv, "<head"sv, "<body"sv})
    if (starts_with_ignoring_case(text, tag))
      return not_weights("an HTML page", kDownload);
  if (text.starts_with("<?xml") || text.starts_with("<Error"))
    return not_weights("an XML document", kDownload);
  if (text.starts_with("version https://git-lfs"))
    return not_weights("a Git LFS pointer, not the file",
                       "fetch the file with 'git lfs pull'");
  if (!text.empty() && (text[0] == '{' || text[0] == '[')) {
    const bool error = text.find("error") != text.npos;
    return not_weights(
        error ? "a JSON error message" : "JSON text",
        error ? kDownload : "give the folder, or the file with the weights");
  }
  return std::nullopt;
}

}  // namespace

Result<Content> sniff(Bytes first, std::uint64_t file_size) {
  if (file_size == 0)
    return Error(Code::corrupt, "the file is empty: 0 bytes")
        .hint("its writing or its download was interrupted");
  if (first.size() >= 4) {
    const auto magic = load<std::uint32_t>(first.data());
    if (magic == disk::kMagic) return Content::weig;
    if (magic == disk::kSwappedMagic) return Content::weig_big_endian;
    if (text_of(first.first(4)) == "GGUF") return Content::gguf;
  }
  if (is_torch_stream(first)) return Content::torch_stream;
  const std::string_view text = text_of(first);
  // A length that fits the file and a JSON object behind it: before all lookalikes, as
  // a length's own bytes may spell anything, '{' for 123.
  const std::uint64_t length = first.size() > 8 ? load<std::uint64_t>(first.data()) : 0;
  if (length > 1 && length <= file_size - 8 && text[8] == '{')
    return Content::safetensors;
  if (text.starts_with("PK\x03\x04") || text.starts_with("PK\x05\x06"))
    return Content::zip;
  if (text.starts_with(kNpyMark)) return Content::npy;
  for (const Lookalike& known : kLookalikes)
    if (text.size() >= known.at && text.substr(known.at).starts_with(known.prefix))
      return not_weights(known.what, known.hint);
  if (auto error = text_lookalike(text)) return *std::move(error);
  // Headers that lie about their length, or do not start as they must: their reader
  // says what is wrong.
  if (first.size() > 8 && text[8] == '{') return Content::safetensors;
  if (length > 0 && length <= file_size - 8 && text.find('{', 8) != text.npos)
    return Content::safetensors;
  if (looks_like_onnx(first, file_size)) return Content::onnx;
  if (text.find_first_not_of('\0') == text.npos)
    return not_weights("nothing but zeros where a header should be",
                       "its writing or its download was interrupted");
  return Error(Code::corrupt, "no weights file that weig reads")
      .found(std::to_string(file_size) + " bytes that begin with none of their marks")
      .hint(file_size < 64 ? "it may have been cut" : kReads);
}

}  // namespace weig
