// SPDX-License-Identifier: Apache-2.0
// quantize_model FILE copy|quantize: what becomes of all tensors of rank 2 of a loaded
// model, into memory that is there already: copied by as many threads as there are
// CPUs, or quantized to int8 with one scale a row. Prints JSON: seconds of that alone,
// bytes of the source, and of anonymous memory the result and the most that there was.
#include <weig/host.h>
#include <weig/model.h>
#include <weig/quantize.h>

#include <sys/mman.h>

#include <chrono>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

namespace {

using Bytes = std::span<const std::byte>;

// Memory of the system's, every page present.
std::byte* present_memory(std::size_t size) {
  void* at = ::mmap(nullptr, size, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  return at == MAP_FAILED ? nullptr : static_cast<std::byte*>(at);
}

std::uint64_t anonymous_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("RssAnon:")) return std::stoull(line.substr(8)) * 1024;
  return 0;
}

void copy(Bytes from, std::byte* to) {
  const std::size_t count = weig::usable_cpus();
  const std::size_t part = from.size() / count + 1;
  std::vector<std::thread> threads;
  for (std::size_t at = 0; at < from.size(); at += part)
    threads.emplace_back([=] {
      std::memcpy(to + at, from.data() + at, std::min(part, from.size() - at));
    });
  for (std::thread& thread : threads) thread.join();
}

int fail(const weig::Error& error) {
  return std::fprintf(stderr, "%s\n", error.message().c_str()), 1;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string what = argc == 3 ? argv[2] : "";
  if (what != "copy" && what != "quantize") {
    std::fputs("usage: quantize_model FILE copy|quantize\n", stderr);
    return 64;
  }
  const auto model =
      weig::Model::open(argv[1], {.load = {.way = weig::LoadWay::populate}});
  if (!model) return fail(model.error());

  std::vector<weig::Tensor> tensors;
  std::uint64_t source = 0;
  for (const auto& tensor : model->tensors())
    if (tensor->shape().size() == 2) {
      tensors.push_back(*tensor);
      source += tensor->byte_count();
    }
  const std::uint64_t result = what == "copy" ? source : source / 2;
  std::byte* to = present_memory(result);
  if (to == nullptr) return std::perror("mmap"), 1;

  std::uint64_t peak = 0;
  const auto start = std::chrono::steady_clock::now();
  for (const weig::Tensor& tensor : tensors) {
    if (what == "copy") {
      copy(tensor.bytes(), to);
      to += tensor.byte_count();
      continue;
    }
    const auto plan =
        weig::QuantizePlan::make(tensor.dtype(), tensor.shape(), {.axis = 0});
    if (!plan) return fail(plan.error());
    weig::Quantizer quantizer(*plan);
    const std::span out(to, plan->quantized_bytes());
    if (auto status = quantizer.quantize(0, tensor.bytes(), out); !status)
      return fail(status.error());
    to += out.size();
    peak = std::max(peak, anonymous_bytes());
  }
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  peak = std::max(peak, anonymous_bytes());
  std::printf(R"({"seconds": %.4f, "source": %llu, "result": %llu, "peak": %llu})"
              "\n",
              seconds, static_cast<unsigned long long>(source),
              static_cast<unsigned long long>(result),
              static_cast<unsigned long long>(peak));
}
