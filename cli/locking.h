// SPDX-License-Identifier: Apache-2.0
// Locking parts of a mapped file in memory: all of them, or as much as the limit
// allows, and never silently less.
#pragma once

#include <weig/file_range.h>
#include <weig/memory_lock.h>
#include <weig/model.h>

#include <cstdint>
#include <span>
#include <string>

namespace weig::cli {

enum class LockAmount { nothing, everything, what_fits };

// "may lock 65.5 kB", "may lock any amount".
std::string lock_limit_text(const LockLimit& limit);

// What raises the limit: commands and settings.
std::string how_to_raise_lock_limit();

// Fails with limit where so many bytes cannot be locked, before anything is loaded.
Status check_lock_limit(std::uint64_t bytes);

// Locks the pages of these ranges of a model's mapping. For LockAmount::everything all
// or none: fails with limit. For what_fits, from the front on as much as goes.
Result<MemoryLock> lock_ranges(const Model& model, std::span<const FileRange> ranges,
                               LockAmount amount);

}  // namespace weig::cli
