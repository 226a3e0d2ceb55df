// SPDX-License-Identifier: Apache-2.0
// GGUF files in memory, with every field in reach, so that one can be wrong alone.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/bytes.h"

namespace weig::test {

// Numbers, and strings with their length, one after the other.
class GgufBytes {
 public:
  explicit GgufBytes(ByteOrder order = ByteOrder::little) : order_(order) {}
  template <typename T>
  GgufBytes& number(T value) {
    std::byte bytes[sizeof(T)];
    store(bytes, order_ == ByteOrder::little ? value : byteswapped(value));
    out.append(reinterpret_cast<const char*>(bytes), sizeof(T));
    return *this;
  }
  GgufBytes& u8(std::uint8_t value) { return number(value); }
  GgufBytes& u16(std::uint16_t value) { return number(value); }
  GgufBytes& u32(std::uint32_t value) { return number(value); }
  GgufBytes& u64(std::uint64_t value) { return number(value); }
  GgufBytes& string(std::string_view text) {
    u64(text.size());
    out += text;
    return *this;
  }

  std::string out;

 private:
  ByteOrder order_;
};

struct GgufImageTensor {
  std::string name;
  std::vector<std::uint64_t> dims;  // the fastest first
  std::uint32_t type = 0;
  std::uint64_t offset = 0;
};

struct GgufImage {
  ByteOrder order = ByteOrder::little;
  std::string mark = "GGUF";
  std::uint32_t version = 3;
  std::vector<std::string> keys;  // each as its bytes
  std::vector<GgufImageTensor> tensors;
  std::uint64_t more_keys = 0;
  std::uint64_t more_tensors = 0;
  std::uint64_t alignment = 32;  // of where data begins
  std::string data;

  GgufBytes bytes_in_order() const { return GgufBytes(order); }

  std::vector<std::byte> bytes() const {
    GgufBytes all(order);
    all.out = mark;
    all.u32(version).u64(tensors.size() + more_tensors).u64(keys.size() + more_keys);
    for (const std::string& key : keys) all.out += key;
    for (const GgufImageTensor& tensor : tensors) {
      all.string(tensor.name).u32(static_cast<std::uint32_t>(tensor.dims.size()));
      for (const std::uint64_t dimension : tensor.dims) all.u64(dimension);
      all.u32(tensor.type).u64(tensor.offset);
    }
    if (!tensors.empty()) all.out.resize(align_up(all.out.size(), alignment));
    all.out += data;
    const Bytes out = bytes_of(all.out);
    return {out.begin(), out.end()};
  }
};

inline std::string key_u32(std::string_view name, std::uint32_t value) {
  return GgufBytes().string(name).u32(4).u32(value).out;
}

}  // namespace weig::test
