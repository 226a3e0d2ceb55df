// SPDX-License-Identifier: Apache-2.0
#include "rename.h"

#include "glob.h"

namespace weig::cli {
namespace {

// Where the first `wanted` that no backslash hides is.
std::size_t find_plain(std::string_view text, char wanted) {
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text[at] == wanted) return at;
    if (text[at] == '\\') ++at;
  }
  return std::string_view::npos;
}

std::size_t count_plain_stars(std::string_view text) {
  std::size_t count = 0;
  for (auto at = find_plain(text, '*'); at != text.npos; at = find_plain(text, '*')) {
    text.remove_prefix(at + 1);
    ++count;
  }
  return count;
}

}  // namespace

std::optional<RenameRule> parse_rename(std::string_view text) {
  const std::size_t at = find_plain(text, '=');
  if (at == 0 || at == text.npos) return std::nullopt;
  const std::string_view from = text.substr(0, at);
  const std::string_view to = text.substr(at + 1);
  if (count_plain_stars(to) > glob_stars(from)) return std::nullopt;
  return RenameRule{std::string(from), std::string(to), std::string(text)};
}

std::optional<std::string> renamed(const RenameRule& rule, std::string_view name) {
  const auto captures = glob_captures(rule.from, name);
  if (!captures) return std::nullopt;
  std::string result;
  std::size_t star = 0;
  for (std::size_t at = 0; at < rule.to.size(); ++at) {
    if (rule.to[at] == '*') {
      result += (*captures)[star++];
      continue;
    }
    if (rule.to[at] == '\\' && at + 1 < rule.to.size()) ++at;
    result += rule.to[at];
  }
  return result;
}

}  // namespace weig::cli
