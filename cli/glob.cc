// SPDX-License-Identifier: Apache-2.0
#include "glob.h"

#include "characters.h"

namespace weig::cli {
namespace {

// Reads the character at `at` and steps over it; a backslash hides what is special.
char32_t take(std::string_view pattern, std::size_t& at) {
  if (pattern[at] == '\\' && at + 1 < pattern.size()) ++at;
  const Character character = character_at(pattern, at);
  at += character.length;
  return character.code;
}

struct Step {
  bool matches = false;
  std::size_t next = 0;  // where the pattern goes on
};

// A set, behind its '['. next is 0 where nothing closes it.
Step match_set(std::string_view pattern, std::size_t at, char32_t code) {
  const bool negated =
      at < pattern.size() && (pattern[at] == '!' || pattern[at] == '^');
  if (negated) ++at;
  bool found = false;
  // A ']' that comes first is a member.
  for (const std::size_t first = at; at < pattern.size();) {
    if (pattern[at] == ']' && at > first) return {found != negated, at + 1};
    const char32_t low = take(pattern, at);
    char32_t high = low;
    if (at + 1 < pattern.size() && pattern[at] == '-' && pattern[at + 1] != ']')
      high = take(pattern, ++at);
    found = found || (low <= code && code <= high);
  }
  return {};
}

// One character of the text against what is at `at`, which is not a '*'.
Step match_one(std::string_view pattern, std::size_t at, char32_t code) {
  if (pattern[at] == '?') return {true, at + 1};
  if (pattern[at] == '[') {
    const Step step = match_set(pattern, at + 1, code);
    if (step.next != 0) return step;
  }
  const char32_t wanted = take(pattern, at);
  return {wanted == code, at};
}

}  // namespace

bool glob_matches(std::string_view pattern, std::string_view text) {
  std::size_t at = 0;     // in the pattern
  std::size_t place = 0;  // in the text
  // The last star, and where its match ends for now: when what follows fails, it takes
  // one character more. Earlier stars need no second try.
  std::size_t star = std::string_view::npos;
  std::size_t star_end = 0;
  while (place < text.size()) {
    if (at < pattern.size() && pattern[at] == '*') {
      star = ++at;
      star_end = place;
      continue;
    }
    const Character character = character_at(text, place);
    Step step;
    if (at < pattern.size()) step = match_one(pattern, at, character.code);
    if (step.matches) {
      at = step.next;
      place += character.length;
    } else if (star != std::string_view::npos) {
      star_end += character_at(text, star_end).length;
      place = star_end;
      at = star;
    } else {
      return false;
    }
  }
  while (at < pattern.size() && pattern[at] == '*') ++at;
  return at == pattern.size();
}

}  // namespace weig::cli
