// SPDX-License-Identifier: Apache-2.0
#include "convert/partition.h"

#include <algorithm>
#include <bit>

#include "core/bytes.h"
#include "core/layout.h"

namespace weig {
namespace {

// How large the file of some tensors becomes, at most. Grows by one tensor at a time.
class FileSize {
 public:
  FileSize(std::uint64_t section_bytes, std::uint64_t section_bytes_a_tensor)
      : sections_(section_bytes), section_bytes_a_tensor_(section_bytes_a_tensor) {}

  // `group`: of its layout run; 0 for a loose tensor.
  void add(const TensorSpec& spec, std::uint64_t bytes, bool alias,
           std::string_view group) {
    ++tensors_;
    sections_ += section_bytes_a_tensor_;
    strings_ += spec.name.size() + 1 + 8 * spec.shape.size();
    if (alias) return;
    if (tensors_ == 1 || group.empty() || group != group_) start_run(group);
    run_ = align_up(run_, layout_alignment(bytes)) + bytes;
  }

  bool empty() const noexcept { return tensors_ == 0; }

  std::uint64_t bytes() const {
    // Each section starts on 64: less than 64 bytes before each of seven.
    constexpr std::uint64_t kTables = 8 * (sizeof(disk::SectionEntry) + 64);
    const std::uint64_t index =
        sizeof(disk::IndexHead) + sizeof(disk::IndexSlot) * std::bit_ceil(2 * tensors_);
    const std::uint64_t front =
        sizeof(disk::Header) + tensors_ * (sizeof(disk::TensorMeta) + sizeof(Digest)) +
        strings_ + 8 + kTables + index + groups_ + sections_ + sizeof(disk::Shard);
    const std::uint64_t data = run_end();
    const std::uint64_t start =
        align_up(front, std::max(disk::kDataStartAlignment, layout_alignment(data)));
    return align_up(start + data, disk::kDataAlignment) + sizeof(disk::Trailer);
  }

 private:
  std::uint64_t run_end() const {
    return align_up(position_, layout_alignment(run_)) + run_;
  }

  void start_run(std::string_view group) {
    position_ = run_end();
    if (!group_.empty()) position_ = align_up(position_, layout_alignment(run_));
    run_ = 0;
    group_ = group;
    if (!group.empty()) groups_ += sizeof(disk::GroupEntry) + group.size() + 1;
  }

  std::uint64_t sections_;
  std::uint64_t section_bytes_a_tensor_;
  std::uint64_t tensors_ = 0;
  std::uint64_t strings_ = 0;
  std::uint64_t groups_ = 8;
  std::uint64_t position_ = 0;  // where the last run may start
  std::uint64_t run_ = 0;       // its length
  std::string_view group_;
};

class Partition {
 public:
  Partition(std::span<const TensorSpec> specs, const Plan& plan,
            const PartitionRules& rules)
      : specs_(specs),
        plan_(plan),
        rules_(rules),
        size_(rules.first_section_bytes, rules.section_bytes_a_tensor) {}

  std::vector<OrdinalRun> run() {
    find_units();
    for (std::size_t unit = 0; unit + 1 < units_.size();) {
      std::size_t end = unit + 1;
      while (end + 1 < units_.size() && belongs_together(end)) ++end;
      add_block(unit, end);
      unit = end;
    }
    if (!size_.empty() || members_.empty()) close();
    return std::move(members_);
  }

 private:
  std::uint32_t count() const { return static_cast<std::uint32_t>(plan_.size()); }

  // Where the smallest indivisible pieces begin, and the end of the last.
  void find_units() {
    groups_.resize(count());
    for (const Plan::Run& group : plan_.groups())
      std::fill_n(groups_.begin() + group.first, group.count, group.name);
    std::vector<bool> divisible(count() + std::size_t{1}, true);
    for (std::uint32_t i = 0; i < count(); ++i) divisible[i] = !plan_.is_alias(i);
    for (const OrdinalRun& run : rules_.together)
      for (std::uint32_t i = run.first + 1; i < run.end(); ++i) divisible[i] = false;
    for (std::uint32_t i = 0; i <= count(); ++i)
      if (divisible[i]) units_.push_back(i);
  }

  // Whether the unit goes on with the group of the one before it.
  bool belongs_together(std::size_t unit) const {
    const std::string_view group = groups_[units_[unit]];
    return !group.empty() && group == groups_[units_[unit] - 1];
  }

  FileSize with(FileSize size, std::size_t first, std::size_t last) const {
    for (std::uint32_t i = units_[first]; i < units_[last]; ++i)
      size.add(specs_[plan_.order()[i]], plan_.byte_count(i), plan_.is_alias(i),
               groups_[i]);
    return size;
  }

  bool fits_member(const FileSize& size) const {
    return size.bytes() <= rules_.file_bytes;
  }

  // Units [first, last) are one group, or one loose unit.
  void add_block(std::size_t first, std::size_t last) {
    FileSize grown = with(size_, first, last);
    if (!fits_member(grown)) {
      close();
      grown = with(size_, first, last);
    }
    if (fits_member(grown) || last - first == 1) {
      size_ = grown;
      end_ = units_[last];
      return;
    }
    for (std::size_t unit = first; unit < last; ++unit) add_block(unit, unit + 1);
  }

  void close() {
    if (size_.empty() && !(members_.empty() && count() == 0)) return;
    const std::uint32_t first = members_.empty() ? 0 : members_.back().end();
    members_.push_back({first, end_ - first});
    size_ = FileSize(0, rules_.section_bytes_a_tensor);
  }

  std::span<const TensorSpec> specs_;
  const Plan& plan_;
  const PartitionRules& rules_;
  std::vector<std::uint32_t> units_;
  std::vector<std::string_view> groups_;  // by ordinal; empty: loose
  std::vector<OrdinalRun> members_;
  FileSize size_;          // of the member that is being filled
  std::uint32_t end_ = 0;  // of it
};

}  // namespace

std::vector<OrdinalRun> partition(std::span<const TensorSpec> specs, const Plan& plan,
                                  const PartitionRules& rules) {
  return Partition(specs, plan, rules).run();
}

}  // namespace weig
