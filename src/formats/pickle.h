// SPDX-License-Identifier: Apache-2.0
// pickle: what a stream of Python's pickle describes, as a graph of plain values. It is
// looked at, never carried out: what the stream wants called stays a name with its
// arguments. Pure.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <memory_resource>
#include <span>
#include <string_view>
#include <vector>

#include <weig/error.h>

#include "formats/input.h"

namespace weig {

// One value of a Pickle, by number. The same number is the same object.
using PickleValue = std::uint32_t;
inline constexpr PickleValue kNoPickleValue = 0xFFFFFFFF;

enum class PickleKind : std::uint8_t {
  none,
  boolean,
  integer,
  number,  // of any other kind: not whole, or beyond 64 bits
  text,
  bytes,
  tuple,
  list,
  set,
  dict,
  global,      // something in a module, by name
  persistent,  // something outside of the stream, by an identity
  object,      // what calling a global would make
};

// Names as the stream spells them.
struct PickleGlobal {
  std::string_view module;
  std::string_view name;
};

// What is to be called, with what, and what is then to be done to the result. All but
// the first two may be kNoPickleValue.
struct PickleObject {
  PickleValue callable = kNoPickleValue;
  PickleValue arguments = kNoPickleValue;  // a tuple
  PickleValue keywords = kNoPickleValue;
  PickleValue state = kNoPickleValue;
  PickleValue listed = kNoPickleValue;  // a list of what is appended to it
  PickleValue pairs = kNoPickleValue;   // a dict of what is put into it
};

struct PickleOptions {
  std::uint64_t max_bytes = std::uint64_t{64} << 20;  // of the stream
  // Of what the stream describes, as it is held: 16 bytes a value, 4 for each place in
  // a container, and the text.
  std::uint64_t max_memory_bytes = std::uint64_t{128} << 20;
};

class Pickle {
 public:
  // Reads one stream from where the cursor is to its end, where it then is. Protocols 0
  // to 5. Time is linear in the stream, whatever it holds. Fails with corrupt, with
  // unsupported for a later protocol and with limit.
  static Result<Pickle> read(InputCursor& cursor, const PickleOptions& options = {});

  PickleValue root() const noexcept { return root_; }
  // Values are numbered from 0.
  std::uint64_t size() const noexcept { return nodes_.size(); }
  PickleKind kind(PickleValue value) const noexcept { return nodes_[value].kind; }

  // Each requires its kind. All are valid as long as the Pickle.
  bool boolean(PickleValue value) const noexcept { return nodes_[value].integer != 0; }
  std::int64_t integer(PickleValue value) const noexcept {
    return nodes_[value].integer;
  }
  // Of text and bytes above kKeptBytes nothing is kept: they are empty here. Whole
  // numbers beyond 64 bits that were written in decimal are digits, else up to 16 bytes
  // of two's complement; other numbers are empty.
  std::string_view text(PickleValue value) const noexcept {
    const Node& node = nodes_[value];
    return {node.text, node.text == nullptr ? 0 : node.count};
  }
  // How long text or bytes are in the stream.
  std::uint32_t length(PickleValue value) const noexcept { return nodes_[value].count; }
  // Of a tuple, list or set; of a dict, keys and values in turn.
  std::span<const PickleValue> items(PickleValue value) const noexcept;
  const PickleGlobal& global(PickleValue value) const noexcept {
    return globals_[nodes_[value].index];
  }
  const PickleObject& object(PickleValue value) const noexcept {
    return objects_[nodes_[value].index];
  }
  PickleValue identity(PickleValue persistent) const noexcept {
    return nodes_[persistent].index;
  }

  // Each that the stream names, also where nothing comes of it.
  const std::deque<PickleGlobal>& globals() const noexcept { return globals_; }
  // Each that the stream mentions, in its order.
  std::span<const PickleValue> persistents() const noexcept { return persistents_; }

  // Longer than any name of a tensor.
  static constexpr std::uint32_t kKeptBytes = 65'536;

 private:
  friend class PickleHeap;

  struct Node {
    PickleKind kind{};
    std::uint32_t count = 0;
    union {
      std::int64_t integer;
      const char* text;          // of `count` bytes, or null where they are not kept
      const PickleValue* items;  // `count` of a tuple
      std::uint32_t index;       // of a table below, or of a value
    };
  };

  Pickle() : arena_(std::make_unique<std::pmr::monotonic_buffer_resource>()) {}

  PickleValue root_ = kNoPickleValue;
  std::deque<Node> nodes_;
  std::deque<std::vector<PickleValue>> growing_;  // of lists, sets and dicts
  std::deque<PickleGlobal> globals_;
  std::deque<PickleObject> objects_;
  std::vector<PickleValue> persistents_;
  std::unique_ptr<std::pmr::monotonic_buffer_resource> arena_;  // texts and tuples
};

}  // namespace weig
