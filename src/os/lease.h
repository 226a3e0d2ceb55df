// SPDX-License-Identifier: Apache-2.0
// Lease: whoever wants to write to a file waits until we let go of it.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "os/os.h"

namespace weig::os {

// A read lease (fcntl, F_SETLEASE). To be taken by a thread that start_quiet_thread()
// began, and that lives as long: the kernel tells of a break by SIGIO, to that thread
// alone, where it is blocked and stays unread. Ask is_held() now and then instead.
class Lease {
 public:
  // Fails with unsupported or no_memory, and says why.
  static Result<Lease> take(const InputFile& file);
  Lease() = default;
  Lease(Lease&& other) noexcept;
  Lease& operator=(Lease&& other) noexcept;
  ~Lease();

  // False once somebody wants to write. The kernel keeps him waiting for at most
  // lease_break_seconds(); that he has been let in is not told.
  bool is_held() noexcept;
  // Lets go. False where the kernel had done so before, or may have: the file may have
  // been written.
  bool release() noexcept;

 private:
  Descriptor file_;
  std::chrono::steady_clock::time_point seen_held_;  // nobody waited then
};

// How long the kernel lets a writer wait, in seconds. Nothing: without limit.
std::optional<double> lease_break_seconds() noexcept;

// Starts `work` on a new thread with every signal blocked. Fails with no_memory.
Result<std::uint64_t> start_quiet_thread(void (*work)(void*), void* context);
void join_thread(std::uint64_t thread) noexcept;

// A number that children find changed: by fork(), and from Linux 4.14 on by clone(2) as
// well, unless they share this process's memory.
std::uint64_t process_generation() noexcept;

}  // namespace weig::os
