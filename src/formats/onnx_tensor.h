// SPDX-License-Identifier: Apache-2.0
// One tensor of an ONNX model: what its message says, and where its elements lie.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/digest.h"
#include "formats/manifest.h"
#include "formats/protobuf.h"

namespace weig {

// The fields of one number in a message, and whether they are a single packed one,
// whose bytes can be taken as they are.
class NumberFields {
 public:
  void add(const ProtobufField& field) noexcept;
  bool empty() const noexcept { return !any_; }

  // The tensor whose elements they are. Without a count, that is what there is: in one
  // dimension. Fails with corrupt where there are more or fewer.
  Status add_tensor(const Input& input, Manifest& manifest, std::string_view name,
                    Dtype dtype, std::span<const std::uint64_t> shape,
                    NumberField field) const;
  Status add_list(const Input& input, Manifest& manifest, std::string_view name,
                  Dtype dtype, NumberField field) const;

 private:
  void place(Manifest& manifest, std::string_view name, Dtype dtype,
             std::span<const std::uint64_t> shape, std::uint64_t size,
             NumberField field) const;
  Result<std::uint64_t> count(const Input& input, NumberField field) const;

  bool is_as_it_is(NumberField field) const noexcept;

  bool any_ = false;                // that has bytes
  std::optional<WireType> single_;  // of the one that has, where there are no others
  std::uint64_t at_ = 0;            // of the first
  std::uint64_t begin_ = 0;
  std::uint64_t end_ = 0;  // of the last
};

// What a tensor's message says, nothing of which is believed yet.
struct OnnxTensor {
  std::string name;
  std::vector<std::uint64_t> shape;
  std::optional<std::uint64_t> data_type;
  std::optional<std::uint64_t> data_location;
  std::optional<ProtobufField> raw;
  NumberFields floats, ints, longs, doubles, unsigned_longs;
  bool has_strings = false;
  bool has_segment = false;
  std::uint64_t at = 0;  // of the message

  // Of the file that holds the data, each once.
  std::optional<std::string> location;
  std::optional<std::uint64_t> offset;
  std::optional<std::uint64_t> length;
  bool has_checksum = false;

  static Result<OnnxTensor> read(InputCursor& cursor, const ProtobufField& message);
};

// Adds tensors to a manifest.
class OnnxTensors {
 public:
  OnnxTensors(const Input& input, Manifest& manifest)
      : input_(input), manifest_(manifest) {}

  // Under `name`, which need not be its own. Strings are counted among what is skipped.
  Status add(std::string_view name, const OnnxTensor& tensor);
  // Numbers of an attribute.
  Status add_number(std::string_view name, Dtype dtype, const NumberFields& numbers,
                    NumberField field);
  Status add_numbers(std::string_view name, Dtype dtype, const NumberFields& numbers,
                     NumberField field);
  Status skip_strings(std::string_view name);
  // What was counted, into the manifest.
  void finish();

 private:
  Status check_name(std::string_view name);
  Status add_inline(std::string_view name, const OnnxTensor& tensor, std::uint64_t size,
                    std::uint64_t type);
  Status add_external(std::string_view name, const OnnxTensor& tensor,
                      std::uint64_t size, Dtype dtype);
  std::uint32_t file_number(const std::string& location);

  const Input& input_;
  Manifest& manifest_;
  std::unordered_map<std::string, std::uint32_t, SeededHash> files_;
  std::uint64_t name_bytes_ = 0;
  std::uint64_t strings_ = 0;
  std::uint64_t checksums_ = 0;
};

}  // namespace weig
