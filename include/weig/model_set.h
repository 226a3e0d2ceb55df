// SPDX-License-Identifier: Apache-2.0
// ModelSet: a model in several files, open as one. A file alone is a set of one.
//
// The members of a set lie in one folder and are found by what is inside them; their
// names, NAME-00002-of-00005.weig, are the first guess. Ordinals of tensors count over
// the whole set, in the order of the members; a Tensor's own ordinal() and offset are
// those of its member.
//
//   auto set = weig::ModelSet::open("model-00001-of-00005.weig");
//   for (std::uint32_t m = 0; m < set->member_count(); ++m) {
//     for (const auto& tensor : set->member(m)->tensors()) ...
//     set->release(m);                                // done with these
//   }
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <weig/error.h>
#include <weig/model.h>

namespace weig {

// A run of tensors that belong together, usually one layer: ordinals over the set. One
// that its writer had to divide among members is one run here.
struct SetGroup {
  std::string_view name;
  std::uint64_t first = 0;
  std::uint64_t count = 0;
};

// Move-only. All views that it hands out are valid as long as the member that they are
// of, until it is released, and survive a move of the set. const methods may be called
// from several threads at once, but not during release() or load().
class ModelSet {
 public:
  // Opens all members of the set that the file is in, any of them; or the one model of
  // a folder. `options` are each member's; what they ask to load is loaded when the set
  // is proven, one member after the other. With Validation::full, check_set_id() is
  // part of it.
  //
  // Fails as Model::open() does; with cannot_open where a member is missing; and with
  // corrupt where a file has the name of a member and is another one, or is of another
  // set, or two files are the same member, where the names do not decide; and with
  // invalid_argument where a folder holds several models, and for LoadWay::stream of
  // more than one file. The error names the file, what it is and what was expected.
  static Result<ModelSet> open(const std::string& path,
                               const OpenOptions& options = {});
  // Opens the file alone, also where it is a member of a set: a part of a model then,
  // as shard() tells. Fails as Model::open() does.
  static Result<ModelSet> open_alone(const std::string& path,
                                     const OpenOptions& options = {});

  // What a file says of the set that it is a member of; nothing for one that is none.
  // Reads its front alone. Fails as Model::open() does.
  static Result<std::optional<Shard>> membership(const std::string& path);
  // For who looks for what is wrong with a set that does not open: the files of the
  // folder that are called as members of the set that the file is called as one of,
  // whatever they are, sorted. The file alone where it has no such name; of a folder,
  // that of its one model. Fails as open() does for a folder.
  static Result<std::vector<std::string>> files_called_alike(const std::string& path);

  ModelSet(ModelSet&&) noexcept = default;
  ModelSet& operator=(ModelSet&&) noexcept = default;

  // Tensors in all members, and bytes of all files.
  std::uint64_t size() const noexcept { return firsts_.back(); }
  std::uint64_t file_size() const noexcept { return file_size_; }

  std::uint32_t member_count() const noexcept {
    return static_cast<std::uint32_t>(members_.size());
  }
  // Null for one that was released. Requires m < member_count(), here and below.
  const Model* member(std::uint32_t m) const& noexcept WEIG_LIFETIMEBOUND {
    return members_[m] ? &*members_[m] : nullptr;
  }
  const Model* member(std::uint32_t m) const&& = delete;
  // For its parts, windows and overlays: all that Model has.
  Model* member(std::uint32_t m) & noexcept WEIG_LIFETIMEBOUND {
    return members_[m] ? &*members_[m] : nullptr;
  }
  const std::string& path(std::uint32_t m) const& noexcept WEIG_LIFETIMEBOUND {
    return paths_[m];
  }
  const std::string& path(std::uint32_t m) const&& = delete;
  // The ordinal of a member's first tensor; for member_count(), size().
  std::uint64_t first(std::uint32_t m) const noexcept { return firsts_[m]; }
  // The member that a tensor is in. Requires ordinal < size().
  std::uint32_t member_of(std::uint64_t ordinal) const noexcept;

  // Of a file that is a member, also of a set of one; nothing for other files. `index`
  // is that of the member by which the set was opened.
  const std::optional<Shard>& shard() const& noexcept WEIG_LIFETIMEBOUND {
    return shard_;
  }
  const std::optional<Shard>& shard() const&& = delete;
  // False for a member that was opened alone.
  bool whole() const noexcept { return !shard_ || shard_->count == member_count(); }

  // As in Model, over the whole set. Of a member that was released, a tensor is an
  // invalid_argument that says so, and so is a name that no open member has.
  Result<Tensor> operator[](std::uint64_t ordinal) const& WEIG_LIFETIMEBOUND;
  Result<Tensor> operator[](std::uint64_t ordinal) const&& = delete;
  Result<std::optional<Tensor>> find(std::string_view name) const& WEIG_LIFETIMEBOUND;
  Result<std::optional<Tensor>> find(std::string_view name) const&& = delete;
  Result<Tensor> tensor(std::string_view name) const& WEIG_LIFETIMEBOUND;
  Result<Tensor> tensor(std::string_view name) const&& = delete;
  // The ordinal of the tensor of that name. O(members), as the others by name.
  Result<std::optional<std::uint64_t>> find_ordinal(std::string_view name) const;

  // All tensors in order: for (const Result<Tensor>& tensor : set.tensors()).
  using Range = TensorRange<ModelSet>;
  Range tensors() const& WEIG_LIFETIMEBOUND { return Range(this); }
  Range tensors() const&& = delete;

  // Groups of all open members, in order.
  Result<std::vector<SetGroup>> groups() const& WEIG_LIFETIMEBOUND;
  Result<std::vector<SetGroup>> groups() const&& = delete;

  // Of the first member, which has them for all. invalid_argument when it is released.
  Result<std::optional<std::string_view>> metadata_text() const& WEIG_LIFETIMEBOUND;
  Result<std::optional<std::string_view>> metadata_text() const&& = delete;
  Result<Metadata> metadata() const;
  Result<std::optional<SourceHeader>> source() const& WEIG_LIFETIMEBOUND;
  Result<std::optional<SourceHeader>> source() const&& = delete;

  // Proves that the members are those of this very set: their tensors, in this order,
  // make the set's id, and no two have one name. Reads names and digests, no weights.
  // Nothing to prove for a file that is no member. Fails with corrupt, and with
  // invalid_argument where a member was released or only one is open.
  Status check_set_id() const;

  // Brings the weights of all open members into memory, in order; as Model::load(). The
  // progress counts bytes of the files of all. Fails with invalid_argument for
  // LoadWay::stream of more than one file.
  Status load(const LoadOptions& options);

  // Closes a member; what points into it is no longer valid.
  void release(std::uint32_t m);

 private:
  ModelSet() = default;
  Status open_members(const OpenOptions& options);
  Status check_members() const;
  Result<const Model*> open_member(std::uint32_t m) const;
  Error released(std::uint32_t m) const;

  std::optional<Shard> shard_;
  std::vector<std::string> paths_;
  std::vector<std::optional<Model>> members_;
  std::vector<std::uint64_t> firsts_;  // and size() at the end
  std::uint64_t file_size_ = 0;
};

}  // namespace weig
