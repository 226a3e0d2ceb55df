// SPDX-License-Identifier: Apache-2.0
#include "tensor_text.h"

#include <fmt/format.h>

namespace weig::cli {

std::string dtype_text(Dtype dtype) {
  if (dtype_info(dtype) != nullptr) return std::string(dtype_name(dtype));
  return fmt::format("unknown:{:#x}", static_cast<std::uint32_t>(dtype));
}

std::string shape_text(std::span<const std::uint64_t> shape) {
  std::string text = "[";
  for (const std::uint64_t size : shape) {
    if (text.size() > 1) text += ',';
    text += std::to_string(size);
  }
  return text += ']';
}

std::string digest_text(const Digest& digest) {
  return fmt::format("{:016x}{:016x}", digest.high, digest.low);
}

}  // namespace weig::cli
