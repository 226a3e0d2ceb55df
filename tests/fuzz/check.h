// SPDX-License-Identifier: Apache-2.0
// What every target uses: promises that end the process where they are broken, and
// memory of exactly the input's size.
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>

#include <weig/error.h>

#include "core/bytes.h"

namespace weig::fuzz {

// Says which promise is broken and aborts, so that a fuzzer keeps the input.
[[noreturn]] void broken(std::string_view promise, std::string_view detail);

inline void promise(bool kept, std::string_view what, std::string_view detail = {}) {
  if (!kept) broken(what, detail);
}

// Two answers to one question. Says where they differ.
void promise_equal(std::string_view a, std::string_view b, std::string_view what);

// The message of a failure, which must be one line of UTF-8 without control characters
// whatever the input was.
std::string failure(const Error& error);

// The part of a failure that does not depend on names and numbers: which guard it was.
std::string guard(const Error& error);

// Bytes in a heap block that ends where they end, so that AddressSanitizer finds a read
// past them.
class Block {
 public:
  explicit Block(Bytes bytes)
      : size_(bytes.size()), data_(std::make_unique_for_overwrite<std::byte[]>(size_)) {
    std::ranges::copy(bytes, data_.get());
  }
  Bytes bytes() const { return {data_.get(), size_}; }
  MutableBytes writable() { return {data_.get(), size_}; }

 private:
  std::size_t size_;
  std::unique_ptr<std::byte[]> data_;
};

// Makes temporary files in memory (/dev/shm), where there is such a thing and TMPDIR
// does not say otherwise.
void memory_for_files();

// Reads every byte in a way that sanitizers check.
void read_all(Bytes bytes);

}  // namespace weig::fuzz
