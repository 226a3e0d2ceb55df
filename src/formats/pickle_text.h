// SPDX-License-Identifier: Apache-2.0
// Texts as the first protocols of pickle spell them, on a line of their own.
#pragma once

#include <string>
#include <string_view>

#include <weig/error.h>

namespace weig {

// A literal between quotes, as Python prints a string of bytes. Fails with corrupt.
Result<std::string> decode_quoted(std::string_view line);

// Latin-1 in which what it lacks is \uXXXX or \UXXXXXXXX, as UTF-8. Fails with corrupt.
Result<std::string> decode_raw_unicode(std::string_view line);

}  // namespace weig
