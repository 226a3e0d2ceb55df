// SPDX-License-Identifier: Apache-2.0
#include "convert/set_output.h"

#include <algorithm>
#include <filesystem>

#include "core/bytes.h"
#include "core/try.h"
#include "os/folder_lock.h"
#include "os/os.h"
#include "store/set_id.h"
#include "store/set_members.h"

namespace weig {
namespace {

// Files beside `stem` that are called as members of a set of that name.
Result<std::vector<std::string>> files_called(const std::string& stem) {
  const std::filesystem::path parent = std::filesystem::path(stem).parent_path();
  WEIG_TRY_ASSIGN(names, os::names_in(parent.empty() ? "." : parent.string()));
  std::vector<std::string> found;
  for (const std::string& name : names) {
    const std::string path = (parent / name).string();
    const auto member = parse_member_name(path);
    if (member && member->stem == stem && member->ending == MemberName{}.ending)
      found.push_back(path);
  }
  std::ranges::sort(found);
  return found;
}

// As paths of files in its folder are spelt.
std::string stem_of(const std::string& target) {
  const std::filesystem::path path(target);
  std::string stem = (path.parent_path() / path.filename()).string();
  const std::string ending = MemberName{}.ending;
  if (stem.ends_with(ending)) stem.resize(stem.size() - ending.size());
  return stem;
}

}  // namespace

SectionBytes shard_section(const Shard& shard) {
  std::vector<std::byte> bytes(sizeof(Shard));
  store(bytes.data(), shard.set_low);
  store(bytes.data() + 8, shard.set_high);
  store(bytes.data() + 16, shard.index);
  store(bytes.data() + 20, shard.count);
  store(bytes.data() + 24, shard.tensors);
  return {disk::SectionKind::shard, std::move(bytes)};
}

Result<SetOutput> SetOutput::plan(const std::string& target, Existing existing,
                                  const Sources& sources) {
  SetOutput output;
  output.name_.stem = stem_of(target);
  output.existing_ = existing;
  WEIG_TRY_ASSIGN(old, files_called(output.name_.stem));
  output.old_ = std::move(old);
  for (const std::string& path : output.old_) {
    if (existing == Existing::refuse)
      return Error(Code::exists, "the output exists already").file(path);
    const auto id = os::file_id(path);
    for (const SourceFile& source : sources.files)
      if (id && source.file.id() == *id)
        return Error(Code::exists, "the output is one of the sources")
            .file(path)
            .found(source.file.path());
    for (const SourceFile& source : sources.files)
      for (const DataFile& data : source.data_files)
        if (id && data.id == *id)
          return Error(Code::exists, "the output is one of the sources")
              .file(path)
              .found(data.path);
  }
  return output;
}

Status SetOutput::create(std::span<const TensorSpec> specs, const Plan& plan,
                         std::span<const OrdinalRun> members,
                         std::span<const std::vector<SectionBytes>> sections,
                         std::uint32_t permissions) {
  name_.count = members.size();
  writers_.reserve(members.size());
  for (std::size_t m = 0; m < members.size(); ++m) {
    name_.number = m + 1;
    paths_.push_back(name_.text());
    std::vector<TensorSpec> own;
    for (std::uint32_t i = members[m].first; i < members[m].end(); ++i)
      own.push_back(specs[plan.order()[i]]);
    WEIG_TRY_ASSIGN(own_plan, Plan::make(own));
    data_bytes_ += own_plan.data_bytes();
    std::vector<std::string_view>& names = names_.emplace_back();
    for (const std::uint32_t i : own_plan.order()) names.push_back(own[i].name);
    WEIG_TRY_ASSIGN(writer, Writer::create(paths_.back(), own, own_plan,
                                           {.existing = existing_,
                                            .sections = sections[m],
                                            .permissions = permissions}));
    writers_.push_back(std::move(writer));
  }
  return {};
}

Result<Digest> SetOutput::fill_in_set_id() {
  SetId id;
  std::uint64_t tensors = 0;
  for (std::size_t m = 0; m < writers_.size(); ++m) {
    WEIG_TRY_ASSIGN(digests, writers_[m].digests());
    for (std::size_t i = 0; i < digests.size(); ++i) id.add(names_[m][i], digests[i]);
    tensors += digests.size();
  }
  const Digest set = id.digest();
  for (std::size_t m = 0; m < writers_.size(); ++m)
    WEIG_TRY(writers_[m].replace_section(
        shard_section({.set_low = set.low,
                       .set_high = set.high,
                       .index = static_cast<std::uint32_t>(m),
                       .count = static_cast<std::uint32_t>(writers_.size()),
                       .tensors = tensors})));
  return set;
}

std::vector<std::string> SetOutput::replaced() const {
  std::vector<std::string> files;
  for (const std::string& path : old_) {
    if (!os::is_file(path)) continue;  // who gives the names says why not
    if (std::ranges::find(paths_, path) != paths_.end()) {
      // Through a symbolic link, the file that it names is replaced.
      std::error_code error;
      const auto real = std::filesystem::canonical(path, error);
      files.push_back(error ? path : real.string());
    } else if (const auto shard = shard_of(path); shard && *shard) {
      files.push_back(path);
    }
  }
  // Several names may lead to one file.
  std::ranges::sort(files);
  files.erase(std::ranges::unique(files).begin(), files.end());
  return files;
}

// From the last to the first: whoever sees the first sees them all. Other conversions
// to the same folder wait meanwhile, so that all that is set aside, replaced or taken
// back is what this one has found or made.
Status SetOutput::give_names() {
  const auto lock = os::FolderLock::take(paths_.front());
  if (!lock) return lock.error();
  WEIG_TRY_ASSIGN(old, files_called(name_.stem));
  old_ = std::move(old);
  if (existing_ == Existing::refuse && !old_.empty())
    return Error(Code::exists, "the output exists already").file(old_.front());
  WEIG_TRY_ASSIGN(aside, os::SetAside::take(replaced()));
  for (std::size_t m = writers_.size(); m-- > 0;) {
    auto named = writers_[m].publish();
    if (named) continue;
    for (std::size_t done = m; done < writers_.size(); ++done) writers_[done].retract();
    return std::move(named).error().hint(
        "no member has got its name; what was there before is there again");
  }
  aside.remove();
  return {};
}

Result<Digest> SetOutput::publish() {
  WEIG_TRY_ASSIGN(set, fill_in_set_id());
  for (Writer& writer : writers_) {
    WEIG_TRY_ASSIGN(id, writer.seal());
    file_ids_.push_back(id);
  }
  WEIG_TRY(give_names());
  return set;
}

}  // namespace weig
