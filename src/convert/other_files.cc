// SPDX-License-Identifier: Apache-2.0
#include "convert/other_files.h"

#include <algorithm>
#include <filesystem>

#include "core/try.h"

namespace weig {
namespace {

constexpr std::uint64_t kPiece = std::uint64_t{1} << 20;

Status copy_file(const std::string& from, const std::string& to, Existing existing) {
  WEIG_TRY_ASSIGN(input, os::InputFile::open(from));
  WEIG_TRY_ASSIGN(output, os::OutputFile::create(to, existing == Existing::replace
                                                         ? os::IfExists::replace
                                                         : os::IfExists::refuse));
  std::vector<std::byte> piece(std::min(kPiece, input.size()));
  for (std::uint64_t at = 0; at < input.size();) {
    const auto bytes = MutableBytes(piece).first(
        std::min<std::uint64_t>(piece.size(), input.size() - at));
    WEIG_TRY(input.read(at, bytes));
    WEIG_TRY(output.write(at, bytes));
    at += bytes.size();
  }
  WEIG_TRY(output.sync());
  return output.publish();
}

}  // namespace

Result<OtherFileCopies> OtherFileCopies::plan(const Sources& sources,
                                              const std::string& target,
                                              Existing existing) {
  OtherFileCopies copies;
  copies.existing_ = existing;
  const std::filesystem::path beside = std::filesystem::path(target).parent_path();
  for (const std::string& name : sources.other_files) {
    Copy copy{(std::filesystem::path(sources.folder) / name).string(),
              (beside / name).string()};
    const auto from = os::file_id(copy.from);
    const auto to = os::file_id(copy.to);
    if (from && to && *from == *to) continue;
    if (os::exists(copy.to) && existing == Existing::refuse)
      return Error(Code::exists, "a file of the model's folder would be overwritten")
          .file(copy.to);
    copies.copies_.push_back(std::move(copy));
  }
  return copies;
}

Status OtherFileCopies::run() const {
  for (const Copy& copy : copies_) WEIG_TRY(copy_file(copy.from, copy.to, existing_));
  return {};
}

}  // namespace weig
