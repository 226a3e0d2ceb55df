// SPDX-License-Identifier: Apache-2.0
// PickleHeap: makes the values of a Pickle, each paid for from a limited memory.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <unordered_map>

#include "core/digest.h"
#include "formats/pickle.h"

namespace weig {

class PickleHeap {
 public:
  using Kind = PickleKind;
  using Node = Pickle::Node;

  explicit PickleHeap(const PickleOptions& options) : options_(options) {}

  // All of these fail with limit where there is no more memory.
  Status charge(std::uint64_t bytes);
  // `beside`: the bytes that the value takes beside its node.
  Result<PickleValue> make(const Node& node, std::uint64_t beside);
  Result<PickleValue> make_text(Kind kind, std::string_view text);
  Result<PickleValue> make_unkept(Kind kind, std::uint64_t length);
  Result<PickleValue> make_tuple(std::span<const PickleValue> items);
  Result<PickleValue> make_container(Kind kind);
  // Fails with corrupt where the arguments are no tuple.
  Result<PickleValue> make_object(const PickleObject& object);
  // The same for the same names.
  Result<PickleValue> make_global(std::string_view module, std::string_view name);
  Result<PickleValue> make_persistent(PickleValue identity);

  // Puts items into a value of that kind, or into an object, as its own. Fails with
  // corrupt where it is neither.
  Status put_into(PickleValue value, Kind kind, std::span<const PickleValue> items);
  Status set_state(PickleValue object, PickleValue state);

  PickleKind kind(PickleValue value) const noexcept { return pickle_.kind(value); }
  std::string_view text(PickleValue value) const noexcept {
    return pickle_.text(value);
  }
  Pickle finish(PickleValue root) &&;

 private:
  std::string_view keep(std::string_view text);
  Status grow(PickleValue container, std::span<const PickleValue> items);

  const PickleOptions& options_;
  Pickle pickle_;
  std::uint64_t used_ = 0;
  std::unordered_map<std::string, PickleValue, SeededHash> globals_;
};

}  // namespace weig
