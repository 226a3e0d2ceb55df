// SPDX-License-Identifier: Apache-2.0
// Inflater: what a raw deflate stream (RFC 1951), as zip archives have it, unpacks to,
// from front to back.
#pragma once

#include <cstdint>
#include <memory>

#include "core/bytes.h"
#include "formats/input.h"

namespace weig {

// Takes 0.1 MiB of memory.
class Inflater {
 public:
  // The `size` bytes of the input from `begin` on, inside it, which must unpack to
  // `bytes`. The input must outlive the object.
  Inflater(const Input& input, std::uint64_t begin, std::uint64_t size,
           std::uint64_t bytes);
  Inflater(Inflater&&) noexcept;
  Inflater& operator=(Inflater&&) noexcept;
  ~Inflater();

  // How many bytes were given out.
  std::uint64_t offset() const noexcept;
  // The next bytes, at most as many as are left. Fails with corrupt where the stream is
  // damaged or ends before, and, with the last of them, where it goes on; with
  // no_memory.
  Status read(MutableBytes out);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace weig
