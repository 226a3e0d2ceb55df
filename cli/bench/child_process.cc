// SPDX-License-Identifier: Apache-2.0
#include "bench/child_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "host.h"

namespace weig::cli::bench {
namespace {

// How often a wait without a watcher looks whether to stop.
constexpr int kPatienceMs = 200;

// More than any worker writes: what goes on for longer is thrown away.
constexpr std::size_t kMostOutput = std::size_t{1} << 20;

Error no_process(int error_number) {
  return Error(Code::io, fmt::format("cannot start a process: {}",
                                     std::generic_category().message(error_number)))
      .file("/proc/self/exe");
}

class Spawn {
 public:
  explicit Spawn(int output) {
    posix_spawn_file_actions_init(&actions_);
    posix_spawn_file_actions_addopen(&actions_, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions_, output, 1);
    posix_spawn_file_actions_adddup2(&actions_, output, 2);
  }
  Spawn(const Spawn&) = delete;
  Spawn& operator=(const Spawn&) = delete;
  ~Spawn() { posix_spawn_file_actions_destroy(&actions_); }

  // An error number, or 0.
  int operator()(std::vector<std::string> command, pid_t& process) {
    std::vector<char*> words;
    words.reserve(command.size() + 1);
    for (std::string& word : command) words.push_back(word.data());
    words.push_back(nullptr);
    return ::posix_spawn(&process, "/proc/self/exe", &actions_, nullptr, words.data(),
                         environ);
  }

 private:
  posix_spawn_file_actions_t actions_;
};

void wait_for(pid_t process, Ending& ending) {
  int status = 0;
  rusage used{};
  while (::wait4(process, &status, 0, &used) < 0 && errno == EINTR) continue;
  ending.major_faults = static_cast<std::uint64_t>(used.ru_majflt);
  ending.minor_faults = static_cast<std::uint64_t>(used.ru_minflt);
  if (WIFSIGNALED(status))
    ending.signal = WTERMSIG(status);
  else
    ending.status = WEXITSTATUS(status);
}

// Takes what the worker writes until it ends; false where someone says stop.
bool follow(int input, pid_t process, const Watch& watch, int period_ms,
            std::string& output) {
  char piece[4096];
  while (stop_signal() == 0) {
    pollfd waiting{.fd = input, .events = POLLIN, .revents = 0};
    const int ready = ::poll(&waiting, 1, watch ? period_ms : kPatienceMs);
    if (ready > 0) {
      const ssize_t count = ::read(input, piece, sizeof piece);
      if (count == 0) return true;
      if (count > 0 && output.size() < kMostOutput)
        output.append(piece, static_cast<std::size_t>(count));
    } else if (watch) {
      watch(process);
    }
  }
  return false;
}

}  // namespace

std::string Ending::failure() const {
  if (signal != 0) {
    const char* name = ::strsignal(signal);
    return fmt::format("ended by signal {} ({}){}", signal, name ? name : "unknown",
                       signal == SIGKILL ? ": out of memory?" : "");
  }
  // The last line is the message.
  std::string_view text = output;
  while (text.ends_with('\n')) text.remove_suffix(1);
  const std::size_t line = text.rfind('\n');
  if (line != text.npos) text.remove_prefix(line + 1);
  if (text.starts_with("weig: ")) text.remove_prefix(6);
  return text.empty() ? fmt::format("exit status {}", status) : std::string(text);
}

Result<Ending> run_worker_process(const std::vector<std::string>& command,
                                  const Watch& watch,
                                  std::chrono::milliseconds period) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return no_process(errno);
  Ending ending;
  pid_t process = 0;
  Spawn spawn(ends[1]);
  ending.started = Clock::now();
  const int failed = spawn(command, process);
  ::close(ends[1]);
  if (failed != 0) {
    ::close(ends[0]);
    return no_process(failed);
  }
  const bool ended =
      follow(ends[0], process, watch, static_cast<int>(period.count()), ending.output);
  ::close(ends[0]);
  if (!ended) ::kill(process, SIGKILL);
  wait_for(process, ending);
  if (!ended || stop_signal() != 0) return Error(Code::cancelled, "interrupted");
  return ending;
}

void die_with_parent() {
  ::signal(SIGINT, SIG_DFL);
  ::signal(SIGTERM, SIG_DFL);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
}

}  // namespace weig::cli::bench
