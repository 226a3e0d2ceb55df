// SPDX-License-Identifier: Apache-2.0
// Overlay: new contents for a tensor of an open model, in memory of the process's own.
// Nothing is ever written through the mapping of the weights.
//
//   const std::uint64_t shape[] = {4096, 4096};
//   auto contents = weig::Overlay::make(weig::Dtype::i8, shape);
//   quantize(model, contents->bytes());
//   model.overlay("layers.0.w", *contents);  // what the name leads to from now on
//   model.drop_overlay("layers.0.w");        // and back to the file's
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include <weig/dtype.h>
#include <weig/error.h>
#include <weig/view.h>

namespace weig {

// A handle to the memory, which lives as long as one of them, or a Model that it was
// given to. Cheap to copy, from any thread; of the contents, writers and readers have
// to be kept apart as with any memory.
class Overlay {
 public:
  // Zeros, row-major, on a page of their own (on 2 MiB if they are that long). Fails
  // with invalid_argument for a shape that the type cannot have, with limit where the
  // system has no such memory available, and with no_memory.
  static Result<Overlay> make(Dtype dtype, std::span<const std::uint64_t> shape);

  Dtype dtype() const noexcept;
  const Shape& shape() const noexcept WEIG_LIFETIMEBOUND;
  // In this machine's byte order. Empty for a tensor without elements.
  std::span<std::byte> bytes() const noexcept;

  // The elements, as Tensor::as has them. Fails with invalid_argument for another T.
  template <detail::Element T>
  Result<std::span<T>> as() const {
    if (!detail::is_element_of<T>(dtype()))
      return Error(Code::invalid_argument, "the overlay has elements of another type");
    return std::span<T>(static_cast<T*>(static_cast<void*>(bytes().data())),
                        bytes().size() / sizeof(T));
  }

 private:
  struct Memory;
  explicit Overlay(std::shared_ptr<Memory> memory) : memory_(std::move(memory)) {}
  std::shared_ptr<Memory> memory_;
};

}  // namespace weig
