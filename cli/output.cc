// SPDX-License-Identifier: Apache-2.0
#include "output.h"

#include <cerrno>
#include <system_error>
#include <utility>

#include "host.h"

namespace weig::cli {
namespace {

constexpr std::size_t kBufferBytes = std::size_t{256} << 10;

// Pieces in which large spans are written, so that a signal is noticed between them.
constexpr std::size_t kPieceBytes = std::size_t{8} << 20;

}  // namespace

Output::Output(std::FILE* file, std::string name, OnSignal on_signal)
    : file_(file), name_(std::move(name)), on_signal_(on_signal) {
  buffer_.reserve(kBufferBytes + 4096);
  if (on_signal == OnSignal::finish) poll_for_stops();
  // The buffer above is the only one: large spans go to the system without a copy.
  std::setvbuf(file_, nullptr, _IONBF, 0);
}

void Output::write(std::string_view text) {
  if (text.size() < kBufferBytes) {
    buffer_ += text;
    make_room();
    return;
  }
  pass_on(buffer_.data(), buffer_.size());
  buffer_.clear();
  while (!text.empty()) {
    const std::string_view piece = text.substr(0, kPieceBytes);
    pass_on(piece.data(), piece.size());
    text.remove_prefix(piece.size());
  }
}

void Output::write(std::span<const std::byte> bytes) {
  const void* data = bytes.data();
  write(std::string_view(static_cast<const char*>(data), bytes.size()));
}

bool Output::stopped() const noexcept { return error_number_ != 0 || interrupted(); }

bool Output::interrupted() const noexcept {
  return on_signal_ == OnSignal::stop && stop_signal() != 0;
}

bool Output::reader_gone() const noexcept { return error_number_ == EPIPE; }

Status Output::finish() {
  pass_on(buffer_.data(), buffer_.size());
  buffer_.clear();
  if (!stopped() && std::fflush(file_) != 0) error_number_ = errno;
  if (error_number_ == 0) return {};
  // What was to be written lies in a mapped file, and its page is gone.
  if (error_number_ == EFAULT)
    return Error(Code::io,
                 "a file could not be read: it was cut short while in use, or "
                 "its disk failed");
  return Error(Code::io,
               "cannot write: " + std::generic_category().message(error_number_))
      .file(name_);
}

void Output::make_room() {
  if (buffer_.size() < kBufferBytes) return;
  pass_on(buffer_.data(), buffer_.size());
  buffer_.clear();
}

void Output::pass_on(const char* data, std::size_t size) {
  while (size > 0 && !stopped()) {
    errno = 0;
    if (file_ == stdout) output_begins();
    const std::size_t written = std::fwrite(data, 1, size, file_);
    const int reason = errno;
    data += written;
    size -= written;
    if (size == 0) return;
    // A signal that is none of ours (a window changing size) interrupts nothing.
    std::clearerr(file_);
    if (reason != EINTR) error_number_ = reason == 0 ? EIO : reason;
  }
}

}  // namespace weig::cli
