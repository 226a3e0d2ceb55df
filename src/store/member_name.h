// SPDX-License-Identifier: Apache-2.0
// MemberName: how the files of a set are called, "NAME-00002-of-00005.weig". Names are
// a first guess for readers; what a file is, its shard section says.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace weig {

struct MemberName {
  std::string stem;          // "NAME", with its folder where there is one
  std::uint64_t number = 0;  // from 1, in names as for people
  std::uint64_t count = 0;
  std::string ending = ".weig";

  // Numbers have five digits, or as many as the count.
  std::string text() const;
};

// What a file's name says, or nothing where it is no member's. A folder before it is
// part of the stem, and never read for numbers.
std::optional<MemberName> parse_member_name(std::string_view path);

}  // namespace weig
