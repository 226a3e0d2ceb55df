// SPDX-License-Identifier: Apache-2.0
// What the command asks of the operating system: is this a terminal, how wide is it,
// did someone say stop. The only file here with an OS header is host.cc.
#pragma once

#include <cstddef>
#include <cstdio>
#include <string>
#include <string_view>

namespace weig::cli {

enum class Stream : int { output = 1, talk = 2 };

// A terminal that can redraw a line: TERM=dumb does not count.
bool is_terminal(Stream stream);

// Columns of the terminal, or 80 where there is none.
std::size_t columns(Stream stream);

// Whether the user's terminal is told to speak UTF-8.
bool terminal_is_utf8();

// Makes the process fit to write files: standard streams that are closed cannot become
// the descriptor of a model file, as many files may be open as the system allows, a
// closed pipe or a size limit is an error of write() instead of sudden death, and
// Ctrl-C, SIGTERM and SIGHUP end it with a message.
void prepare_process();

// From here on, those three only raise a flag: there is something to be taken away, or
// to be brought to its end. To be called before that begins.
void poll_for_stops() noexcept;

// Names the unfinished file, if any, that must go should the process die at once, which
// a page of a mapped file that cannot be read makes it do. Empty: none.
void set_unfinished_file(std::string_view path) noexcept;

// A new file, for writing: nobody else may do more with it than `permissions` let them,
// and its owner may write. Null where it cannot be, or is there already, with errno.
std::FILE* create_file(const std::string& path, unsigned permissions) noexcept;

// Has such a death told as JSON too, on standard output, as long as nothing else has
// been written there: what output_begins() is called for.
void promise_json() noexcept;
void output_begins() noexcept;

// Waits until a file, what is in a FILE's buffer not counted, is on its disk; the same
// for the name of a file. An error number, or 0. Where a folder cannot be synced, that
// is no error.
int sync_file(std::FILE* file) noexcept;
int sync_folder_of(const std::string& path) noexcept;

// The signal that asked the process to stop, or 0.
int stop_signal() noexcept;

// Waits for so long at most; the signal that asked the process to stop, or 0.
int wait_for_stop(int seconds) noexcept;

// Terminal columns of one character; 1 where the host does not know.
std::size_t character_columns(char32_t code);

}  // namespace weig::cli
