// SPDX-License-Identifier: Apache-2.0
// How everything in weig reports failure: Result<T>, which holds a value or an Error.
//
// The library throws only from value() (and when memory for its own bookkeeping runs
// out), never prints and never aborts. Errors are values: copyable, thread-agnostic.
#pragma once

#include <cassert>
#include <concepts>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include <weig/version.h>

namespace weig {

// What went wrong, stable in number and meaning. The command's exit status is this
// number. Append only.
enum class Code : int {
  ok = 0,
  cannot_open = 2,       // no such file, no permission, not a regular file
  corrupt = 3,           // not a sound file: damaged, cut, or not weights at all
  checksum = 4,          // sound structure, but bytes differ from their digest
  unsupported = 5,       // sound, but needs something this build does not know
  not_found = 6,         // no tensor (group, key) of that name
  exists = 7,            // the output is there already, or is one of the inputs
  io = 8,                // the system failed a read or a write (disk full, ...)
  invalid_argument = 9,  // the caller asked for something that cannot be
  limit = 10,            // over a documented limit that an option can raise
  no_memory = 11,        // the system gave no memory or address space
  cancelled = 12,        // the caller's progress callback said stop
};

// The enumerator's name, for example "corrupt". Static storage.
std::string_view code_name(Code code) noexcept;

// One failure. `what` says which rule or action, `found` and `expected` the values
// where there are any; file, tensor and offset say where. Fields that do not apply are
// empty. Text fields may hold any bytes (tensor names come from files); message()
// escapes them, so that it is one line and safe on a terminal.
class [[nodiscard]] Error {
 public:
  static constexpr std::uint64_t kNoOffset = UINT64_MAX;

  struct Fields {
    std::string file;
    std::string tensor;
    std::string what;
    std::string found;
    std::string expected;
    std::string hint;
    std::uint64_t offset = kNoOffset;  // bytes from the start of `file`
    bool names_tensor = false;         // true where `tensor` applies, even if empty
  };

  Error(Code code, std::string what)
      : code_(code), fields_(std::make_unique<Fields>()) {
    fields_->what = std::move(what);
  }
  Error(const Error& other)
      : code_(other.code_), fields_(std::make_unique<Fields>(*other.fields_)) {}
  Error& operator=(const Error& other) { return *this = Error(other); }
  Error(Error&&) noexcept = default;
  Error& operator=(Error&&) noexcept = default;
  ~Error() = default;

  Code code() const noexcept { return code_; }
  const Fields& fields() const& noexcept WEIG_LIFETIMEBOUND { return *fields_; }
  const Fields& fields() const&& = delete;

  // "FILE: tensor 'NAME', offset 112: WHAT: found 1000, expected 1004 (HINT)", with the
  // parts that apply.
  std::string message() const;

  // Builders, to be chained on a fresh error: Error(...).at(8).found(a).expected(b).
  Error&& at(std::uint64_t offset) && { return fields_->offset = offset, move(); }
  Error&& file(std::string path) && { return fields_->file = std::move(path), move(); }
  Error&& tensor(std::string_view name) && {
    return fields_->names_tensor = true, fields_->tensor = name, move();
  }
  Error&& found(std::string value) && {
    return fields_->found = std::move(value), move();
  }
  Error&& found(std::unsigned_integral auto value) && {
    return fields_->found = std::to_string(value), move();
  }
  Error&& expected(std::string value) && {
    return fields_->expected = std::move(value), move();
  }
  Error&& expected(std::unsigned_integral auto value) && {
    return fields_->expected = std::to_string(value), move();
  }
  Error&& hint(std::string text) && { return fields_->hint = std::move(text), move(); }

 private:
  Error&& move() { return std::move(*this); }

  Code code_;
  std::unique_ptr<Fields> fields_;  // never null, except after a move
};

// What value() throws.
class Exception : public std::exception {
 public:
  explicit Exception(Error error)
      : error_(std::move(error)), message_(error_.message()) {}
  const char* what() const noexcept override { return message_.c_str(); }
  const Error& error() const& noexcept WEIG_LIFETIMEBOUND { return error_; }

 private:
  Error error_;
  std::string message_;
};

// A T, or the Error that says why there is none. Check with `if (result)`; `*result`
// and `result->` require success, value() throws Exception instead.
template <typename T>
class [[nodiscard]] Result {
 public:
  using value_type = T;

  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}

  bool has_value() const noexcept { return state_.index() == 0; }
  explicit operator bool() const noexcept { return has_value(); }

  T& operator*() & noexcept WEIG_LIFETIMEBOUND { return checked(*this); }
  const T& operator*() const& noexcept WEIG_LIFETIMEBOUND { return checked(*this); }
  T&& operator*() && noexcept WEIG_LIFETIMEBOUND { return std::move(checked(*this)); }
  T* operator->() noexcept WEIG_LIFETIMEBOUND { return &checked(*this); }
  const T* operator->() const noexcept WEIG_LIFETIMEBOUND { return &checked(*this); }

  T& value() & WEIG_LIFETIMEBOUND { return throwing(*this); }
  const T& value() const& WEIG_LIFETIMEBOUND { return throwing(*this); }
  T value() && { return std::move(throwing(*this)); }

  // Requires failure.
  const Error& error() const& noexcept WEIG_LIFETIMEBOUND {
    assert(!has_value());
    return *std::get_if<1>(&state_);
  }
  Error error() && noexcept {
    assert(!has_value());
    return std::move(*std::get_if<1>(&state_));
  }

 private:
  template <typename Self>
  static auto& checked(Self& self) noexcept {
    assert(self.has_value());
    return *std::get_if<0>(&self.state_);
  }
  template <typename Self>
  static auto& throwing(Self& self) {
    if (!self.has_value()) throw Exception(self.error());
    return checked(self);
  }

  std::variant<T, Error> state_;
};

// Success, or the Error that says why not.
template <>
class [[nodiscard]] Result<void> {
 public:
  using value_type = void;

  Result() = default;
  Result(Error error) : error_(std::move(error)) {}

  bool has_value() const noexcept { return !error_; }
  explicit operator bool() const noexcept { return has_value(); }
  void value() const {
    if (error_) throw Exception(*error_);
  }
  const Error& error() const& noexcept WEIG_LIFETIMEBOUND {
    assert(error_);
    return *error_;
  }
  Error error() && noexcept {
    assert(error_);
    return std::move(*error_);
  }

 private:
  std::optional<Error> error_;
};

using Status = Result<void>;

}  // namespace weig
