// SPDX-License-Identifier: Apache-2.0
// reload FILE: a server whose model is replaced while it works. Two threads answer
// requests without a pause; a third looks ten times a second whether FILE leads to
// another file, opens that, and puts it in the old one's place. A request keeps the
// model that it began with, and the last one to leave closes it.
//
// Replace the model by renaming: `weig convert new.safetensors -o model.weig --force`
// does. The guard is for those who write into the file instead. Digests are checked, so
// FILE must have them: WEIG files do, safetensors files do not.
#include <weig/weig.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace {

using SharedModel = std::shared_ptr<const weig::Model>;

weig::Result<SharedModel> open(const std::string& path) {
  auto model = weig::Model::open(path, {.load = {.way = weig::LoadWay::automatic},
                                        .verify = weig::Verify::digests,
                                        .guard = weig::Guard::wanted});
  if (!model) return model.error();
  return std::make_shared<const weig::Model>(*std::move(model));
}

// What a request does with a model: all weights, added up.
std::uint64_t answer(const weig::Model& model) {
  std::uint64_t sum = 0;
  for (const weig::Result<weig::Tensor>& tensor : model.tensors()) {
    if (!tensor) continue;  // none fails in a file that was verified and is held
    for (const std::byte byte : tensor->bytes()) sum += static_cast<unsigned>(byte);
  }
  return sum;
}

// Without a guard, who writes into the file changes weights that are served, and who
// cuts it ends this process.
void tell(const weig::Model& model) {
  if (const auto guard = model.guard_report(); guard.state == weig::GuardState::off)
    std::fprintf(stderr, "reload: no guard: %s\n", guard.reason.c_str());
  std::printf("serving %llu\n", static_cast<unsigned long long>(answer(model)));
  std::fflush(stdout);
}

std::atomic<bool> stopped = false;

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return std::fputs("usage: reload FILE\n", stderr), 64;
  const std::string path = argv[1];
  auto first = open(path);
  if (!first) return std::fprintf(stderr, "%s\n", first.error().message().c_str()), 1;
  std::atomic<SharedModel> current = *std::move(first);
  std::signal(SIGTERM, [](int) { stopped = true; });
  std::signal(SIGINT, [](int) { stopped = true; });

  std::atomic<std::uint64_t> answered = 0;
  std::vector<std::jthread> servers;
  for (int i = 0; i < 2; ++i)
    servers.emplace_back([&] {
      while (!stopped) {
        const SharedModel model = current;  // this request's, to the end
        answer(*model);
        ++answered;
      }
    });

  tell(*current.load());
  std::string last_error;
  while (!stopped) {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    const auto change = current.load()->changed();
    // A path that leads nowhere for a moment is somebody's who moves files.
    if (!change || *change == weig::FileChange::none ||
        *change == weig::FileChange::removed)
      continue;
    auto next = open(path);
    if (!next) {  // half written, or no model: the old one goes on
      std::string error = next.error().message();
      if (error != last_error) std::fprintf(stderr, "reload: %s\n", error.c_str());
      last_error = std::move(error);
      std::this_thread::sleep_for(std::chrono::seconds(1));
      continue;
    }
    last_error.clear();
    current = *std::move(next);
    tell(*current.load());
  }
  servers.clear();
  std::printf("answered %llu requests\n", static_cast<unsigned long long>(answered));
}
