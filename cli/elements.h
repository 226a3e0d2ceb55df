// SPDX-License-Identifier: Apache-2.0
// Elements: single numbers out of a tensor's bytes, for every plain element type.
#pragma once

#include <weig/dtype.h>
#include <weig/view.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "small_float.h"

namespace weig::cli {

enum class Kind { boolean, signed_integer, unsigned_integer, real, complex };

// How floats that C++ has no type for are spelled: as their own type reads them back,
// or as the exact float32.
enum class Spelling { shortest, exact };

// The syntax of values that are not numbers to everyone.
enum class Syntax { python, json };

class Elements {
 public:
  // Nothing where single elements mean nothing: GGML blocks and unknown types. `data`
  // must outlive the object.
  static std::optional<Elements> of(Dtype dtype, const std::byte* data);

  Kind kind() const noexcept { return kind_; }
  // Bits of one element; below 8 for elements that share bytes.
  std::uint32_t bits() const noexcept { return component_bits_ * components_; }

  // The component's bits. Element i of a complex type has components 2 i and 2 i + 1;
  // of all others, component i.
  std::uint64_t raw(std::uint64_t component) const noexcept;
  std::int64_t integer(std::uint64_t component) const noexcept;
  // Exact for every type of kind real or complex.
  double real(std::uint64_t component) const noexcept;

  // One element as text.
  void append(std::string& out, std::uint64_t element, Spelling spelling,
              Syntax syntax) const;

 private:
  Elements() = default;
  void append_real(std::string& out, std::uint64_t component, Spelling spelling) const;
  void append_complex(std::string& out, std::uint64_t element, Spelling spelling,
                      Syntax syntax) const;

  const std::byte* data_ = nullptr;
  Dtype component_{};  // the type of one component
  Kind kind_{};
  std::uint32_t component_bits_ = 0;
  std::uint32_t components_ = 1;
  std::optional<SmallFloat> small_;
};

}  // namespace weig::cli
