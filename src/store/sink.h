// SPDX-License-Identifier: Apache-2.0
// Sink: where a Writer's bytes go. The library's one virtual interface: it exists so
// that tests can fail, shorten or lose the n-th call.
#pragma once

#include <memory>
#include <string>

#include <weig/writer.h>

#include "core/bytes.h"

namespace weig {

class Sink {
 public:
  virtual ~Sink() = default;

  // The file will have this many bytes. Called once, first.
  virtual Status reserve(std::uint64_t bytes) = 0;
  // Every byte is written once, before the sync() that makes it durable. Writes are cut
  // at multiples of 2 MiB of the offset. One call at a time, on any thread.
  virtual Status write(std::uint64_t offset, Bytes bytes) = 0;
  virtual Status sync() = 0;
  // The file is whole: let it be seen. After this, destruction keeps it; before,
  // destruction removes every trace.
  virtual Status publish() = 0;
  // Takes back what publish() has done, or has begun to do.
  virtual void retract() noexcept = 0;
};

// A file beside `path`, renamed onto it by publish(). `permissions`: of a new file,
// before the umask.
Result<std::unique_ptr<Sink>> file_sink(const std::string& path, Existing existing,
                                        std::uint32_t permissions);

// Those of a new file that holds what a file with `permissions` held: whatever that one
// kept from its group and from others stays so.
constexpr std::uint32_t as_private_as(std::uint32_t permissions) {
  return 0600 | (permissions & 0066);
}

// Writes `bytes` in cuts at multiples of 2 MiB of the file's offset, so that the page
// cache takes them as 2 MiB folios.
Status write_in_cuts(Sink& sink, std::uint64_t offset, Bytes bytes);

// The writer of all output files: collects bytes in order into pieces of whole 2 MiB
// and hands them to a Sink on a thread of its own, so that whoever makes the bytes does
// not wait for the disk.
class PieceWriter {
 public:
  explicit PieceWriter(Sink& sink, std::uint64_t start_offset);
  ~PieceWriter();
  PieceWriter(const PieceWriter&) = delete;
  PieceWriter& operator=(const PieceWriter&) = delete;

  // The next free bytes, at least one; then advance(n) says how many were filled.
  Result<MutableBytes> space();
  Status advance(std::size_t bytes);
  Status append(Bytes bytes);
  Status append_zeros(std::uint64_t count);
  std::uint64_t offset() const noexcept;
  // Hands over what is left and waits until all is written.
  Status finish();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace weig
