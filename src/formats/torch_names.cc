// SPDX-License-Identifier: Apache-2.0
#include "formats/torch_names.h"

#include <algorithm>
#include <array>

namespace weig {
namespace {

constexpr auto kTypes = std::to_array<TorchType>({
    {Dtype::f32, "float32", "FloatStorage"},
    {Dtype::f64, "float64", "DoubleStorage"},
    {Dtype::f16, "float16", "HalfStorage"},
    {Dtype::bf16, "bfloat16", "BFloat16Storage"},
    {Dtype::i64, "int64", "LongStorage"},
    {Dtype::i32, "int32", "IntStorage"},
    {Dtype::i16, "int16", "ShortStorage"},
    {Dtype::i8, "int8", "CharStorage"},
    {Dtype::u8, "uint8", "ByteStorage"},
    {Dtype::boolean, "bool", "BoolStorage"},
    {Dtype::complex64, "complex64", "ComplexFloatStorage"},
    {Dtype::complex128, "complex128", "ComplexDoubleStorage"},
    {Dtype::complex32, "complex32", ""},
    {Dtype::u16, "uint16", ""},
    {Dtype::u32, "uint32", ""},
    {Dtype::u64, "uint64", ""},
    {Dtype::f8_e4m3fn, "float8_e4m3fn", ""},
    {Dtype::f8_e5m2, "float8_e5m2", ""},
    {Dtype::f8_e4m3fnuz, "float8_e4m3fnuz", ""},
    {Dtype::f8_e5m2fnuz, "float8_e5m2fnuz", ""},
    {Dtype::f8_e8m0, "float8_e8m0fnu", ""},
});

template <typename Value>
const TorchType* find_type(Value TorchType::* field, const Value& value) noexcept {
  const auto* found = std::ranges::find(kTypes, value, field);
  return found == kTypes.end() ? nullptr : found;
}

struct CallRow {
  std::string_view module;
  std::string_view name;
  TorchCall call;
};
constexpr auto kCalls = std::to_array<CallRow>({
    {"torch._utils", "_rebuild_tensor", TorchCall::tensor},
    {"torch._utils", "_rebuild_tensor_v2", TorchCall::tensor},
    {"torch._utils", "_rebuild_tensor_v3", TorchCall::typed_tensor},
    {"torch._utils", "_rebuild_parameter", TorchCall::first_argument},
    {"torch._utils", "_rebuild_parameter_with_state", TorchCall::first_argument},
    {"torch._tensor", "_rebuild_from_type_v2", TorchCall::tensor_of_class},
    {"collections", "OrderedDict", TorchCall::dict},
    {"collections", "defaultdict", TorchCall::dict},
    {"torch.jit._pickle", "restore_type_tag", TorchCall::first_argument},
    {"torch.jit._pickle", "build_tensorlist", TorchCall::list_of_argument},
    {"torch.jit._pickle", "build_intlist", TorchCall::list_of_argument},
    {"torch.jit._pickle", "build_doublelist", TorchCall::list_of_argument},
    {"torch.jit._pickle", "build_boollist", TorchCall::list_of_argument},
});

constexpr auto kPlainClasses = std::to_array<PickleGlobal>({
    {"torch", "Tensor"},
    {"torch.nn.parameter", "Parameter"},
    {"torch.nn.parameter", "Buffer"},
});

// Modules, with all that is in them and below.
constexpr auto kHostileModules = std::to_array<std::string_view>({
    "os",      "posix",      "nt",      "subprocess", "_posixsubprocess",
    "pty",     "sys",        "shutil",  "socket",     "_socket",
    "runpy",   "importlib",  "pdb",     "bdb",        "timeit",
    "ctypes",  "webbrowser", "marshal", "pickle",     "_pickle",
    "cPickle", "asyncio",    "urllib",  "requests",   "torch.hub",
    "pip",     "pydoc",      "popen2",
});
// Of the built-in functions, under each name that their module has had.
constexpr auto kBuiltinModules =
    std::to_array<std::string_view>({"builtins", "__builtin__", "__builtins__"});
constexpr auto kHostileBuiltins = std::to_array<std::string_view>({
    "eval",
    "exec",
    "execfile",
    "compile",
    "open",
    "input",
    "raw_input",
    "breakpoint",
    "apply",
    "__import__",
    "globals",
    "setattr",
});
constexpr auto kHostileNames = std::to_array<PickleGlobal>({
    {"torch", "load"},
    {"torch.serialization", "load"},
    {"torch.jit", "load"},
    {"torch.storage", "_load_from_bytes"},
    {"numpy", "load"},
    {"numpy.testing._private.utils", "runstring"},
    {"operator", "attrgetter"},
    {"operator", "methodcaller"},
    {"types", "CodeType"},
    {"types", "FunctionType"},
});

bool contains(std::span<const std::string_view> names, std::string_view name) noexcept {
  return std::ranges::find(names, name) != names.end();
}
bool is_one_of(std::span<const PickleGlobal> all, const PickleGlobal& one) noexcept {
  return std::ranges::any_of(all, [&](const PickleGlobal& known) {
    return known.module == one.module && known.name == one.name;
  });
}

}  // namespace

const TorchType* torch_type_named(std::string_view name) noexcept {
  return find_type(&TorchType::name, name);
}
const TorchType* torch_type_of_storage(std::string_view storage) noexcept {
  return storage.empty() ? nullptr : find_type(&TorchType::storage, storage);
}
const TorchType* torch_type_of(Dtype dtype) noexcept {
  return find_type(&TorchType::dtype, dtype);
}

TorchCall torch_call(const PickleGlobal& global) noexcept {
  for (const CallRow& row : kCalls)
    if (row.module == global.module && row.name == global.name) return row.call;
  if (global.module == "__torch__" || global.module.starts_with("__torch__."))
    return TorchCall::script_object;
  if (global.module.starts_with("torch.") && global.name.starts_with("_rebuild_"))
    return TorchCall::unreadable_tensor;
  return TorchCall::unknown;
}

bool is_plain_tensor_class(const PickleGlobal& global) noexcept {
  return is_one_of(kPlainClasses, global);
}

bool is_untyped_storage(const PickleGlobal& global) noexcept {
  return global.module == "torch.storage" &&
         (global.name == "UntypedStorage" || global.name == "_UntypedStorage");
}

bool is_storage_module(std::string_view module) noexcept {
  return module == "torch" || module == "torch.cuda";
}

bool is_harmless(const PickleGlobal& global) noexcept {
  if (contains(kBuiltinModules, global.module)) {
    const auto dot = global.name.find('.');
    return !contains(kHostileBuiltins, global.name.substr(0, dot));
  }
  for (std::string_view module = global.module;;
       module = module.substr(0, module.rfind('.'))) {
    if (contains(kHostileModules, module)) return false;
    if (module.find('.') == module.npos) break;
  }
  return !is_one_of(kHostileNames, global);
}

std::string global_text(const PickleGlobal& global) {
  return std::string(global.module) + "." + std::string(global.name);
}

}  // namespace weig
