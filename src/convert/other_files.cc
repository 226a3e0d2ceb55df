// SPDX-License-Identifier: Apache-2.0
#include "convert/other_files.h"

#include <algorithm>
#include <filesystem>

#include "core/progress.h"
#include "core/try.h"
#include "store/sink.h"

namespace weig {
namespace {

constexpr std::uint64_t kPiece = std::uint64_t{1} << 20;

// What is counted for a progress callback.
struct Count {
  const Progress& progress;
  std::uint64_t total = 0;
  std::uint64_t done = 0;
};

bool is_zero(Bytes bytes) {
  return std::ranges::all_of(bytes, [](std::byte byte) { return byte == std::byte{}; });
}

Status copy_file(const std::string& from, const std::string& to, Existing existing,
                 Count& count) {
  WEIG_TRY_ASSIGN(input, os::InputFile::open(from));
  WEIG_TRY_ASSIGN(output, os::OutputFile::create(to,
                                                 existing == Existing::replace
                                                     ? os::IfExists::replace
                                                     : os::IfExists::refuse,
                                                 as_private_as(input.permissions())));
  std::vector<std::byte> piece(std::min(kPiece, input.size()));
  for (std::uint64_t at = 0; at < input.size();) {
    const auto bytes = MutableBytes(piece).first(
        std::min<std::uint64_t>(piece.size(), input.size() - at));
    WEIG_TRY(input.read(at, bytes));
    // Holes stay holes; the last piece gives the file its size.
    const bool last = bytes.size() == input.size() - at;
    if (last || !is_zero(bytes)) WEIG_TRY(output.write(at, bytes));
    at += bytes.size();
    count.done += bytes.size();
    if (!goes_on(count.progress, count.done, std::max(count.done, count.total)))
      return Error(Code::cancelled, "copying was stopped").file(to);
  }
  WEIG_TRY(output.sync());
  return output.publish();
}

// Which file a path leads to, and whether it is one that must stay as it is.
class Protected {
 public:
  explicit Protected(const Sources& sources) {
    for (const SourceFile& source : sources.files) {
      ids_.push_back(source.file.id());
      for (const DataFile& data : source.data_files) ids_.push_back(data.id);
    }
    for (const std::string& index : sources.index_files) add(index);
    for (const std::string& name : sources.other_files)
      add((std::filesystem::path(sources.folder) / name).string());
  }
  bool holds(const os::FileId& id) const { return std::ranges::count(ids_, id) > 0; }

 private:
  void add(const std::string& path) {
    if (const auto id = os::file_id(path)) ids_.push_back(*id);
  }
  std::vector<os::FileId> ids_;
};

// Where a copy goes there is nothing, or, if that may be, a file that it replaces: no
// input by another name, and not the output.
Status check_place(const std::string& to, const std::string& target,
                   const Protected& inputs, Existing existing) {
  const auto refuse = [&](const char* what) {
    return Error(Code::exists, what).file(to);
  };
  const auto id = os::file_id(to);
  const auto output = os::file_id(target);
  if (std::filesystem::path(to) == std::filesystem::path(target) ||
      (id && output && *id == *output))
    return refuse("a file of the model's folder would be copied over the output");
  if (!os::exists(to)) return {};
  if (existing == Existing::refuse)
    return refuse("a file of the model's folder would be overwritten");
  if (!id) return refuse("where a file would be copied to is a link to nothing");
  if (inputs.holds(*id)) return refuse("a copy would replace one of the sources");
  return {};
}

}  // namespace

Result<OtherFileCopies> OtherFileCopies::plan(const Sources& sources,
                                              const std::string& target,
                                              Existing existing) {
  OtherFileCopies copies;
  copies.existing_ = existing;
  const Protected inputs(sources);
  const std::filesystem::path beside = std::filesystem::path(target).parent_path();
  for (const std::string& name : sources.other_files) {
    Copy copy{(std::filesystem::path(sources.folder) / name).string(),
              (beside / name).string()};
    // What cannot be copied is told before anything is written.
    WEIG_TRY_ASSIGN(file, os::InputFile::open(copy.from));
    copy.size = file.size();
    const auto from = os::file_id(copy.from);
    const auto to = os::file_id(copy.to);
    if (from && to && *from == *to) continue;
    WEIG_TRY(check_place(copy.to, target, inputs, existing));
    copies.copies_.push_back(std::move(copy));
  }
  return copies;
}

Status OtherFileCopies::run(const Progress& progress) const {
  Count count{progress};
  for (const Copy& copy : copies_) count.total += copy.size;
  for (const Copy& copy : copies_)
    WEIG_TRY(copy_file(copy.from, copy.to, existing_, count));
  return {};
}

}  // namespace weig
