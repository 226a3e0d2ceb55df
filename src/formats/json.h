// SPDX-License-Identifier: Apache-2.0
// JSON values from files: strict, with limits, rewritten in the one spelling that WEIG
// files use. simdjson does the parsing.
#pragma once

// Its values convert to C++ types by throwing where no one asks for the error. Off.
#define SIMDJSON_EXCEPTIONS 0
#include <simdjson.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include <weig/error.h>

#include "core/digest.h"

namespace weig {

// What simdjson found wrong, as an Error.
Error json_error(simdjson::error_code code, std::string what);

// Keys of one object, to find one that comes twice. Linear in all.
class KeySet {
 public:
  // False where the key was there already.
  bool add(std::string_view key);

 private:
  std::vector<std::string> few_;  // compared one by one while they are few,
  std::unordered_set<std::string, SeededHash> many_;  // then moved here
};

// Appends `value` without white space, strings respelled, numbers as they stand.
// `depth` more levels may be nested.
Status append_canonical_json(std::string& out, simdjson::ondemand::value value,
                             std::uint32_t depth);

}  // namespace weig
