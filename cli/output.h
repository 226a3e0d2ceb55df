// SPDX-License-Identifier: Apache-2.0
// Output: where data goes, standard output or a file, through one buffer. Errors stick
// and are asked for once, at the end.
#pragma once

#include <fmt/format.h>
#include <weig/error.h>

#include <cstddef>
#include <cstdio>
#include <iterator>
#include <span>
#include <string>
#include <string_view>

namespace weig::cli {

// Whether a signal that asks the process to stop ends the output too. Only the message
// that says so comes out regardless.
enum class OnSignal { stop, finish };

class Output {
 public:
  // Borrows `file`; `name` is what messages call it.
  Output(std::FILE* file, std::string name, OnSignal on_signal = OnSignal::stop);
  Output(const Output&) = delete;
  Output& operator=(const Output&) = delete;

  void write(std::string_view text);
  void write(std::span<const std::byte> bytes);

  template <typename... Args>
  void print(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(buffer_), format, std::forward<Args>(args)...);
    make_room();
  }

  // True when nothing written from now on can arrive: a failed write, a reader that is
  // gone, or a signal. Long loops ask, and leave.
  bool stopped() const noexcept;

  // Whether a signal has ended it.
  bool interrupted() const noexcept;

  // Whether the reader of a pipe has closed it: no failure of ours, nothing to say.
  bool reader_gone() const noexcept;

  // Writes what is buffered. Fails with io if any write did.
  Status finish();

 private:
  void make_room();
  void pass_on(const char* data, std::size_t size);

  std::FILE* file_;
  std::string name_;
  OnSignal on_signal_;
  std::string buffer_;
  int error_number_ = 0;
};

}  // namespace weig::cli
