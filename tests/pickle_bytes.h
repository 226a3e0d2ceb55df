// SPDX-License-Identifier: Apache-2.0
// Pickles for tests, put together from their instructions: each function gives those
// that push one value.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/bytes.h"

namespace weig::test::pickled {

inline std::string number(std::uint64_t value, std::size_t bytes) {
  std::string out(8, '\0');
  store(std::as_writable_bytes(std::span(out)).data(), value);
  return out.substr(0, bytes);
}

inline std::string text(std::string_view value) {
  return "X" + number(value.size(), 4) + std::string(value);
}
inline std::string integer(std::int64_t value) {
  return "\x8A\x08" + number(static_cast<std::uint64_t>(value), 8);
}
inline std::string global(std::string_view module, std::string_view name) {
  return "c" + std::string(module) + "\n" + std::string(name) + "\n";
}
inline std::string joined(const std::vector<std::string>& items) {
  std::string out;
  for (const std::string& item : items) out += item;
  return out;
}
inline std::string tuple(const std::vector<std::string>& items) {
  return "(" + joined(items) + "t";
}
inline std::string list(const std::vector<std::string>& items) {
  return "](" + joined(items) + "e";
}
// Keys and values in turn.
inline std::string dict(const std::vector<std::string>& items) {
  return "}(" + joined(items) + "u";
}
inline std::string call(const std::string& callable,
                        const std::vector<std::string>& arguments) {
  return callable + tuple(arguments) + "R";
}
inline std::string sizes(const std::vector<std::int64_t>& values) {
  std::vector<std::string> items;
  for (const std::int64_t value : values) items.push_back(integer(value));
  return tuple(items);
}
inline std::string stream(const std::string& value) { return "\x80\x02" + value + "."; }

// --- Of PyTorch ---

inline std::string storage(std::string_view type, std::string_view key,
                           std::int64_t elements) {
  return tuple({text("storage"), global("torch", type), text(key), text("cpu"),
                integer(elements)}) +
         "Q";
}
inline std::string untyped_storage(std::string_view key, std::int64_t bytes) {
  return tuple({text("storage"), global("torch.storage", "UntypedStorage"), text(key),
                text("cpu"), integer(bytes)}) +
         "Q";
}
inline std::string no_hooks() { return call(global("collections", "OrderedDict"), {}); }
inline std::string tensor(const std::string& storage, std::int64_t first,
                          const std::vector<std::int64_t>& shape,
                          const std::vector<std::int64_t>& strides) {
  return call(
      global("torch._utils", "_rebuild_tensor_v2"),
      {storage, integer(first), sizes(shape), sizes(strides), "\x89", no_hooks()});
}
inline std::string typed_tensor(const std::string& storage, std::string_view type,
                                const std::vector<std::int64_t>& shape,
                                const std::vector<std::int64_t>& strides) {
  return call(global("torch._utils", "_rebuild_tensor_v3"),
              {storage, integer(0), sizes(shape), sizes(strides), "\x89", no_hooks(),
               global("torch", type)});
}
// A state dict of one tensor, "w".
inline std::string with(const std::string& value) { return dict({text("w"), value}); }
// Two floats of the storage "0", which has two.
inline std::string pair() {
  return tensor(storage("FloatStorage", "0", 2), 0, {2}, {1});
}

}  // namespace weig::test::pickled
