// SPDX-License-Identifier: Apache-2.0
// How a command ends: messages on standard error, errors as JSON for those who asked,
// and the exit status.
#pragma once

#include <weig/error.h>

#include <string_view>

#include "output.h"

namespace weig::cli {

// How results are printed.
enum class Form { text, json };

// Statuses that are not a weig::Code. 128 + n: ended by signal n, as shells count.
inline constexpr int kFindingsStatus = 1;  // weig doctor: loading would break here
inline constexpr int kUsageStatus = 64;
inline constexpr int kSignalStatus = 128;
inline constexpr int kReaderGoneStatus = 141;

// Which status an error ends with.
int exit_status(const Error& error) noexcept;

// Tells the error, on standard output too where the form is JSON; returns its status.
int fail(const Error& error, Form form);

// Adds the hint that --force replaces the output, where that is what stood in the way.
Error with_force_hint(Error error);

// Tells of a wrong call, as fail() does of an error; returns kUsageStatus.
int fail_usage(std::string_view command, std::string_view message, Form form);

// One line on standard error, printable, wrapped on a terminal. Nothing happens where
// that cannot be written.
void tell(std::string_view line);

void warn(std::string_view message);

// Ends the output of a command that comes out with `status`: flushes, and returns the
// status of what went wrong in that where something did.
int close_output(Output& output, int status);

}  // namespace weig::cli
