// SPDX-License-Identifier: Apache-2.0
#include "store/sink.h"

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <system_error>
#include <thread>

#include "core/try.h"
#include "os/os.h"

namespace weig {
namespace {

class FileSink final : public Sink {
 public:
  explicit FileSink(os::OutputFile file) : file_(std::move(file)) {}
  Status reserve(std::uint64_t bytes) override { return file_.reserve(bytes); }
  Status write(std::uint64_t offset, Bytes bytes) override {
    return file_.write(offset, bytes);
  }
  Status sync() override { return file_.sync(); }
  Status publish() override { return file_.publish(); }
  void retract() noexcept override { file_.retract(); }

 private:
  os::OutputFile file_;
};

}  // namespace

Result<std::unique_ptr<Sink>> file_sink(const std::string& path, Existing existing,
                                        std::uint32_t permissions) {
  WEIG_TRY_ASSIGN(
      file, os::OutputFile::create(path,
                                   existing == Existing::replace ? os::IfExists::replace
                                                                 : os::IfExists::refuse,
                                   permissions));
  return std::unique_ptr<Sink>(std::make_unique<FileSink>(std::move(file)));
}

Status write_in_cuts(Sink& sink, std::uint64_t offset, Bytes bytes) {
  while (!bytes.empty()) {
    const std::uint64_t room = os::kHugePage - offset % os::kHugePage;
    const std::uint64_t size = std::min<std::uint64_t>(room, bytes.size());
    WEIG_TRY(sink.write(offset, bytes.first(size)));
    bytes = bytes.subspan(size);
    offset += size;
  }
  return {};
}

// A ring of pieces: the caller fills one while the thread writes those before it.
struct PieceWriter::Impl {
  static constexpr std::uint64_t kPiece = 2 * os::kHugePage;
  static constexpr std::uint64_t kPieces = 4;

  Impl(Sink& a_sink, std::uint64_t start) : sink(a_sink), offset(start), begin(start) {}

  Sink& sink;
  os::Mapping memory;
  std::uint64_t offset;  // of the file: where the next byte goes
  std::uint64_t begin;   // of the file: where the piece being filled starts

  std::mutex mutex;
  std::condition_variable changed;
  std::uint64_t filled = 0;   // pieces handed over
  std::uint64_t written = 0;  // pieces done with
  struct Piece {
    std::uint64_t offset = 0;
    Bytes bytes;
  } queue[kPieces];
  Status outcome;  // the first failure, if any; after it nothing more is written
  bool stop = false;
  std::thread thread;

  // Where the file's byte `at` lies in the piece being filled. Pieces keep the offset
  // modulo 4096, as direct I/O wants.
  std::byte* place(std::uint64_t at) {
    return memory.data() + (filled % kPieces) * kPiece + (at % kPiece);
  }
  std::uint64_t piece_end() const { return align_down(offset, kPiece) + kPiece; }

  void write_pieces() {
    std::unique_lock lock(mutex);
    for (;;) {
      changed.wait(lock, [&] { return stop || written < filled; });
      if (written == filled) return;
      const Piece piece = queue[written % kPieces];
      if (outcome) {
        lock.unlock();
        Status status = write_in_cuts(sink, piece.offset, piece.bytes);
        lock.lock();
        if (!status) outcome = std::move(status);
      }
      ++written;
      changed.notify_all();
    }
  }

  Status hand_over() {
    if (offset == begin) return {};
    std::unique_lock lock(mutex);
    queue[filled % kPieces] = {begin, {place(begin), offset - begin}};
    ++filled;
    begin = offset;
    changed.notify_all();
    // The next piece's memory must be free again.
    changed.wait(lock, [&] { return filled - written < kPieces; });
    return outcome;
  }
};

PieceWriter::PieceWriter(Sink& sink, std::uint64_t start)
    : impl_(std::make_unique<Impl>(sink, start)) {}

PieceWriter::~PieceWriter() {
  if (!impl_->thread.joinable()) return;
  {
    std::lock_guard lock(impl_->mutex);
    impl_->stop = true;
  }
  impl_->changed.notify_all();
  impl_->thread.join();
}

Result<MutableBytes> PieceWriter::space() {
  Impl& impl = *impl_;
  if (!impl.memory.data()) {
    WEIG_TRY_ASSIGN(memory, os::Mapping::anonymous(Impl::kPiece * Impl::kPieces));
    impl.memory = std::move(memory);
    try {
      impl.thread = std::thread([&impl] { impl.write_pieces(); });
    } catch (const std::system_error& error) {
      return os::system_error(Code::no_memory, "start a thread", error.code().value());
    }
  }
  return MutableBytes(impl.place(impl.offset), impl.piece_end() - impl.offset);
}

Status PieceWriter::advance(std::size_t bytes) {
  impl_->offset += bytes;
  return impl_->offset % Impl::kPiece == 0 ? impl_->hand_over() : Status();
}

Status PieceWriter::append(Bytes bytes) {
  while (!bytes.empty()) {
    WEIG_TRY_ASSIGN(room, space());
    const std::size_t size = std::min(room.size(), bytes.size());
    std::memcpy(room.data(), bytes.data(), size);
    WEIG_TRY(advance(size));
    bytes = bytes.subspan(size);
  }
  return {};
}

Status PieceWriter::append_zeros(std::uint64_t count) {
  while (count > 0) {
    WEIG_TRY_ASSIGN(room, space());
    const std::uint64_t size = std::min<std::uint64_t>(room.size(), count);
    std::memset(room.data(), 0, size);
    WEIG_TRY(advance(size));
    count -= size;
  }
  return {};
}

std::uint64_t PieceWriter::offset() const noexcept { return impl_->offset; }

Status PieceWriter::finish() {
  WEIG_TRY(impl_->hand_over());
  std::unique_lock lock(impl_->mutex);
  impl_->changed.wait(lock, [&] { return impl_->written == impl_->filled; });
  return impl_->outcome;
}

}  // namespace weig
