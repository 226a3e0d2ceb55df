// SPDX-License-Identifier: Apache-2.0
// The wording of errors: one line, whatever bytes the names hold.
#include <weig/error.h>

#include "core/text.h"

namespace weig {

std::string_view code_name(Code code) noexcept {
  switch (code) {
    case Code::ok:
      return "ok";
    case Code::cannot_open:
      return "cannot_open";
    case Code::corrupt:
      return "corrupt";
    case Code::checksum:
      return "checksum";
    case Code::unsupported:
      return "unsupported";
    case Code::not_found:
      return "not_found";
    case Code::exists:
      return "exists";
    case Code::io:
      return "io";
    case Code::invalid_argument:
      return "invalid_argument";
    case Code::limit:
      return "limit";
    case Code::no_memory:
      return "no_memory";
    case Code::cancelled:
      return "cancelled";
  }
  return "unknown";
}

std::string Error::message() const {
  const Fields& f = *fields_;
  std::string out;
  if (!f.file.empty()) out += escaped(f.file, '\0', 4096) + ": ";
  if (f.names_tensor) out += "tensor " + in_quotes(f.tensor);
  if (f.offset != kNoOffset) {
    out += f.names_tensor ? ", offset " : "offset ";
    out += std::to_string(f.offset);
  }
  if (f.names_tensor || f.offset != kNoOffset) out += ": ";
  out += escaped(f.what, '\0', 4096);
  if (!f.found.empty()) out += ": found " + escaped(f.found, '\0');
  if (!f.expected.empty())
    out +=
        (f.found.empty() ? ": expected " : ", expected ") + escaped(f.expected, '\0');
  if (!f.hint.empty()) out += " (" + escaped(f.hint, '\0', 4096) + ")";
  return out;
}

}  // namespace weig
