// SPDX-License-Identifier: Apache-2.0
#include "host.h"

#include <fcntl.h>
#include <locale.h>
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <unistd.h>
#include <wchar.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cctype>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <string>
#include <string_view>

#include "mapped_file.h"

namespace weig::cli {
namespace {

volatile std::sig_atomic_t stopped_by = 0;

volatile std::sig_atomic_t json_promised = 0;
std::atomic<bool> output_has_begun = false;
std::atomic<bool> stops_are_polled = false;

// Longer paths than any system allows are not remembered.
char unfinished_file[4097];

constexpr std::size_t kPathRoom = 4096;
constexpr const char* kLostPage =
    "could not be read: it was cut short while in use, or its disk failed";

// Text that is put together on the stack: a handler of a signal can take no memory.
template <std::size_t size>
class ShortText {
 public:
  ShortText& add(std::string_view text) noexcept {
    length_ += text.copy(bytes_.data() + length_, size - length_);
    return *this;
  }
  // In a JSON string. Requires printable ASCII.
  ShortText& add_escaped(std::string_view text) noexcept {
    for (const char& c : text) add(c == '"' || c == '\\' ? "\\" : "").add({&c, 1});
    return *this;
  }
  void write(int file) const noexcept {
    [[maybe_unused]] const auto ignored = ::write(file, bytes_.data(), length_);
  }

 private:
  std::array<char, size> bytes_;
  std::size_t length_ = 0;
};

// As report.cc writes errors.
void tell_lost_page_as_json(std::string_view path) noexcept {
  ShortText<4 * kPathRoom + 512> json;
  json.add("{\n  \"error\": {\n    \"code\": \"io\",\n    \"status\": 8,\n");
  json.add("    \"file\": ").add(path.empty() ? "null" : "\"");
  json.add_escaped(path).add(path.empty() ? "" : "\"").add(",\n");
  json.add("    \"tensor\": null,\n    \"offset\": null,\n");
  json.add("    \"what\": \"").add(kLostPage).add("\",\n    \"found\": null,\n");
  json.add("    \"expected\": null,\n    \"hint\": null,\n    \"message\": \"");
  json.add_escaped(path).add(path.empty() ? "a file " : ": ").add(kLostPage);
  json.add("\"\n  }\n}\n").write(STDOUT_FILENO);
}

void tell_stop_as_json(int signal) noexcept {
  const char digits[] = {'1', static_cast<char>('0' + (128 + signal) / 10 % 10),
                         static_cast<char>('0' + (128 + signal) % 10)};
  ShortText<512> json;
  json.add("{\n  \"error\": {\n    \"code\": \"cancelled\",\n    \"status\": ");
  json.add({digits, 3}).add(",\n    \"file\": null,\n    \"tensor\": null,\n");
  json.add("    \"offset\": null,\n    \"what\": \"interrupted\",\n");
  json.add("    \"found\": null,\n    \"expected\": null,\n    \"hint\": null,\n");
  json.add("    \"message\": \"interrupted\"\n  }\n}\n").write(STDOUT_FILENO);
}

// Someone says stop. Where there is nothing to take away, there is nothing to wait for.
// Only what signal-safety(7) lists is allowed here.
extern "C" void stop(int signal) {
  stopped_by = signal;
  if (stops_are_polled) return;
  if (json_promised != 0 && !output_has_begun) tell_stop_as_json(signal);
  ShortText<32>().add("weig: interrupted\n").write(STDERR_FILENO);
  ::_exit(128 + signal);
}

// A page of a mapped file could not be read: the file was cut short, or its disk
// failed. Only what signal-safety(7) lists is allowed here.
extern "C" void lost_page(int, siginfo_t* signal, void*) {
  // Threads that come here while one is telling wait for its end, and so say nothing.
  static std::atomic_flag told;
  while (told.test_and_set()) ::pause();
  std::array<char, kPathRoom> room;
  const std::string_view path = mapped_file_at(signal->si_addr, room);
  if (json_promised != 0 && !output_has_begun) tell_lost_page_as_json(path);
  ShortText<kPathRoom + 128> message;
  message.add("weig: ").add(path.empty() ? "a file" : path);
  message.add(path.empty() ? " " : ": ").add(kLostPage).add("\n").write(STDERR_FILENO);
  if (unfinished_file[0] != 0) ::unlink(unfinished_file);
  ::_exit(8);  // Code::io
}

// Without SA_RESTART: a write that waits for a slow reader must notice the flag.
void handle(int signal, void (*handler)(int)) {
  struct sigaction action{};
  action.sa_handler = handler;
  sigemptyset(&action.sa_mask);
  ::sigaction(signal, &action, nullptr);
}

void handle_lost_pages() {
  struct sigaction action{};
  action.sa_sigaction = lost_page;
  action.sa_flags = SA_SIGINFO;
  sigemptyset(&action.sa_mask);
  ::sigaction(SIGBUS, &action, nullptr);
}

bool is_ignored(int signal) {
  struct sigaction action{};
  return ::sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

}  // namespace

bool is_terminal(Stream stream) {
  const char* kind = std::getenv("TERM");
  const bool dumb = kind == nullptr || std::string_view(kind) == "dumb";
  return !dumb && ::isatty(static_cast<int>(stream)) == 1;
}

std::size_t columns(Stream stream) {
  winsize size{};
  if (::ioctl(static_cast<int>(stream), TIOCGWINSZ, &size) != 0 || size.ws_col == 0)
    return 80;
  return size.ws_col;
}

bool terminal_is_utf8() {
  // The first that is set decides, as in setlocale(3).
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const char* value = std::getenv(name);
    if (value == nullptr || *value == 0) continue;
    std::string locale(value);
    std::ranges::transform(locale, locale.begin(),
                           [](unsigned char c) { return std::tolower(c); });
    return locale.find("utf-8") != locale.npos || locale.find("utf8") != locale.npos;
  }
  return false;
}

void prepare_process() {
  // The usual limit is below the number of some models' shards.
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur < files.rlim_max) {
    files.rlim_cur = files.rlim_max;
    ::setrlimit(RLIMIT_NOFILE, &files);
  }
  // Opened the wrong way round on purpose: using them fails, as it would have closed.
  for (int number = 0; number <= 2; ++number)
    if (::fcntl(number, F_GETFD) < 0 && errno == EBADF) [[maybe_unused]]
      const int ignored = ::open("/dev/null", number == 0 ? O_WRONLY : O_RDONLY);
  handle(SIGPIPE, SIG_IGN);
  handle(SIGXFSZ, SIG_IGN);
  handle_lost_pages();
  handle(SIGINT, stop);
  handle(SIGTERM, stop);
  if (!is_ignored(SIGHUP)) handle(SIGHUP, stop);  // nohup stays in force
}

