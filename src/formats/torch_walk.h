// SPDX-License-Identifier: Apache-2.0
// TorchWalk: the tensors in what a checkpoint's pickle describes, by names that say
// where in it they are.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/digest.h"
#include "formats/pickle.h"
#include "formats/torch_names.h"
#include "formats/torch_places.h"

namespace weig {

// What a pickle says of a storage that lies outside it.
struct TorchStorageId {
  std::string_view key;
  const TorchType* type = nullptr;  // null: bytes
  std::uint64_t width = 1;          // bytes an element
  std::uint64_t elements = 0;       // of the whole
  // Of old files: the part of it that is meant, from an element to an element.
  std::uint64_t first = 0;
  std::uint64_t end = 0;
};

// Fails with corrupt, and with unsupported for types that are not read.
Result<TorchStorageId> torch_storage_id(const Pickle& pickle, PickleValue persistent);

// No pickle that names what could only do harm. Fails with unsupported.
Status check_harmless(const Pickle& pickle);

// Things of a file that are left behind: the first are told, the rest is counted.
class SkippedList {
 public:
  void add(std::string what) {
    if (++count_ <= kMost) told_.push_back(std::move(what));
  }
  void finish(std::vector<std::string>& skipped) &&;

 private:
  static constexpr std::size_t kMost = 100;
  std::vector<std::string> told_;
  std::size_t count_ = 0;
};

// Where the storages are, by key: indexes into those of TorchPlaces.
using TorchStorageKeys =
    std::unordered_map<std::string_view, std::uint32_t, SeededHash>;

class TorchWalk {
 public:
  // All must outlive this. `select`: the path of the one part that is wanted; names are
  // then what follows it.
  TorchWalk(const Pickle& pickle, const TorchStorageKeys& keys, TorchPlaces& places,
            SkippedList& skipped, std::string_view select)
      : pickle_(pickle),
        keys_(keys),
        places_(places),
        skipped_(skipped),
        select_(select),
        seen_(pickle.size()) {}

  // Everything from the root on. `path`: what all names begin with. Fails with corrupt,
  // unsupported, limit, and not_found where there is no such part.
  Status run(std::string_view path);

 private:
  enum class Content { tensor, container, other };

  PickleValue resolved(PickleValue value) const;
  Content content_of(PickleValue value) const;
  TorchCall call_of(PickleValue object) const;

  Status visit(PickleValue value);
  Status visit_container(PickleValue value);
  Status visit_dict(std::span<const PickleValue> keys_and_values);
  Status visit_pairs(std::span<const PickleValue> pairs);
  Status visit_list(std::span<const PickleValue> items);
  Status visit_object(PickleValue value);
  Status visit_child(const std::string& key, PickleValue child);
  Status visit_other(PickleValue value);
  Status spend(std::uint64_t bytes);

  bool is_wanted() const { return wanted_from_.has_value(); }
  bool may_hold_wanted() const;
  std::string_view name() const {
    return std::string_view(path_).substr(std::min(*wanted_from_, path_.size()));
  }
  Status check_name(std::string_view name) const;

  Status add_tensor(PickleValue value);
  Status add_view(std::span<const PickleValue> arguments, TorchCall call);
  Result<const TorchType*> type_of(std::span<const PickleValue> arguments,
                                   TorchCall call, const TorchStorageId& storage) const;
  Status read_sizes(PickleValue value, const char* what,
                    std::vector<std::uint64_t>& out) const;
  Error broken(std::string what) const;
  Error unreadable(std::string what) const;

  void skip(std::string what);
  std::uint64_t tensors_inside(PickleValue value);
  std::optional<std::string> key_text(PickleValue key) const;
  std::string description(PickleValue value) const;

  const Pickle& pickle_;
  const TorchStorageKeys& keys_;
  TorchPlaces& places_;
  SkippedList& skipped_;
  std::string_view select_;
  std::vector<bool> seen_;  // values that tensors_inside() has counted
  std::string path_;
  std::optional<std::size_t> wanted_from_;  // where names begin in path_
  bool was_found_ = false;                  // what select_ said
  std::vector<PickleValue> inside_;         // the containers on the way here
  std::uint64_t steps_ = 0;
  std::uint64_t name_bytes_ = 0;
  std::vector<std::string> parts_;  // containers at the top
  std::vector<std::uint64_t> shape_;
  std::vector<std::uint64_t> strides_;
};

}  // namespace weig
