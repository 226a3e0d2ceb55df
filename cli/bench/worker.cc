// SPDX-License-Identifier: Apache-2.0
#include "bench/worker.h"

#include <weig/host.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <exception>
#include <filesystem>
#include <new>
#include <system_error>

#include "bench/classical.h"
#include "bench/raw_file.h"
#include "bench/touch.h"
#include "report.h"

namespace weig::cli::bench {
namespace {

constexpr std::string_view kUnsealed = "unsealed";
constexpr std::string_view kUnknownDtypes = "unknown-dtypes";

std::uint64_t number_of(std::string_view text) {
  std::uint64_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

// MARK TASK FILE BYTES THREADS OPTION...
Job job_of(int argc, const char* const* argv) {
  Job job;
  if (argc < 6) return job;
  job.task = argv[2];
  job.file = argv[3];
  job.bytes = number_of(argv[4]);
  job.threads = static_cast<unsigned>(number_of(argv[5]));
  for (int i = 6; i < argc; ++i) {
    if (argv[i] == kUnsealed) job.open.unsealed = Unsealed::accept;
    if (argv[i] == kUnknownDtypes) job.open.unknown_dtypes = UnknownDtypes::accept;
  }
  return job;
}

// Touches memory, so that the machine has it, and leaves.
Status back(const Job& job) {
  auto memory = RawMemory::anonymous(job.bytes, Pages::huge);
  if (!memory) return memory.error();
  constexpr std::size_t kPage = 4096;
  const std::span<std::byte> bytes = memory->span();
  std::atomic<std::size_t> next = 0;
  constexpr std::size_t kPiece = std::size_t{8} << 20;
  on_threads(usable_cpus(), [&] {
    for (std::size_t begin; (begin = next.fetch_add(kPiece)) < bytes.size();)
      for (std::size_t i = begin; i < std::min(begin + kPiece, bytes.size());
           i += kPage)
        bytes[i] = std::byte{1};
  });
  return {};
}

void touch_model(const Model& model, unsigned threads) {
  const auto bytes_of = [&model](std::uint64_t i) {
    const auto tensor = model[i];
    return tensor ? tensor->bytes() : std::span<const std::byte>();
  };
  touch(model.size(), bytes_of, threads);
}

// Touches as well: on a virtual machine, what a device has read into memory costs the
// host a fault when a CPU first comes to it.
Status warm(const Job& job) {
  OpenOptions options = job.open;
  options.load.way = LoadWay::populate;
  const auto model = Model::open(job.file, options);
  if (!model) return model.error();
  touch_model(*model, usable_cpus());
  return {};
}

Status load_by_weig(const Job& job, LoadWay way, Timeline& times) {
  OpenOptions options = job.open;
  options.load.way = way;
  options.load.threads = job.threads;
  auto model = Model::open(job.file, options);
  if (!model) return model.error();
  if (way == LoadWay::stream) {
    times.opened();
    if (const auto waited = model->wait(); !waited) return waited.error();
    times.resident();
  } else {
    // open() has loaded already, and knows for how long.
    times.opened_and_resident(model->load_report().seconds);
  }
  touch_model(*model, times.threads());
  times.loaded();
  times.tell(model->load_report());
  return {};
}

Status do_job(const Job& job, Timeline& times) {
  if (job.task == "back") return back(job);
  if (job.task == "warm") return warm(job);
  const auto way = way_named(job.task);
  if (!way) return Error(Code::invalid_argument, "this is for 'weig bench' alone");
  if (const auto library = library_way(*way)) return load_by_weig(job, *library, times);
  return load_classically(job, *way, times);
}

}  // namespace

std::vector<std::string> command_of(const Job& job) {
  std::error_code unknown;
  auto program = std::filesystem::read_symlink("/proc/self/exe", unknown).string();
  if (unknown) program = "weig";
  auto file = std::filesystem::absolute(job.file, unknown).string();
  if (unknown || job.file.empty()) file = job.file;
  std::vector<std::string> words{program,
                                 kWorkerMark,
                                 job.task,
                                 file,
                                 std::to_string(job.bytes),
                                 std::to_string(job.threads)};
  if (job.open.unsealed == Unsealed::accept) words.emplace_back(kUnsealed);
  if (job.open.unknown_dtypes == UnknownDtypes::accept)
    words.emplace_back(kUnknownDtypes);
  return words;
}

bool is_worker(int argc, const char* const* argv) noexcept {
  return argc > 1 && argv[1] == std::string_view(kWorkerMark);
}

int work(int argc, const char* const* argv) {
  Timeline times;
  die_with_parent();
  try {
    const Job job = job_of(argc, argv);
    times.set_threads(job.threads == 0 ? usable_cpus() : job.threads);
    const Status status = do_job(job, times);
    return status ? 0 : fail(status.error(), Form::text);
  } catch (const std::bad_alloc&) {
    return fail(Error(Code::no_memory, "out of memory"), Form::text);
  } catch (const std::exception& error) {
    return fail(Error(Code::io, error.what()), Form::text);
  }
}

}  // namespace weig::cli::bench
