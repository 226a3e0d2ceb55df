// SPDX-License-Identifier: Apache-2.0
// What an ONNX model says of itself, as the text of WEIG metadata.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>

#include <weig/error.h>

#include "core/digest.h"

namespace weig {

class OnnxMetadata {
 public:
  static constexpr std::uint64_t kMaxBytes = std::uint64_t{64} << 20;

  // A string, as "onnx.KEY". Fails with corrupt where the key is there already or is
  // not UTF-8, and with limit. `at`: where the file has it.
  Status add(std::string_view key, std::string_view value, std::uint64_t at);
  // Nothing where there is none.
  std::optional<std::string> text() const;

 private:
  std::string text_;
  std::unordered_set<std::string, SeededHash> keys_;
  std::uint64_t bytes_ = 0;
};

}  // namespace weig
