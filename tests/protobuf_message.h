// SPDX-License-Identifier: Apache-2.0
// Protobuf messages for tests, field by field, and of an ONNX model those parts that
// its tests have in common.
#pragma once

#include <bit>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace weig::test {

class Message {
 public:
  std::string bytes;

  static std::string varint(std::uint64_t value) {
    std::string out;
    for (; value >= 0x80; value >>= 7) out += static_cast<char>(value | 0x80);
    return out + static_cast<char>(value);
  }
  template <typename Number>
  static std::string little(Number value) {
    std::string out;
    for (std::size_t i = 0; i < sizeof value; ++i)
      out += static_cast<char>(value >> (8 * i));
    return out;
  }

  Message& tag(std::uint32_t field, std::uint32_t wire_type) {
    bytes += varint(std::uint64_t{field} << 3 | wire_type);
    return *this;
  }
  Message& raw(std::string_view more) {
    bytes += more;
    return *this;
  }
  Message& number(std::uint32_t field, std::uint64_t value) {
    return tag(field, 0).raw(varint(value));
  }
  Message& text(std::uint32_t field, std::string_view value) {
    return tag(field, 2).raw(varint(value.size())).raw(value);
  }
  Message& message(std::uint32_t field, const Message& value) {
    return text(field, value.bytes);
  }
  Message& float32(std::uint32_t field, float value) {
    return tag(field, 5).raw(little(std::bit_cast<std::uint32_t>(value)));
  }
  Message& float64(std::uint32_t field, double value) {
    return tag(field, 1).raw(little(std::bit_cast<std::uint64_t>(value)));
  }
};

// A TensorProto without data.
inline Message onnx_tensor(std::string_view name, std::uint64_t data_type,
                           std::initializer_list<std::uint64_t> shape) {
  Message tensor;
  for (const std::uint64_t dimension : shape) tensor.number(1, dimension);
  tensor.number(2, data_type);
  tensor.text(8, name);
  return tensor;
}

// The same with four bytes, raw.
inline Message onnx_bytes(std::string_view name) {
  return onnx_tensor(name, 2, {4}).text(9, "\1\2\3\4");
}

inline Message onnx_pair(std::string_view key, std::string_view value) {
  return Message().text(1, key).text(2, value);
}

// A node with one output and one attribute.
inline Message onnx_node(std::string_view op_type, std::string_view output,
                         const Message& attribute) {
  return Message().text(2, output).text(4, op_type).message(5, attribute);
}

// A graph as a model.
inline Message onnx_model(const Message& graph) {
  return Message().number(1, 8).text(2, "weig").message(7, graph).message(
      8, Message().text(1, "").number(2, 17));
}

// A model with this one initializer.
inline Message onnx_model_of(const Message& tensor) {
  return onnx_model(Message().message(5, tensor));
}

}  // namespace weig::test
