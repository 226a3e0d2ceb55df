// SPDX-License-Identifier: Apache-2.0
// The table of checks of `weig doctor`: each looks at facts, and says what it thinks of
// them in plain words, with the command that mends it. Pure.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "doctor_facts.h"

namespace weig::cli {

enum class Verdict {
  fine,
  note,    // good to know; nothing suffers
  slows,   // loading takes longer than it must
  breaks,  // something of loading will fail
};
// "fine", "note", "slows", "breaks".
std::string_view verdict_name(Verdict verdict) noexcept;

struct Finding {
  Verdict verdict = Verdict::fine;
  std::string says;          // what was seen, and what it does to loading
  std::string command = {};  // that mends it, for a shell; empty: there is none
  std::string advice = {};   // what else helps, in words; may be empty
};

struct Check {
  std::string_view name;
  // Nothing where the check does not apply. `file` is null where none was named.
  std::optional<Finding> (*look)(const SystemFacts& system, const FileFacts* file);
};

std::span<const Check> system_checks() noexcept;
std::span<const Check> file_checks() noexcept;

}  // namespace weig::cli
