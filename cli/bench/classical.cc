// SPDX-License-Identifier: Apache-2.0
#include "bench/classical.h"

#include <weig/host.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "bench/raw_file.h"
#include "bench/touch.h"
#include "bench/worker.h"

namespace weig::cli::bench {
namespace {

constexpr std::size_t kBuffer = std::size_t{8} << 20;
// Direct reads wait for the device, not for a CPU: more of them keep it busy.
constexpr unsigned kDirectThreads = 4;

struct Free {
  void operator()(std::byte* memory) const { std::free(memory); }
};
using Memory = std::unique_ptr<std::byte[], Free>;

// Names and shapes alone, as a parser would have them.
Result<Model> open_metadata(const Job& job) {
  OpenOptions options = job.open;
  options.part = Part::metadata;
  return Model::open(job.file, options);
}

// A reader that copies out of a buffer, like stdio's.
class BufferedFile {
 public:
  explicit BufferedFile(const RawFile& file) : file_(file), buffer_(kBuffer) {}

  Status read(std::uint64_t offset, std::span<std::byte> out) {
    while (!out.empty()) {
      if (offset < begin_ || offset >= begin_ + filled_) {
        const auto count = file_.read(offset, buffer_);
        if (!count) return count.error();
        if (*count == 0) return Error(Code::corrupt, "the file was cut while in use");
        begin_ = offset;
        filled_ = *count;
      }
      const std::size_t at = offset - begin_;
      const std::size_t piece = std::min(out.size(), filled_ - at);
      std::memcpy(out.data(), buffer_.data() + at, piece);
      offset += piece;
      out = out.subspan(piece);
    }
    return {};
  }

 private:
  const RawFile& file_;
  std::vector<std::byte> buffer_;
  std::uint64_t begin_ = 0;
  std::size_t filled_ = 0;
};

// Touches the tensors, whose memory is where `at` says.
template <typename At>
void touch_tensors(const Model& model, At at, unsigned threads) {
  const auto bytes_of = [&](std::uint64_t i) -> std::span<const std::byte> {
    const auto tensor = model[i];
    if (!tensor || tensor->byte_count() == 0) return {};
    return {at(*tensor), static_cast<std::size_t>(tensor->byte_count())};
  };
  touch(model.size(), bytes_of, threads);
}

Status load_copies(const Job& job, Timeline& times) {
  auto file = RawFile::open(job.file, Through::page_cache);
  if (!file) return file.error();
  const auto model = open_metadata(job);
  if (!model) return model.error();
  times.opened();
  BufferedFile buffered(*file);
  std::vector<Memory> tensors(model->size());
  for (const auto& tensor : model->tensors()) {
    if (!tensor) return tensor.error();
    const auto size = static_cast<std::size_t>(tensor->byte_count());
    if (size == 0) continue;
    Memory& memory = tensors[tensor->ordinal()];
    memory.reset(static_cast<std::byte*>(std::malloc(size)));
    if (!memory) return Error(Code::no_memory, "out of memory");
    if (Status status = buffered.read(tensor->data_offset(), {memory.get(), size});
        !status)
      return status;
  }
  times.resident();
  touch_tensors(
      *model, [&](const Tensor& tensor) { return tensors[tensor.ordinal()].get(); },
      times.threads());
  times.loaded();
  return {};
}

Status load_into_one_buffer(const Job& job, Timeline& times) {
  auto file = RawFile::open(job.file, Through::page_cache);
  if (!file) return file.error();
  const auto model = open_metadata(job);
  if (!model) return model.error();
  times.opened();
  const auto size = static_cast<std::size_t>(file->size());
  const Memory memory(static_cast<std::byte*>(std::malloc(size)));
  if (!memory) return Error(Code::no_memory, "out of memory");
  if (Status status = file->fill(0, {memory.get(), size}); !status) return status;
  times.resident();
  touch_tensors(
      *model, [&](const Tensor& tensor) { return memory.get() + tensor.data_offset(); },
      times.threads());
  times.loaded();
  return {};
}

Status load_by_plain_mmap(const Job& job, Timeline& times) {
  auto file = RawFile::open(job.file, Through::page_cache);
  if (!file) return file.error();
  const auto model = open_metadata(job);
  if (!model) return model.error();
  const auto memory = RawMemory::of_file(*file);
  if (!memory) return memory.error();
  times.opened();
  touch_tensors(
      *model,
      [&](const Tensor& tensor) { return memory->data() + tensor.data_offset(); },
      times.threads());
  times.loaded();
  return {};
}

Status read_buffered(const Job& job, Timeline& times) {
  auto file = RawFile::open(job.file, Through::page_cache);
  if (!file) return file.error();
  times.opened();
  std::vector<std::byte> buffer(kBuffer);
  for (std::uint64_t offset = 0;;) {
    const auto count = file->read(offset, buffer);
    if (!count) return count.error();
    if (*count == 0) break;
    offset += *count;
  }
  times.resident();
  times.loaded();
  return {};
}

// The first failure among threads.
class Failure {
 public:
  void note(Error error) {
    const std::lock_guard lock(mutex_);
    if (!error_) error_ = std::move(error);
  }
  Status status() const { return error_ ? Status(*error_) : Status(); }

 private:
  std::mutex mutex_;
  std::optional<Error> error_;
};

Status read_direct(const Job& job, Timeline& times) {
  auto file = RawFile::open(job.file, Through::direct_io);
  if (!file) return file.error();
  times.opened();
  std::atomic<std::uint64_t> next = 0;
  Failure failure;
  const auto read_pieces = [&] {
    auto buffer = RawMemory::anonymous(kBuffer, Pages::huge);
    if (!buffer) return failure.note(buffer.error());
    for (std::uint64_t begin; (begin = next.fetch_add(kBuffer)) < file->size();) {
      // Lengths stay multiples of a block; at the end, the read is a shorter one.
      for (std::size_t done = 0;
           begin + done < std::min(begin + kBuffer, file->size());) {
        const auto count = file->read(begin + done, buffer->span().subspan(done));
        if (!count) return failure.note(count.error());
        if (*count == 0) break;
        done += *count;
      }
    }
  };
  on_threads(job.threads == 0 ? std::max(usable_cpus(), kDirectThreads) : job.threads,
             read_pieces);
  times.resident();
  if (Status status = failure.status(); !status) return status;
  times.loaded();
  return {};
}

}  // namespace

Status load_classically(const Job& job, Way way, Timeline& times) {
  switch (way) {
    case Way::raw_buffered:
      return read_buffered(job, times);
    case Way::raw_direct:
      return read_direct(job, times);
    case Way::copy:
      return load_copies(job, times);
    case Way::buffer:
      return load_into_one_buffer(job, times);
    default:
      return load_by_plain_mmap(job, times);
  }
}

}  // namespace weig::cli::bench
