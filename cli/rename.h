// SPDX-License-Identifier: Apache-2.0
// Rules that give tensors other names: FROM=TO, two globs.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace weig::cli {

struct RenameRule {
  std::string from;  // a glob
  std::string to;    // text, in which each '*' is what that of `from` stands for
  std::string text;  // the rule as it was given
};

// Splits at the first '='; a backslash hides it, and hides a '*' in TO. Nothing where
// there is none, FROM is empty, or TO has more stars than FROM.
std::optional<RenameRule> parse_rename(std::string_view text);

// The new name, or nothing where the rule does not match.
std::optional<std::string> renamed(const RenameRule& rule, std::string_view name);

}  // namespace weig::cli
