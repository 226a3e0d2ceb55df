// SPDX-License-Identifier: Apache-2.0
// Touching: the first use of a model's weights, one byte of each 4 KiB page of every
// tensor, in file order, on several threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

namespace weig::cli::bench {

// The bytes of tensor i. Called by one thread at a time, i from 0 on.
using TensorBytes = std::function<std::span<const std::byte>(std::uint64_t i)>;

void touch(std::uint64_t tensors, const TensorBytes& bytes_of, unsigned threads);

// The same of one stretch of memory.
void touch(std::span<const std::byte> bytes, unsigned threads);

// Runs `work` on so many threads, the calling one among them.
void on_threads(unsigned threads, const std::function<void()>& work);

}  // namespace weig::cli::bench
