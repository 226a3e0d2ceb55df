// SPDX-License-Identifier: Apache-2.0
#include "check.h"

#include <unistd.h>

#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "core/text.h"

namespace weig::fuzz {

void broken(std::string_view promise, std::string_view detail) {
  std::fprintf(stderr, "broken promise: %.*s\n", static_cast<int>(promise.size()),
               promise.data());
  if (!detail.empty())
    std::fprintf(stderr, "%.*s\n", static_cast<int>(detail.size()), detail.data());
  std::abort();
}

void promise_equal(std::string_view a, std::string_view b, std::string_view what) {
  if (a == b) return;
  const auto [x, y] = std::ranges::mismatch(a, b);
  const auto at = static_cast<std::size_t>(x - a.begin());
  const std::size_t from = at < 100 ? 0 : at - 100;
  const auto part = [&](std::string_view text) {
    return "  " + escaped(text.substr(std::min(from, text.size())), '\0', 300) + "\n";
  };
  broken(what, "from byte " + std::to_string(from) + "\n" + part(a) + part(b));
}

std::string failure(const Error& error) {
  std::string message = error.message();
  const bool clean = std::ranges::none_of(message, [](char c) {
    return static_cast<unsigned char>(c) < 0x20 || c == 0x7F;
  });
  promise(clean && is_utf8(message), "a message is one line of text", message);
  promise(!error.fields().what.empty() && error.code() != Code::ok,
          "a failure says what is wrong", message);
  return message;
}

std::string guard(const Error& error) {
  std::string out(code_name(error.code()));
  bool quoted = false;
  for (const char c : error.fields().what) {
    if (c == '\'') quoted = !quoted;
    if (!quoted && !std::isdigit(static_cast<unsigned char>(c))) out += c;
  }
  return out;
}

void memory_for_files() {
  if (::access("/dev/shm", W_OK) == 0) ::setenv("TMPDIR", "/dev/shm", 0);
}

void read_all(Bytes bytes) {
  // The copy is what sanitizers check; being static, it is not optimized away.
  static std::vector<std::byte> copy;
  copy.assign(bytes.begin(), bytes.end());
}

}  // namespace weig::fuzz
