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

// Calls `on_star` with the place in the text where each star's match begins, and
// `on_more` with where the last one's ends, whenever that changes.
bool match(std::string_view pattern, std::string_view text, auto on_star,
           auto on_more) {
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
      on_star(place);
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
      on_more(star_end);
      place = star_end;
      at = star;
    } else {
      return false;
    }
  }
  for (; at < pattern.size() && pattern[at] == '*'; ++at) on_star(text.size());
  return at == pattern.size();
}

}  // namespace

bool glob_matches(std::string_view pattern, std::string_view text) {
  const auto ignore = [](std::size_t) {};
  return match(pattern, text, ignore, ignore);
}

std::size_t glob_stars(std::string_view pattern) {
  std::size_t count = 0;
  for (std::size_t at = 0; at < pattern.size();) {
    if (pattern[at] == '*') {
      ++count;
      ++at;
    } else {
      at = match_one(pattern, at, U'*').next;
    }
  }
  return count;
}

std::optional<std::vector<std::string_view>> glob_captures(std::string_view pattern,
                                                           std::string_view text) {
  struct Range {
    std::size_t begin;
    std::size_t end;
  };
  std::vector<Range> stars;
  const bool matches = match(
      pattern, text, [&](std::size_t place) { stars.push_back({place, place}); },
      [&](std::size_t end) { stars.back().end = end; });
  if (!matches) return std::nullopt;
  std::vector<std::string_view> captures;
  captures.reserve(stars.size());
  for (const Range& star : stars)
    captures.push_back(text.substr(star.begin, star.end - star.begin));
  return captures;
}

}  // namespace weig::cli
