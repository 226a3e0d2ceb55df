// SPDX-License-Identifier: Apache-2.0
// How long work tells of its progress, and is told to stop.
#pragma once

#include <cstdint>
#include <functional>

namespace weig {

// Called now and then (every few MiB) with bytes done and in all, never by two threads
// at once. Returning false stops the work, which then fails with Code::cancelled and
// leaves nothing behind; so does throwing, which goes no further: threads of the
// library call it too. An empty function is never called.
using Progress = std::function<bool(std::uint64_t done, std::uint64_t total)>;

}  // namespace weig
