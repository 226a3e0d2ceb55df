// SPDX-License-Identifier: Apache-2.0
#include "bench/touch.h"

#include <algorithm>
#include <array>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace weig::cli::bench {
namespace {

constexpr std::size_t kPage = 4096;
// What a thread takes at a time: a huge page of a large tensor, or some small ones.
constexpr std::size_t kShare = std::size_t{2} << 20;
constexpr std::size_t kMostPieces = 64;

// Hands the tensors out in pieces, each byte once, in order.
class Pieces {
 public:
  Pieces(std::uint64_t tensors, const TensorBytes& bytes_of)
      : tensors_(tensors), bytes_of_(bytes_of) {}

  // The next share; how many of `pieces` it has, 0 at the end.
  std::size_t take(std::array<std::span<const std::byte>, kMostPieces>& pieces) {
    const std::lock_guard lock(mutex_);
    std::size_t count = 0;
    for (std::size_t bytes = 0; bytes < kShare && count < kMostPieces;) {
      while (rest_.empty() && next_ < tensors_) rest_ = bytes_of_(next_++);
      if (rest_.empty()) break;
      // Up to a multiple of 2 MiB, so that no two threads fault on one huge page.
      const std::size_t into = reinterpret_cast<std::uintptr_t>(rest_.data()) % kShare;
      const std::size_t length = std::min(rest_.size(), kShare - into);
      pieces[count++] = rest_.first(length);
      rest_ = rest_.subspan(length);
      bytes += length;
    }
    return count;
  }

 private:
  const std::uint64_t tensors_;
  const TensorBytes& bytes_of_;
  std::mutex mutex_;  // guards what follows
  std::uint64_t next_ = 0;
  std::span<const std::byte> rest_;
};

void touch_pages(std::span<const std::byte> bytes) {
  volatile const std::byte* data = bytes.data();
  const std::size_t first = reinterpret_cast<std::uintptr_t>(bytes.data()) % kPage;
  for (std::size_t i = 0; i < bytes.size(); i += i == 0 ? kPage - first : kPage)
    static_cast<void>(data[i]);
}

// False where the system gives no more: fewer do the work.
bool add_thread(std::vector<std::thread>& threads, const std::function<void()>& work) {
  try {
    threads.emplace_back(work);
    return true;
  } catch (const std::system_error&) {
    return false;
  }
}

}  // namespace

void on_threads(unsigned threads, const std::function<void()>& work) {
  std::vector<std::thread> others;
  while (others.size() + 1 < threads && add_thread(others, work)) continue;
  work();
  for (std::thread& thread : others) thread.join();
}

void touch(std::uint64_t tensors, const TensorBytes& bytes_of, unsigned threads) {
  Pieces pieces(tensors, bytes_of);
  on_threads(threads, [&pieces] {
    std::array<std::span<const std::byte>, kMostPieces> share;
    while (const std::size_t count = pieces.take(share))
      for (std::size_t i = 0; i < count; ++i) touch_pages(share[i]);
  });
}

void touch(std::span<const std::byte> bytes, unsigned threads) {
  touch(1, [bytes](std::uint64_t) { return bytes; }, threads);
}

}  // namespace weig::cli::bench
