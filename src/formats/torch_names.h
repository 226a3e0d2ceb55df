// SPDX-License-Identifier: Apache-2.0
// The names of Python and PyTorch that checkpoints use, and what they mean here: an
// allow list, by exact names. All others mean nothing.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include <weig/dtype.h>

#include "formats/pickle.h"

namespace weig {

// An element type as PyTorch calls it.
struct TorchType {
  Dtype dtype;
  std::string_view name;     // torch.float32
  std::string_view storage;  // torch.FloatStorage; empty where there is none
};

// Null where PyTorch has no such type, or one that we do not read.
const TorchType* torch_type_named(std::string_view name) noexcept;
const TorchType* torch_type_of_storage(std::string_view storage) noexcept;
const TorchType* torch_type_of(Dtype dtype) noexcept;

// What calling something makes.
enum class TorchCall {
  unknown,
  tensor,             // (storage, first, shape, strides, ...), typed by the storage
  typed_tensor,       // the same, with the type behind: _rebuild_tensor_v3
  tensor_of_class,    // (function, class, arguments, state)
  first_argument,     // what its first argument is
  list_of_argument,   // a list that is its first argument
  dict,               // what is put into it
  script_object,      // of TorchScript: its state
  unreadable_tensor,  // a tensor of a kind that is not read here
};
TorchCall torch_call(const PickleGlobal& global) noexcept;

// Whether tensors of this class are tensors as all others are.
bool is_plain_tensor_class(const PickleGlobal& global) noexcept;

// A storage without a type of its own.
bool is_untyped_storage(const PickleGlobal& global) noexcept;
// Of modules that have storages: torch and, in old files, torch.cuda.
bool is_storage_module(std::string_view module) noexcept;

// Whether a checkpoint may name this for anything but to run programs. No other global
// is ever called either; who names such a one means harm, and is told so.
bool is_harmless(const PickleGlobal& global) noexcept;

// "module.name"
std::string global_text(const PickleGlobal& global);

}  // namespace weig
