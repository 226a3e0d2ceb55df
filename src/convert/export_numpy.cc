// SPDX-License-Identifier: Apache-2.0
// From a WEIG file or a set to NumPy's files: an archive of arrays (.npz), or files of
// one array each (.npy).
#include <algorithm>
#include <memory>
#include <unordered_map>
#include <unordered_set>

#include <libdeflate.h>
#include <weig/metadata.h>
#include <weig/model.h>

#include "convert/export_plan.h"
#include "convert/source_header.h"
#include "core/digest.h"
#include "core/text.h"
#include "core/try.h"
#include "formats/npy_header.h"
#include "formats/zip_writer.h"

namespace weig {
namespace {

constexpr std::uint64_t kAlignment = 64;
constexpr std::string_view kEnding = ".npy";
constexpr std::size_t kMaxMemberName = 65535;
constexpr std::size_t kMaxFileName = 255;  // bytes, as nearly every file system has it

// The header of the tensor as an array.
Result<std::string> header_of(const Tensor& tensor) {
  if (!npy_dtype_name(tensor.dtype()))
    return Error(Code::unsupported, "NumPy cannot hold this element type")
        .tensor(tensor.name())
        .found(std::string(dtype_name(tensor.dtype())))
        .hint(
            "'weig convert --cast f32' or '--dequantize' first makes a type of it "
            "that NumPy has");
  return make_npy_header(tensor.dtype(), tensor.shape());
}

Status warn_of_losses(const ModelSet& set, ExportPlan& plan) {
  std::uint64_t copies = 0;
  for (std::uint64_t i = 0; i < set.size(); ++i) {
    WEIG_TRY_ASSIGN(tensor, set[i]);
    WEIG_TRY_ASSIGN(owner, set.member(set.member_of(i))->owner(tensor.ordinal()));
    copies += owner != tensor.ordinal() ? 1 : 0;
  }
  if (copies > 0)
    plan.warnings.push_back("written again, since NumPy's files cannot share bytes: " +
                            std::to_string(copies) +
                            (copies == 1 ? " tensor" : " tensors"));
  for (std::string& section : sections_left_out(set, "NumPy"))
    plan.warnings.push_back(std::move(section));
  WEIG_TRY_ASSIGN(text, set.metadata_text());
  if (!text) return {};
  WEIG_TRY_ASSIGN(metadata, set.metadata());
  const auto lost = std::ranges::count_if(
      metadata.entries(),
      [](const Metadata::Entry& entry) { return !entry.key.starts_with(kSourceKeys); });
  if (lost > 0)
    plan.warnings.push_back("left out, since NumPy has no place for it: metadata of " +
                            std::to_string(lost) + (lost == 1 ? " key" : " keys"));
  return {};
}

// An archive, until its checksums are known: a member's is that of its header and the
// tensor together.
struct Archive {
  struct Member {
    std::uint32_t header_crc = 0;
    std::uint64_t tensor_bytes = 0;
  };
  ZipWriter zip{kAlignment};
  std::vector<Member> members;

  // Each piece but the first begins with what comes behind the tensor before.
  void complete(std::size_t piece, std::span<const std::uint32_t> crcs,
                std::string& out) {
    if (piece == 0) return;
    const Member& before = members[piece - 1];
    zip.set_crc(piece - 1,
                joined_crc(before.header_crc, crcs[piece - 1], before.tensor_bytes));
    const std::string end = zip.end_member(piece - 1);
    out.replace(0, end.size(), end);
    if (piece < members.size()) return;
    const std::string directory = zip.finish();
    out.replace(out.size() - directory.size(), directory.size(), directory);
  }
};

// NumPy takes the ending off names, and would take one tensor for another.
Status check_member_names(const ModelSet& set) {
  std::unordered_set<std::string, SeededHash> names;
  for (std::uint64_t i = 0; i < set.size(); ++i) {
    WEIG_TRY_ASSIGN(tensor, set[i]);
    if (tensor.name().size() > kMaxMemberName - kEnding.size())
      return Error(Code::unsupported, "the name is too long for a zip archive")
          .tensor(tensor.name());
    names.emplace(tensor.name());
  }
  for (const std::string& name : names)
    if (names.contains(name + std::string(kEnding)))
      return Error(Code::unsupported,
                   "NumPy could not tell the tensor from the one with .npy behind it")
          .tensor(name);
  return {};
}

// A tensor's name as a file's: what is not a letter, a digit, '-', '_' or '.' in ASCII
// is written %XX, and so is a dot at the begin.
std::string file_name_of(std::string_view name) {
  constexpr std::string_view kPlain =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.";
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  std::string out;
  for (const char c : name) {
    const bool hides = c == '.' && out.empty();
    if (kPlain.find(c) != kPlain.npos && !hides) {
      out += c;
      continue;
    }
    const auto byte = static_cast<unsigned char>(c);
    out += '%';
    out += kDigits[byte / 16];
    out += kDigits[byte % 16];
  }
  return out + std::string(kEnding);
}

std::string in_small_letters(std::string text) {
  for (char& c : text)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return text;
}

}  // namespace

Result<ExportPlan> plan_npz(const ModelSet& set, const ExportOptions&) {
  WEIG_TRY(check_member_names(set));
  ExportPlan plan;
  const auto archive = std::make_shared<Archive>();
  std::string bytes;
  for (std::uint32_t i = 0; i < set.size(); ++i) {
    WEIG_TRY_ASSIGN(tensor, set[i]);
    WEIG_TRY_ASSIGN(header, header_of(tensor));
    bytes +=
        archive->zip.begin_member(std::string(tensor.name()) + std::string(kEnding),
                                  header.size() + tensor.byte_count());
    archive->members.push_back(
        {libdeflate_crc32(0, header.data(), header.size()), tensor.byte_count()});
    plan.pieces.push_back({.bytes = bytes + header, .ordinal = i});
    bytes = archive->zip.end_member(i);
  }
  plan.pieces.push_back({.bytes = bytes + archive->zip.finish()});
  plan.complete = [archive](std::size_t piece, std::span<const std::uint32_t> crcs,
                            std::string& out) { archive->complete(piece, crcs, out); };
  WEIG_TRY(warn_of_losses(set, plan));
  return plan;
}

Result<ExportPlan> plan_npy(const ModelSet& set, const ExportOptions&) {
  ExportPlan plan;
  std::unordered_map<std::string, std::uint32_t, SeededHash> taken;
  for (std::uint32_t i = 0; i < set.size(); ++i) {
    WEIG_TRY_ASSIGN(tensor, set[i]);
    WEIG_TRY_ASSIGN(header, header_of(tensor));
    std::string name = file_name_of(tensor.name());
    if (name.size() > kMaxFileName)
      return Error(Code::unsupported, "the name is too long for a file")
          .tensor(tensor.name())
          .found(std::to_string(name.size()) + " bytes")
          .expected("at most " + std::to_string(kMaxFileName));
    const auto [other, is_new] = taken.emplace(in_small_letters(name), i);
    if (!is_new) {
      WEIG_TRY_ASSIGN(first, set[other->second]);
      return Error(Code::unsupported,
                   "two tensors' files would be one where small and capital letters "
                   "are the same")
          .tensor(tensor.name())
          .found("like " + in_quotes(first.name()))
          .hint("an .npz archive can hold both");
    }
    plan.pieces.push_back({.bytes = std::move(header), .ordinal = i});
    plan.file_names.push_back(std::move(name));
  }
  WEIG_TRY(warn_of_losses(set, plan));
  return plan;
}

}  // namespace weig
