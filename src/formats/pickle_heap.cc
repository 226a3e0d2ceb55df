// SPDX-License-Identifier: Apache-2.0
#include "formats/pickle_heap.h"

#include <algorithm>
#include <limits>

#include "core/try.h"

namespace weig {
namespace {

constexpr std::uint64_t kMapBytes = 64;  // of an entry, about

}  // namespace

Status PickleHeap::charge(std::uint64_t bytes) {
  used_ += bytes;
  if (used_ <= options_.max_memory_bytes) return {};
  return Error(Code::limit, "the pickle describes more than is allowed")
      .expected("at most " + std::to_string(options_.max_memory_bytes) +
                " bytes of values")
      .hint("max_header_bytes, --max-header-bytes, raises it: this is an eighth");
}

Result<PickleValue> PickleHeap::make(const Node& node, std::uint64_t beside) {
  WEIG_TRY(charge(sizeof node + beside));
  pickle_.nodes_.push_back(node);
  return static_cast<PickleValue>(pickle_.nodes_.size() - 1);
}

std::string_view PickleHeap::keep(std::string_view text) {
  std::pmr::polymorphic_allocator<char> room(pickle_.arena_.get());
  char* at = room.allocate(std::max<std::size_t>(text.size(), 1));
  std::ranges::copy(text, at);
  return {at, text.size()};
}

Result<PickleValue> PickleHeap::make_text(Kind kind, std::string_view text) {
  if (text.size() > Pickle::kKeptBytes) return make_unkept(kind, text.size());
  const char* kept = keep(text).data();
  return make(
      {.kind = kind, .count = static_cast<std::uint32_t>(text.size()), .text = kept},
      text.size());
}

Result<PickleValue> PickleHeap::make_unkept(Kind kind, std::uint64_t length) {
  constexpr std::uint64_t kMost = std::numeric_limits<std::uint32_t>::max();
  return make({.kind = kind,
               .count = static_cast<std::uint32_t>(std::min(length, kMost)),
               .text = nullptr},
              0);
}

Result<PickleValue> PickleHeap::make_tuple(std::span<const PickleValue> items) {
  std::pmr::polymorphic_allocator<PickleValue> room(pickle_.arena_.get());
  PickleValue* at = room.allocate(std::max<std::size_t>(items.size(), 1));
  std::ranges::copy(items, at);
  return make({.kind = Kind::tuple,
               .count = static_cast<std::uint32_t>(items.size()),
               .items = at},
              items.size_bytes());
}

Result<PickleValue> PickleHeap::make_container(Kind kind) {
  return make({.kind = kind, .count = 0, .index = kNoPickleValue}, 0);
}

Result<PickleValue> PickleHeap::make_object(const PickleObject& object) {
  if (kind(object.arguments) != Kind::tuple)
    return Error(Code::corrupt, "the pickle calls something with what is no tuple");
  const auto index = static_cast<std::uint32_t>(pickle_.objects_.size());
  pickle_.objects_.push_back(object);
  return make({.kind = Kind::object, .count = 0, .index = index}, sizeof object);
}

Result<PickleValue> PickleHeap::make_global(std::string_view module,
                                            std::string_view name) {
  std::string key(module);
  key += '\n';
  key += name;
  const auto known = globals_.find(key);
  if (known != globals_.end()) return known->second;
  const auto index = static_cast<std::uint32_t>(pickle_.globals_.size());
  pickle_.globals_.push_back({keep(module), keep(name)});
  WEIG_TRY_ASSIGN(value, make({.kind = Kind::global, .count = 0, .index = index},
                              3 * key.size() + sizeof(PickleGlobal) + kMapBytes));
  globals_.emplace(std::move(key), value);
  return value;
}

Result<PickleValue> PickleHeap::make_persistent(PickleValue identity) {
  WEIG_TRY_ASSIGN(value, make({.kind = Kind::persistent, .count = 0, .index = identity},
                              sizeof identity));
  pickle_.persistents_.push_back(value);
  return value;
}

Status PickleHeap::grow(PickleValue container, std::span<const PickleValue> items) {
  Node& node = pickle_.nodes_[container];
  if (items.empty()) return {};
  const bool fresh = node.index == kNoPickleValue;
  WEIG_TRY(charge(items.size_bytes() + (fresh ? sizeof(std::vector<PickleValue>) : 0)));
  if (fresh) {
    node.index = static_cast<std::uint32_t>(pickle_.growing_.size());
    pickle_.growing_.emplace_back();
  }
  auto& all = pickle_.growing_[node.index];
  all.insert(all.end(), items.begin(), items.end());
  return {};
}

Status PickleHeap::put_into(PickleValue value, Kind kind,
                            std::span<const PickleValue> items) {
  if (this->kind(value) == kind) return grow(value, items);
  if (this->kind(value) != Kind::object)
    return Error(Code::corrupt,
                 "the pickle puts items into what is no container for them");
  PickleObject& object = pickle_.objects_[pickle_.nodes_[value].index];
  PickleValue& own = kind == Kind::dict ? object.pairs : object.listed;
  if (own == kNoPickleValue) {
    WEIG_TRY_ASSIGN(made, make_container(kind == Kind::dict ? kind : Kind::list));
    own = made;
  }
  return grow(own, items);
}

Status PickleHeap::set_state(PickleValue object, PickleValue state) {
  if (kind(object) != Kind::object)
    return Error(Code::corrupt, "the pickle gives a state to what is no object");
  PickleObject& changed = pickle_.objects_[pickle_.nodes_[object].index];
  if (changed.state != kNoPickleValue)
    return Error(Code::corrupt, "the pickle gives an object a state twice");
  changed.state = state;
  return {};
}

Pickle PickleHeap::finish(PickleValue root) && {
  pickle_.root_ = root;
  return std::move(pickle_);
}

}  // namespace weig
