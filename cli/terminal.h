// SPDX-License-Identifier: Apache-2.0
// Text from files in a form that is safe to print and keeps to its line, spelled as
// the library's messages spell it: \n, \t, \xNN, \u{NNNN}, and \\ for a backslash.
// And lines as wide as the terminal.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "host.h"

namespace weig::cli {

void append_printable(std::string& out, std::string_view text);
std::string printable(std::string_view text);

// What printable() was given; nothing where it does not print so.
std::optional<std::string> from_printable(std::string_view text);

// The same between single quotes.
std::string in_quotes(std::string_view text);

// Columns that printable text takes.
std::size_t display_width(std::string_view text);

// Printable text cut to at most `width` columns (at least 4), "..." where it was cut.
std::string shortened(std::string_view text, std::size_t width);

// Printable text that begins a line, on lines of at most `width` columns; those after
// the first begin with `indent` spaces. Words are never cut, nor is what stands in
// single quotes, a command mostly, where it fits a line.
std::string wrapped(std::string_view text, std::size_t width, std::size_t indent);

// The same for a stream that is a terminal, in its width. Elsewhere the text as it is:
// what reads it looks for whole lines.
std::string fitting(Stream stream, std::string_view text, std::size_t indent);

}  // namespace weig::cli