void poll_for_stops() noexcept { stops_are_polled = true; }

void set_unfinished_file(std::string_view path) noexcept {
  if (path.size() >= sizeof unfinished_file) path = {};
  std::copy(path.begin(), path.end(), unfinished_file);
  unfinished_file[path.size()] = 0;
}

std::FILE* create_file(const std::string& path, unsigned permissions) noexcept {
  const int number = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC,
                            0600 | (permissions & 0066));
  std::FILE* file = number < 0 ? nullptr : ::fdopen(number, "wb");
  if (number >= 0 && !file) ::close(number);
  return file;
}

void promise_json() noexcept { json_promised = 1; }
void output_begins() noexcept { output_has_begun = true; }

int sync_file(std::FILE* file) noexcept {
  return ::fsync(::fileno(file)) == 0 ? 0 : errno;
}

int sync_folder_of(const std::string& path) noexcept {
  const std::size_t slash = path.rfind('/');
  const std::string folder = slash == path.npos ? "." : path.substr(0, slash + 1);
  const int number = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (number < 0) return 0;
  const int failed = ::fsync(number) == 0 ? 0 : errno;
  ::close(number);
  return failed == EINVAL || failed == EROFS ? 0 : failed;
}

int stop_signal() noexcept { return stopped_by; }

int wait_for_stop(int seconds) noexcept {
  // Blocked while the flag is looked at, so that none comes in between unseen.
  sigset_t stops;
  sigset_t before;
  sigemptyset(&stops);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&stops, signal);
  ::sigprocmask(SIG_BLOCK, &stops, &before);
  const timespec most{.tv_sec = seconds, .tv_nsec = 0};
  if (stopped_by == 0) ::ppoll(nullptr, 0, &most, &before);
  ::sigprocmask(SIG_SETMASK, &before, nullptr);
  return stopped_by;
}

std::size_t character_columns(char32_t code) {
  // Not the user's locale: files are UTF-8 whatever the environment says.
  static const locale_t utf8 = ::newlocale(LC_CTYPE_MASK, "C.UTF-8", locale_t{});
  if (code < 0x300 || utf8 == locale_t{}) return 1;
  const locale_t before = ::uselocale(utf8);
  const int width = ::wcwidth(static_cast<wchar_t>(code));
  ::uselocale(before);
  return width < 0 ? 1 : static_cast<std::size_t>(width);
}

}  // namespace weig::cli
