// SPDX-License-Identifier: Apache-2.0
#include "near_names.h"

#include <algorithm>
#include <utility>

namespace weig::cli {
namespace {

// Edit distance costs the product of two lengths, so in a huge file it looks at the
// first names only, and at fewer long ones; names in such files are alike anyway.
constexpr std::uint64_t kMaxCompared = 20'000;
constexpr std::uint64_t kMaxCost = 100'000'000;
constexpr std::size_t kMaxLength = 512;
constexpr std::size_t kMaxShown = 3;

// How near a name is: less is nearer.
enum Rank : std::size_t { kSameButCase = 0, kSameEnd = 1, kEdited = 2 };

char lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

bool same_but_case(std::string_view a, std::string_view b) {
  return std::ranges::equal(a, b, {}, lower, lower);
}

// Whether one is the other behind a prefix of whole components, as "wte.weight" is in
// "transformer.wte.weight".
bool same_end(std::string_view a, std::string_view b) {
  if (a.size() < b.size()) std::swap(a, b);
  return !b.empty() && a.size() > b.size() && a.ends_with(b) &&
         a[a.size() - b.size() - 1] == '.';
}

std::size_t distance_limit(std::string_view name) {
  return name.size() < 3 ? 1 : std::max<std::size_t>(2, name.size() / 5);
}

}  // namespace

std::optional<std::size_t> edit_distance(std::string_view a, std::string_view b,
                                         std::size_t limit) {
  while (!a.empty() && !b.empty() && a.front() == b.front())
    a.remove_prefix(1), b.remove_prefix(1);
  while (!a.empty() && !b.empty() && a.back() == b.back())
    a.remove_suffix(1), b.remove_suffix(1);
  const std::size_t longer = std::max(a.size(), b.size());
  if (longer - std::min(a.size(), b.size()) > limit || longer > kMaxLength)
    return std::nullopt;
  // Rows of the usual table: two back, one back, and the one being filled.
  std::vector<std::size_t> before(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::swap(before, last);
    std::swap(last, row);
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t change = last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({change, last[j] + 1, row[j - 1] + 1});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        row[j] = std::min(row[j], before[j - 2] + 1);
    }
    if (*std::ranges::min_element(row) > limit) return std::nullopt;
  }
  if (row[b.size()] > limit) return std::nullopt;
  return row[b.size()];
}

std::vector<std::string> near_names(const ModelSet& model, std::string_view name) {
  std::vector<std::pair<std::size_t, std::string_view>> near;
  const std::size_t limit = distance_limit(name);
  std::uint64_t cost = 0;
  for (const auto& tensor : model.tensors()) {
    if (!tensor) continue;
    if (same_but_case(tensor->name(), name)) {
      near.emplace_back(kSameButCase, tensor->name());
    } else if (same_end(tensor->name(), name)) {
      near.emplace_back(kSameEnd, tensor->name());
    } else if (tensor->ordinal() < kMaxCompared && cost < kMaxCost) {
      cost += tensor->name().size() * name.size();
      const auto distance = edit_distance(tensor->name(), name, limit);
      if (distance) near.emplace_back(kEdited + *distance, tensor->name());
    }
    if (near.size() > kMaxCompared) break;
  }
  std::ranges::stable_sort(near, {}, [](const auto& item) { return item.first; });
  std::vector<std::string> names;
  for (std::size_t i = 0; i < std::min(near.size(), kMaxShown); ++i)
    names.emplace_back(near[i].second);
  return names;
}

std::optional<std::string> nearest(const std::vector<std::string>& words,
                                   std::string_view word) {
  std::optional<std::string> found;
  std::size_t best = distance_limit(word);
  for (const std::string& candidate : words) {
    const auto distance = edit_distance(candidate, word, best);
    if (!distance || (found && *distance == best)) continue;
    best = *distance;
    found = candidate;
  }
  return found;
}

}  // namespace weig::cli
