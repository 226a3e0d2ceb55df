// SPDX-License-Identifier: Apache-2.0
// Work in numbered parts, on as many threads as there are CPUs to use.
#pragma once

#include <cstdint>
#include <functional>

#include <weig/error.h>

namespace weig {

// Runs `part` for 0, 1, ... count - 1, each once, several at a time, and returns when
// all are done: success, or the failure of the lowest number that failed. After a
// failure no new parts are begun.
Status run_in_parallel(std::uint64_t count,
                       const std::function<Status(std::uint64_t)>& part);

}  // namespace weig
