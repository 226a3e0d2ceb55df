// SPDX-License-Identifier: Apache-2.0
#include "output_calls.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <sstream>

namespace weig::test {
namespace {

OutputCalls plan;
std::atomic<int> made = 0;
std::atomic<const char*> last = "";

template <typename Function>
Function* next(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

// What is to become of a call.
enum class Turn { goes_on, fails, half, half_and_dies };

Turn count(const char* name) {
  const int number = ++made;
  last = name;
  if (plan.at == 0 || number < plan.at) return Turn::goes_on;
  const bool first = number == plan.at;
  const bool fails = plan.fate == Fate::fail             ? first
                     : plan.fate == Fate::fail_for_good  ? true
                     : plan.fate == Fate::half_then_fail ? number == plan.at + 1
                                                         : false;
  if (fails) {
    errno = plan.error;
    return Turn::fails;
  }
  if (!first) return Turn::goes_on;
  if (plan.fate == Fate::die) ::raise(SIGKILL);
  return plan.fate == Fate::die_half_way ? Turn::half_and_dies : Turn::half;
}

// Calls that do not write cannot be half done: they die before, or go on.
bool fails(const char* name) {
  const Turn turn = count(name);
  if (turn == Turn::half_and_dies) ::raise(SIGKILL);
  return turn == Turn::fails;
}

unsigned long inode_of(int file) {
  struct stat status{};
  ::fstat(file, &status);
  return status.st_ino;
}

void note(const std::string& line) {
  if (plan.log.empty()) return;
  const int saved = errno;
  static const auto open_file = next<int(const char*, int, ...)>("open64");
  const int file = open_file(plan.log.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC);
  [[maybe_unused]] const auto ignored = ::write(file, line.data(), line.size());
  ::close(file);
  errno = saved;
}

std::string hex(const void* data, std::size_t size) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (std::size_t i = 0; i < size; ++i) {
    const auto byte = static_cast<const unsigned char*>(data)[i];
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

void log_write(int file, const void* data, ssize_t size, off_t offset) {
  if (plan.log.empty() || size <= 0) return;
  note("write " + std::to_string(inode_of(file)) + ' ' + std::to_string(offset) + ' ' +
       hex(data, static_cast<std::size_t>(size)) + '\n');
}

void log_size(const char* what, int file, off_t size) {
  note(what + std::to_string(inode_of(file)) + ' ' + std::to_string(size) + '\n');
}

int logged(int result, const std::string& line) {
  if (result == 0) note(line + '\n');
  return result;
}

// What preloading is told.
struct Environment {
  Environment() {
    const char* text = std::getenv("WEIG_OUTPUT_CALLS");
    if (!text) return;
    constexpr const char* kFates[] = {"once",      "always", "half",
                                      "half+fail", "kill",   "half+kill"};
    std::istringstream words(text);
    for (std::string word; words >> word;) {
      const std::string name = word.substr(0, word.find('='));
      const std::string value = word.substr(name.size() + 1);
      if (name == "at") plan.at = std::stoi(value);
      if (name == "error") plan.error = std::stoi(value);
      if (name == "fallocate") plan.fallocate_error = std::stoi(value);
      if (name == "no-replace") plan.no_replace_error = std::stoi(value);
      if (name == "folder") plan.folder_error = std::stoi(value);
      if (name == "log") plan.log = value;
      for (int i = 0; name == "then" && i < 6; ++i)
        if (value == kFates[i]) plan.fate = static_cast<Fate>(i);
    }
  }
} environment;

}  // namespace

void interfere(const OutputCalls& calls) {
  plan = calls;
  made = 0;
  last = "";
}
int output_calls_made() { return made; }
const char* last_output_call() { return last; }

}  // namespace weig::test

using namespace weig::test;

extern "C" {

int open(const char* path, int flags, ...) {
  va_list list;
  va_start(list, flags);
  const auto mode = static_cast<mode_t>(va_arg(list, int));
  va_end(list);
  const auto real = next<int(const char*, int, ...)>("open64");
  const bool folder = flags & O_DIRECTORY;
  if (!(flags & O_CREAT) && !folder) return real(path, flags, mode);
  if (folder && plan.folder_error != 0) return errno = plan.folder_error, -1;
  if (!folder && fails("create")) return -1;
  const int file = real(path, flags, mode);
  if (file >= 0 && !folder)
    note("create " + std::to_string(inode_of(file)) + ' ' + path + '\n');
  return file;
}

int fchmod(int file, mode_t mode) noexcept {
  if (fails("fchmod")) return -1;
  return logged(next<decltype(fchmod)>("fchmod")(file, mode), "fchmod");
}

int fallocate(int file, int mode, off_t offset, off_t length) {
  if (plan.fallocate_error != 0) return errno = plan.fallocate_error, -1;
  if (fails("fallocate")) return -1;
  const int result =
      next<decltype(fallocate)>("fallocate64")(file, mode, offset, length);
  if (result == 0) log_size("size ", file, length);
  return result;
}

int ftruncate(int file, off_t length) noexcept {
  if (fails("ftruncate")) return -1;
  const int result = next<decltype(ftruncate)>("ftruncate64")(file, length);
  if (result == 0) log_size("size ", file, length);
  return result;
}

ssize_t pwrite(int file, const void* data, std::size_t size, off_t offset) {
  const Turn turn = count("pwrite");
  if (turn == Turn::fails) return -1;
  if (turn != Turn::goes_on) size = (size + 1) / 2;
  const ssize_t written = next<decltype(pwrite)>("pwrite64")(file, data, size, offset);
  log_write(file, data, written, offset);
  if (turn == Turn::half_and_dies) ::raise(SIGKILL);
  return written;
}

int fsync(int file) {
  struct stat status{};
  const bool folder = ::fstat(file, &status) == 0 && S_ISDIR(status.st_mode);
  if (fails(folder ? "fsync of the folder" : "fsync")) return -1;
  return logged(next<decltype(fsync)>("fsync")(file),
                "sync " + std::to_string(status.st_ino));
}

int syncfs(int file) noexcept {
  if (fails("syncfs")) return -1;
  return logged(next<decltype(syncfs)>("syncfs")(file), "sync all");
}

int renameat2(int from_at, const char* from, int to_at, const char* to,
              unsigned flags) noexcept {
  if (flags != 0 && plan.no_replace_error != 0)
    return errno = plan.no_replace_error, -1;
  if (fails("rename")) return -1;
  return logged(next<decltype(renameat2)>("renameat2")(from_at, from, to_at, to, flags),
                std::string("rename ") + from + ' ' + to);
}

int rename(const char* from, const char* to) noexcept {
  if (fails("rename")) return -1;
  return logged(next<decltype(rename)>("rename")(from, to),
                std::string("rename ") + from + ' ' + to);
}

int link(const char* from, const char* to) noexcept {
  if (fails("link")) return -1;
  return logged(next<decltype(link)>("link")(from, to),
                std::string("link ") + from + ' ' + to);
}

int unlink(const char* path) noexcept {  // the cleaning up: not counted
  return logged(next<decltype(unlink)>("unlink")(path), std::string("unlink ") + path);
}

// What 'weig get -o' calls, through the C and C++ libraries.
#ifdef WEIG_PRELOADED

// Closes it also where it says that it could not, as the C library does.
int fclose(FILE* file) {
  const auto real = next<decltype(fclose)>("fclose");
  if (::fileno(file) <= STDERR_FILENO) return real(file);
  const bool failed = fails("close");
  const int error = errno;
  const int result = real(file);
  if (failed) return errno = error, EOF;
  return logged(result, "close");
}

// Of files without a buffer, as all outputs are.
std::size_t fwrite(const void* data, std::size_t size, std::size_t items, FILE* file) {
  const auto real = next<decltype(fwrite)>("fwrite");
  if (::fileno(file) <= STDERR_FILENO) return real(data, size, items, file);
  const off_t offset = ::lseek(::fileno(file), 0, SEEK_CUR);
  const Turn turn = count("fwrite");
  if (turn == Turn::fails) return 0;
  // The system may take half; the C library then asks again, and is not told twice.
  if (turn == Turn::half_and_dies) items = (items + 1) / 2;
  const std::size_t written = real(data, size, items, file);
  log_write(::fileno(file), data, static_cast<ssize_t>(written * size), offset);
  if (turn == Turn::half_and_dies) ::raise(SIGKILL);
  return written;
}

#endif

}  // extern "C"
