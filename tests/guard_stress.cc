// SPDX-License-Identifier: Apache-2.0
// guard_stress FOLDER ROUNDS MIB: opens a guarded model of so many MiB, again and
// again, and lets other processes cut, overwrite, delete and replace its file at random
// moments, in every second round once more while the copy is being made. Meanwhile a
// thread adds up all weights in a loop. Fails on a wrong sum; a signal would end it.
// Prints how many rounds there were, and in how many a writer came during the copy: one
// that was seen to wait in its call, with the copy still being made after that.
#include <weig/weig.h>

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

namespace {

using namespace std::chrono_literals;

int fail(const char* what, const std::string& more = "") {
  std::fprintf(stderr, "guard_stress: %s %s\n", what, more.c_str());
  return 1;
}

std::uint64_t sum_of(const weig::Model& model) {
  std::uint64_t sum = 0;
  for (const auto& tensor : model.tensors()) {
    const auto words = tensor->as<std::uint64_t>().value();
    for (const std::uint64_t word : words) sum = sum * 31 + word;
  }
  return sum;
}

enum Deed { cut, overwrite, remove_it, replace_it, kDeeds };

// In a process of its own, as somebody else would. Returns when that is about to.
pid_t start(Deed deed, const std::string& path, std::uint64_t length) {
  int ends[2];
  if (::pipe(ends) != 0) return -1;
  const pid_t process = ::fork();
  if (process != 0) {
    char byte = 0;
    const bool told = ::read(ends[0], &byte, 1) == 1;
    ::close(ends[0]);
    ::close(ends[1]);
    return told ? process : -1;
  }
  if (::write(ends[1], "", 1) != 1) ::_exit(1);
  switch (deed) {
    case cut:
      ::_exit(::truncate(path.c_str(), static_cast<off_t>(length)) == 0 ? 0 : 1);
    case overwrite: {
      const int file = ::open(path.c_str(), O_WRONLY | O_TRUNC);
      const std::vector<char> other(1 << 20, 'x');
      for (std::uint64_t at = 0; at < length; at += other.size())
        if (::write(file, other.data(), other.size()) < 0) ::_exit(1);
      ::_exit(file >= 0 ? 0 : 1);
    }
    case remove_it:
      ::_exit(::unlink(path.c_str()) == 0 ? 0 : 1);
    default: {
      const std::string other = path + ".new";
      const int file = ::open(other.c_str(), O_WRONLY | O_CREAT, 0666);
      ::_exit(file >= 0 && ::rename(other.c_str(), path.c_str()) == 0 ? 0 : 1);
    }
  }
}

// Whether a writer waits in its call: nothing else that it does can make it wait.
bool waits(pid_t process) {
  std::ifstream file("/proc/" + std::to_string(process) + "/stat");
  std::string line;  // "PID (NAME) STATE ..."
  std::getline(file, line);
  const std::size_t name_end = line.rfind(')');
  return name_end != line.npos && line.compare(name_end, 3, ") S") == 0;
}

// Whether a writer that has just been started comes while the copy is being made.
bool strikes_during_copy(const weig::Model& model, pid_t writer) {
  const auto is_copying = [&] {
    return model.guard_report().state == weig::GuardState::copying;
  };
  while (is_copying())
    if (waits(writer)) return is_copying();
  return false;
}

bool ended_well(pid_t process) {
  int status = 0;
  return ::waitpid(process, &status, 0) == process && status == 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4)
    return std::fputs("usage: guard_stress FOLDER ROUNDS MIB\n", stderr), 64;
  const std::string folder = argv[1];
  const int rounds = std::atoi(argv[2]);
  const std::uint64_t words = std::strtoull(argv[3], nullptr, 10) << 16;  // a tensor
  const std::string path = folder + "/m.weig";
  std::mt19937_64 random(1);
  std::vector<std::uint64_t> data(words);
  for (std::uint64_t& word : data) word = random();
  const std::uint64_t shape[] = {words};
  const auto write = [&] {
    const weig::TensorData one{{.name = "a", .dtype = weig::Dtype::u64, .shape = shape},
                               std::as_bytes(std::span(data))};
    weig::TensorData two = one;
    two.spec.name = "b";
    return weig::save(path, std::vector{one, two}, {}, weig::Existing::replace);
  };

  int during = 0;
  for (int round = 0; round < rounds; ++round) {
    if (auto status = write(); !status) return fail("write:", status.error().message());
    const auto model = weig::Model::open(path, {.guard = weig::Guard::required});
    if (!model) return fail("open:", model.error().message());
    const std::uint64_t expected = sum_of(*model);
    std::atomic<bool> wrong = false;
    std::jthread reader([&](const std::stop_token& stop) {
      while (!stop.stop_requested())
        if (sum_of(*model) != expected) wrong = true;
    });
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 3000));
    const auto deed = static_cast<Deed>(random() % kDeeds);
    const pid_t first = start(deed, path, random() % model->file_size());
    std::optional<pid_t> second;
    if (round % 2 == 1 && (deed == cut || deed == overwrite)) {
      for (int i = 0; i < 100'000; ++i) {
        if (model->guard_report().state != weig::GuardState::holding) break;
        std::this_thread::sleep_for(50us);
      }
      second = start(cut, path, random() % model->file_size());
      during += strikes_during_copy(*model, *second);
    }
    if (!ended_well(first) || (second && !ended_well(*second))) return fail("a writer");
    std::this_thread::sleep_for(2ms);
    reader.request_stop();
    reader.join();
    if (sum_of(*model) != expected || wrong) return fail("a wrong byte");
    const auto state = model->guard_report().state;
    const bool copied = deed == cut || deed == overwrite;
    if (state != (copied ? weig::GuardState::copied : weig::GuardState::holding))
      return fail("the guard is", weig::guard_state_name(state));
  }
  std::printf("%d rounds, in %d of them a writer came during the copy\n", rounds,
              during);
}
