// SPDX-License-Identifier: Apache-2.0
// SetOutput: the files of a sharded set, which appear together or not at all.
//
// All members are whole and synced under temporary names before the first gets its own;
// an old set is set aside before that, and comes back where a step fails. A kill in
// between leaves members without the others, which nobody opens.
#pragma once

#include <span>
#include <string>
#include <vector>

#include <weig/writer.h>

#include "convert/partition.h"
#include "convert/sources.h"
#include "store/member_name.h"

namespace weig {

class SetOutput {
 public:
  // `target` is "NAME.weig". Fails with exists where members of that name are there and
  // must not be replaced, or are sources.
  static Result<SetOutput> plan(const std::string& target, Existing existing,
                                const Sources& sources);

  // Reserves the space of all. `sections` and `plans` are by member.
  Status create(std::span<const TensorSpec> specs, const Plan& plan,
                std::span<const OrdinalRun> members,
                std::span<const std::vector<SectionBytes>> sections,
                std::uint32_t permissions);

  std::span<Writer> writers() noexcept { return writers_; }
  // All data is there: seals all, gives them their names. Returns the set's id.
  Result<Digest> publish();

  // Of all members: tensors and the padding between and after them.
  std::uint64_t data_bytes() const noexcept { return data_bytes_; }
  const std::string& path(std::size_t member) const { return paths_[member]; }
  // Of a published set.
  const Digest& file_id(std::size_t member) const { return file_ids_[member]; }

 private:
  Result<Digest> fill_in_set_id();
  Status give_names();
  // Of files in the way, those that go: of this set's names, and members of older ones.
  std::vector<std::string> replaced() const;

  MemberName name_;
  Existing existing_ = Existing::refuse;
  std::vector<std::string> old_;  // files of such names
  std::vector<std::string> paths_;
  std::vector<std::vector<std::string_view>> names_;  // of tensors, in table order
  std::vector<Writer> writers_;
  std::vector<Digest> file_ids_;
  std::uint64_t data_bytes_ = 0;
};

// The bytes of a shard section.
SectionBytes shard_section(const Shard& shard);

}  // namespace weig
