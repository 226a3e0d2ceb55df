// SPDX-License-Identifier: Apache-2.0
// Metadata: the key/value pairs of a model, typed, in the order of their source.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <weig/error.h>
#include <weig/version.h>

namespace weig {

struct MetadataLimits {
  std::uint64_t max_bytes = std::uint64_t{256} << 20;  // of the text
  std::uint32_t max_depth = 64;                        // of nested values
};

class Metadata {
 public:
  struct Entry {
    std::string key;
    // "string", one of the number types ("u32", "f64", ...), "bool", "json", or
    // "array".
    std::string type;
    // A string is itself; every other type is the JSON text of its value.
    std::string value;
    std::string element_type;  // of an array
    bool hex = false;          // a string that is not UTF-8, given in hexadecimal
  };

  Metadata() = default;

  // Reads the text of a metadata section (docs/format.md). Fails with corrupt where it
  // is not one JSON object of that form, holds a key twice or text that is not UTF-8,
  // and with limit where it is larger or deeper than allowed.
  static Result<Metadata> parse(std::string_view text,
                                const MetadataLimits& limits = {});

  // In source order. Valid until the next set().
  std::span<const Entry> entries() const& noexcept WEIG_LIFETIMEBOUND {
    return entries_;
  }
  std::span<const Entry> entries() const&& = delete;
  // Null where there is no such key. Valid until the next set().
  const Entry* find(std::string_view key) const& noexcept WEIG_LIFETIMEBOUND;
  const Entry* find(std::string_view key) const&& = delete;

  // Adds a string, or gives a key a new one. Key and value must be UTF-8.
  void set(std::string_view key, std::string_view value);
  // Adds an entry as it is. Its key must not be there yet.
  void add(Entry entry) { entries_.push_back(std::move(entry)); }
  // Removes a key; false where there is none.
  bool remove(std::string_view key);

  // The text as files hold it: no white space, keys in order.
  std::string text() const;

 private:
  std::vector<Entry> entries_;
};

}  // namespace weig
