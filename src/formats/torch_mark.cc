// SPDX-License-Identifier: Apache-2.0
#include "formats/torch_mark.h"

#include <algorithm>
#include <string>

#include "core/text.h"

namespace weig {

// Bytes after the protocol and a frame, which protocol 4 has.
bool is_torch_stream(Bytes first) {
  constexpr std::size_t kFrame = 9;
  std::string_view text = text_of(first);
  if (text.starts_with("L" + std::string(kTorchMarkInDecimal))) return true;
  if (!text.starts_with('\x80') || text.size() < 2) return false;
  text.remove_prefix(2);
  if (text.starts_with('\x95')) text.remove_prefix(std::min(kFrame, text.size()));
  return text.starts_with("\x8A\x0A") && text.substr(2).starts_with(kTorchMark);
}

}  // namespace weig
