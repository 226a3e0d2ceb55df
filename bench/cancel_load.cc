// SPDX-License-Identifier: Apache-2.0
// cancel_load FILE WAY MILLISECONDS: starts to load a model (populate, stream or read)
// and cancels after that time. Prints the seconds from there to the load's end, and the
// bytes that it had loaded. Fails if the load was over before.
#include <weig/model.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>

int main(int argc, char** argv) {
  const auto way = weig::load_way_named(argc > 2 ? argv[2] : "");
  if (argc != 4 || !way)
    return std::fputs("usage: cancel_load FILE WAY MILLISECONDS\n", stderr), 64;
  using Clock = std::chrono::steady_clock;
  std::atomic<bool> cancelled = false;
  std::atomic<unsigned long long> loaded = 0;
  Clock::time_point when;
  std::jthread canceller([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(std::atoi(argv[3])));
    when = Clock::now();
    cancelled = true;
  });

  weig::OpenOptions options;
  options.load.way = *way;
  options.load.progress = [&](std::uint64_t done, std::uint64_t) {
    loaded = done;
    return !cancelled;
  };
  auto model = weig::Model::open(argv[1], options);
  const auto status = model ? model->wait() : model.error();
  const Clock::time_point ended = Clock::now();
  canceller.join();
  if (status || status.error().code() != weig::Code::cancelled)
    return std::fputs("cancel_load: the load was not cancelled\n", stderr), 1;
  std::printf("%.6f %llu\n", std::chrono::duration<double>(ended - when).count(),
              loaded.load());
}
