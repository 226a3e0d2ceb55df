// SPDX-License-Identifier: Apache-2.0
// ModelSet: members found, opened, and proven to belong together; then the tensors of
// all by one ordinal and by name.
#include <weig/model_set.h>

#include <algorithm>
#include <cstring>
#include <unordered_set>

#include "core/digest.h"
#include "core/progress.h"
#include "core/try.h"
#include "os/os.h"
#include "store/backing.h"
#include "store/set_id.h"
#include "store/set_members.h"

namespace weig {
namespace {

// What is asked for one file, and cannot be for several.
Status check_load(const LoadOptions& options) {
  if (options.way == LoadWay::stream)
    return Error(Code::invalid_argument,
                 "a set of several files cannot be streamed: they are loaded one after "
                 "the other")
        .hint("populate, read or auto, or stream one member");
  if (!options.ranges.empty())
    return Error(Code::invalid_argument,
                 "ranges of bytes are of one file, and the set has several");
  return {};
}

}  // namespace

Result<ModelSet> ModelSet::open(const std::string& path, const OpenOptions& options) {
  std::string file = path;
  if (os::is_folder(path)) {
    WEIG_TRY_ASSIGN(chosen, model_in_folder(path));
    file = std::move(chosen);
  }
  auto shard = shard_of(file);
  ModelSet set;
  if (shard && *shard && (*shard)->count > 1) {
    set.shard_ = **shard;
    WEIG_TRY_ASSIGN(paths, find_members(file, **shard));
    set.paths_ = std::move(paths);
    if (auto possible = check_load(options.load); !possible)
      return std::move(possible).error().file(file);
    WEIG_TRY(set.open_members(options));
    return set;
  }
  // What is wrong with the file, opening it says.
  WEIG_TRY_ASSIGN(alone, open_alone(file, options));
  if (options.validation == Validation::full) WEIG_TRY(alone.check_set_id());
  return std::move(alone);
}

Result<ModelSet> ModelSet::open_alone(const std::string& path,
                                      const OpenOptions& options) {
  WEIG_TRY_ASSIGN(model, Model::open(path, options));
  auto shard = model.shard();
  if (!shard) return std::move(shard).error().file(path);
  ModelSet set;
  set.shard_ = *shard;
  set.firsts_ = {0, model.size()};
  set.file_size_ = model.file_size();
  set.paths_ = {path};
  set.members_.emplace_back(std::move(model));
  return set;
}

Result<std::optional<Shard>> ModelSet::membership(const std::string& path) {
  return shard_of(path);
}

Result<std::vector<std::string>> ModelSet::files_called_alike(const std::string& path) {
  return weig::files_called_alike(path);
}

Status ModelSet::open_members(const OpenOptions& options) {
  OpenOptions each = options;
  each.load.way = LoadWay::map;
  firsts_.push_back(0);
  for (const std::string& path : paths_) {
    WEIG_TRY_ASSIGN(model, Model::open(path, each));
    // Of thousands of members each would hold a descriptor until it is loaded.
    if (options.guard == Guard::off) model.backing_->drop_anchor();
    firsts_.push_back(firsts_.back() + model.size());
    file_size_ += model.file_size();
    members_.emplace_back(std::move(model));
  }
  WEIG_TRY(check_members());
  if (options.validation == Validation::full) WEIG_TRY(check_set_id());
  return options.load.way == LoadWay::map ? Status() : load(options.load);
}

Status ModelSet::check_members() const {
  for (std::uint32_t m = 0; m < member_count(); ++m) {
    const Model& model = *members_[m];
    const auto failed = [&](Error error) { return std::move(error).file(paths_[m]); };
    auto shard = model.shard();
    if (!shard) return failed(std::move(shard).error());
    Shard expected = *shard_;
    expected.index = m;
    if (!*shard || std::memcmp(&**shard, &expected, sizeof expected) != 0)
      return failed(Error(Code::corrupt, "the file was changed while it was opened"));
    for (const disk::SectionKind kind : model.section_kinds())
      if (m > 0 &&
          (kind == disk::SectionKind::metadata || kind == disk::SectionKind::source))
        return failed(Error(Code::corrupt,
                            "only the first member of a set has metadata and source")
                          .found("section " +
                                 std::to_string(static_cast<std::uint32_t>(kind)) +
                                 " in member " + std::to_string(m + 1)));
  }
  if (size() == shard_->tensors) return {};
  return Error(Code::corrupt, "the tensors of all members")
      .file(paths_.front())
      .found(size())
      .expected(shard_->tensors);
}

Status ModelSet::check_set_id() const {
  if (!shard_) return {};
  if (!whole())
    return Error(Code::invalid_argument, "only one member of the set is open")
        .file(paths_.front());
  SetId id;
  std::unordered_set<std::string_view> names;  // distinct in each member already
  names.reserve(size());
  for (std::uint32_t m = 0; m < member_count(); ++m) {
    WEIG_TRY_ASSIGN(model, open_member(m));
    for (std::uint32_t i = 0; i < model->size(); ++i) {
      WEIG_TRY_ASSIGN(tensor, (*model)[i]);
      auto digest = model->digest(i);
      if (!digest) return std::move(digest).error().file(paths_[m]);
      if (!*digest)
        return Error(Code::corrupt,
                     "a member without digests: the set's id cannot be proven")
            .file(paths_[m]);
      if (!names.insert(tensor.name()).second)
        return Error(Code::corrupt, "two members have a tensor of the same name")
            .file(paths_[m])
            .tensor(tensor.name());
      id.add(tensor.name(), **digest);
    }
  }
  const Digest expected{.low = shard_->set_low, .high = shard_->set_high};
  if (id.digest() == expected) return {};
  return Error(Code::corrupt, "the members do not make the set that they name")
      .file(paths_.front())
      .found(to_hex(id.digest()))
      .expected(to_hex(expected))
      .hint("they may come from different conversions of one model");
}

Status ModelSet::load(const LoadOptions& options) {
  if (member_count() > 1)
    if (auto possible = check_load(options); !possible)
      return std::move(possible).error().file(paths_.front());
  std::uint64_t before = 0;
  LoadOptions each = options;
  if (options.progress)
    each.progress = [&](std::uint64_t done, std::uint64_t) {
      return goes_on(options.progress, before + done, file_size_);
    };
  for (std::optional<Model>& member : members_) {
    if (!member) continue;
    WEIG_TRY(member->load(each));
    before += member->file_size();
  }
  return {};
}

void ModelSet::release(std::uint32_t m) { members_[m].reset(); }

Error ModelSet::released(std::uint32_t m) const {
  return Error(Code::invalid_argument, "this member of the set was released")
      .file(paths_[m])
      .found("member " + std::to_string(m + std::uint64_t{1}) + " of " +
             std::to_string(member_count()));
}

Result<const Model*> ModelSet::open_member(std::uint32_t m) const {
  if (!members_[m]) return released(m);
  return &*members_[m];
}

std::uint32_t ModelSet::member_of(std::uint64_t ordinal) const noexcept {
  const auto next = std::ranges::upper_bound(firsts_, ordinal);
  return static_cast<std::uint32_t>(next - firsts_.begin() - 1);
}

Result<Tensor> ModelSet::operator[](std::uint64_t ordinal) const& {
  if (ordinal >= size())
    return Error(Code::invalid_argument, "no tensor has this ordinal")
        .file(paths_.front())
        .found(ordinal)
        .expected("below " + std::to_string(size()));
  const std::uint32_t m = member_of(ordinal);
  WEIG_TRY_ASSIGN(model, open_member(m));
  return (*model)[ordinal - firsts_[m]];
}

Result<std::optional<Tensor>> ModelSet::find(std::string_view name) const& {
  std::optional<std::uint32_t> closed;
  for (std::uint32_t m = 0; m < member_count(); ++m) {
    if (!members_[m]) {
      closed = m;
      continue;
    }
    auto tensor = members_[m]->find(name);
    if (!tensor || *tensor) return tensor;
  }
  if (closed) return released(*closed).tensor(name).hint("no other member has it");
  return std::optional<Tensor>();
}

Result<Tensor> ModelSet::tensor(std::string_view name) const& {
  if (member_count() == 1 && members_[0]) return members_[0]->tensor(name);
  WEIG_TRY_ASSIGN(found, find(name));
  if (found) return *found;
  return Error(Code::not_found, "no tensor of this name")
      .file(paths_.front())
      .tensor(name)
      .found("none in " + std::to_string(member_count()) + " members");
}

Result<std::optional<std::uint64_t>> ModelSet::find_ordinal(
    std::string_view name) const {
  for (std::uint32_t m = 0; m < member_count(); ++m) {
    WEIG_TRY_ASSIGN(model, open_member(m));
    WEIG_TRY_ASSIGN(tensor, model->find(name));
    if (tensor) return std::optional(firsts_[m] + tensor->ordinal());
  }
  return std::optional<std::uint64_t>();
}

Result<std::vector<SetGroup>> ModelSet::groups() const& {
  std::vector<SetGroup> all;
  for (std::uint32_t m = 0; m < member_count(); ++m) {
    if (!members_[m]) continue;
    auto groups = members_[m]->groups();
    if (!groups) return std::move(groups).error().file(paths_[m]);
    for (std::uint32_t i = 0; i < groups->size(); ++i) {
      const Group group = (*groups)[i];
      const std::uint64_t first = firsts_[m] + group.first;
      const bool goes_on = i == 0 && !all.empty() && all.back().name == group.name &&
                           all.back().first + all.back().count == first;
      if (goes_on)
        all.back().count += group.count;
      else
        all.push_back({group.name, first, group.count});
    }
  }
  return all;
}

Result<std::optional<std::string_view>> ModelSet::metadata_text() const& {
  WEIG_TRY_ASSIGN(model, open_member(0));
  return model->metadata_text();
}

Result<Metadata> ModelSet::metadata() const {
  WEIG_TRY_ASSIGN(model, open_member(0));
  return model->metadata();
}

Result<std::optional<SourceHeader>> ModelSet::source() const& {
  WEIG_TRY_ASSIGN(model, open_member(0));
  return model->source();
}

}  // namespace weig
