// SPDX-License-Identifier: Apache-2.0
// TorchPickle: the pickle of a dict of tensors, as PyTorch's torch.load reads it with
// weights_only=True. Protocol 2.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "formats/torch_names.h"

namespace weig {

class TorchPickle {
 public:
  TorchPickle();

  enum class StorageClass { typed, untyped };

  // `type` is one of torch_type_of(). Of a storage that has tensors of several types,
  // and of one whose type has no storage class, all tensors must be untyped.
  void add(std::string_view name, const TorchType& type,
           std::span<const std::uint64_t> shape, std::string_view storage_key,
           std::uint64_t storage_bytes, StorageClass storage_class);

  std::string finish() &&;

 private:
  void put_text(std::string_view text);
  void put_number(std::uint64_t value);
  void put_sizes(std::span<const std::uint64_t> sizes);
  // What comes again and again is written once.
  void put_global(std::string_view module, std::string_view name);
  void put_word(std::string_view text);
  void put_kept(std::string spelled);

  std::string out_;
  std::map<std::string, std::uint8_t, std::less<>> kept_;  // by what it was spelled
};

}  // namespace weig
