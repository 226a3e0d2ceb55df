// SPDX-License-Identifier: Apache-2.0
// Where an ONNX model says that the data of a tensor lie, if not in itself.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "formats/protobuf.h"

namespace weig {

// A StringStringEntryProto: key and value, each "" where it is not there. Fails with
// limit where one is longer than `most` bytes.
Result<std::pair<std::string, std::string>> read_onnx_pair(InputCursor& cursor,
                                                           const ProtobufField& message,
                                                           std::uint64_t most,
                                                           const char* what);

// The path of a file in the model's folder or below it, without "." and empty parts.
// Fails with corrupt for all others.
Result<std::string> onnx_location(std::string_view location);

// An offset or a length, in decimal digits.
Result<std::uint64_t> onnx_place_number(std::string_view key, std::string_view value,
                                        std::uint64_t at);

}  // namespace weig
