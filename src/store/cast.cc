// SPDX-License-Identifier: Apache-2.0
#include <weig/quantize.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <string>

#include "kernels/float_cast.h"
#include "store/parallel.h"

namespace weig {
namespace {

// Elements that a thread takes at a time, and those that it has as floats meanwhile.
constexpr std::uint64_t kPart = std::uint64_t{1} << 18;
constexpr std::size_t kFloats = 2048;

Status check_size(std::string_view which, std::uint64_t found, std::uint64_t expected) {
  if (found == expected) return {};
  return Error(Code::invalid_argument, std::string(which) + " has another size")
      .found(std::to_string(found) + " bytes")
      .expected(std::to_string(expected));
}

void cast_part(Dtype from, const std::byte* in, std::uint64_t count, Dtype to,
               std::byte* out) {
  const std::size_t in_bytes = dtype_info(from)->block_bytes;
  const std::size_t out_bytes = dtype_info(to)->block_bytes;
  std::array<float, kFloats> floats;
  while (count > 0) {
    const auto now = static_cast<std::size_t>(std::min<std::uint64_t>(count, kFloats));
    kernels::widen(from, in, now, floats.data());
    kernels::narrow(to, floats.data(), now, out);
    in += now * in_bytes;
    out += now * out_bytes;
    count -= now;
  }
}

}  // namespace

bool is_castable(Dtype dtype) noexcept { return kernels::is_castable(dtype); }

Status cast(Dtype from, std::span<const std::byte> in, Dtype to,
            std::span<std::byte> out) {
  for (const Dtype dtype : {from, to})
    if (!is_castable(dtype))
      return Error(Code::invalid_argument, "elements of this type cannot be cast")
          .found(std::string(dtype_name(dtype)))
          .expected("f32, f16, bf16 or f8_e4m3fn");
  const std::size_t in_bytes = dtype_info(from)->block_bytes;
  const std::size_t out_bytes = dtype_info(to)->block_bytes;
  const std::uint64_t count = in.size() / in_bytes;
  if (auto status = check_size("the input of the cast", in.size(), count * in_bytes);
      !status)
    return status;
  if (auto status = check_size("the output of the cast", out.size(), count * out_bytes);
      !status)
    return status;
  return run_in_parallel((count + kPart - 1) / kPart,
                         [&](std::uint64_t part) -> Status {
                           const std::uint64_t first = part * kPart;
                           const std::uint64_t size = std::min(kPart, count - first);
                           if (from == to)
                             std::memcpy(out.data() + first * out_bytes,
                                         in.data() + first * in_bytes, size * in_bytes);
                           else
                             cast_part(from, in.data() + first * in_bytes, size, to,
                                       out.data() + first * out_bytes);
                           return {};
                         });
}

}  // namespace weig
