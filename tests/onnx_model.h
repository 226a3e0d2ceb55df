// SPDX-License-Identifier: Apache-2.0
// What tests of ONNX models share: numbers of types, data in other files, reading.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "bytes_input.h"
#include "formats/onnx.h"
#include "protobuf_message.h"

namespace weig::test {

inline constexpr std::uint64_t kFloat = 1, kUint8 = 2, kInt8 = 3, kInt16 = 5,
                               kInt32 = 6, kInt64 = 7, kString = 8, kBool = 9,
                               kFloat16 = 10, kDouble = 11, kUint32 = 12, kUint64 = 13,
                               kComplex64 = 14, kComplex128 = 15, kInt4 = 22,
                               kFloat6 = 27;

inline Result<Manifest> read(const Message& model) {
  return read_onnx(input_over(model.bytes));
}

inline Message external(std::string_view name, std::string_view location,
                        std::string_view offset = "", std::string_view length = "") {
  Message tensor = onnx_tensor(name, kUint8, {4}).number(14, 1);
  tensor.message(13, onnx_pair("location", location));
  if (!offset.empty()) tensor.message(13, onnx_pair("offset", offset));
  if (!length.empty()) tensor.message(13, onnx_pair("length", length));
  return tensor;
}

template <typename... Numbers>
std::string varints(Numbers... numbers) {
  return (Message::varint(static_cast<std::uint64_t>(numbers)) + ...);
}

inline Message constant(std::string_view output) {
  return onnx_node("Constant", output,
                   Message().text(1, "value").message(5, onnx_bytes("")));
}

}  // namespace weig::test
