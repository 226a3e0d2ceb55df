// SPDX-License-Identifier: Apache-2.0
#include "convert/tensor_reader.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>

#include <libdeflate.h>

#include "convert/gather.h"
#include "core/byteswap.h"
#include "core/try.h"
#include "formats/inflate.h"
#include "formats/protobuf_numbers.h"

namespace weig {
namespace {

// Tensors that follow each other closely in the file are read in pieces of this size,
// so that a million small ones are not a million calls.
constexpr std::uint64_t kWindow = std::uint64_t{1} << 20;
constexpr std::uint64_t kSmall = std::uint64_t{64} << 10;

}  // namespace

Input input_of(const os::InputFile& file) {
  return {.size = file.size(), .read = [&file](std::uint64_t offset, MutableBytes out) {
            return file.read(offset, out);
          }};
}

// Reads a file, small neighbours through a window.
class TensorReader::Window {
 public:
  explicit Window(const os::InputFile& file) : file_(file) {}

  Status read(std::uint64_t offset, MutableBytes out) {
    if (out.empty()) return {};
    if (out.size() > kSmall) return file_.read(offset, out);
    if (offset < begin_ || !fits(offset - begin_, out.size(), bytes_.size())) {
      const bool follows = offset >= end_ && offset - end_ <= kSmall;
      end_ = offset + out.size();
      if (!follows) return file_.read(offset, out);
      begin_ = offset;
      bytes_.resize(std::min(kWindow, file_.size() - offset));
      WEIG_TRY(file_.read(offset, bytes_));
    }
    end_ = offset + out.size();
    std::memcpy(out.data(), bytes_.data() + (offset - begin_), out.size());
    return {};
  }

 private:
  const os::InputFile& file_;
  std::vector<std::byte> bytes_;
  std::uint64_t begin_ = 0;  // of the window
  std::uint64_t end_ = 0;    // of the last read
};

// What a storage unpacks to. Where it is packed, places are reached from the front:
// going back begins anew.
class TensorReader::Unpacked {
 public:
  Unpacked(const os::InputFile& file, const ElementStorage& storage)
      : file_(file), input_(input_of(file)), storage_(storage) {}

  const std::string& path() const noexcept { return file_.path(); }
  const ElementStorage& storage() const noexcept { return storage_; }

  Status read(std::uint64_t offset, MutableBytes out) {
    if (storage_.packing == ElementStorage::Packing::none)
      return input_.read(storage_.begin + offset, out);
    if (offset < at_) begin();
    WEIG_TRY(pass_over(offset - at_));
    return next(out);
  }

  // The same, where all bytes are read one after the other: their checksum is compared.
  // What lies before the first and behind the last is read for its sake.
  Status read_in_order(std::uint64_t offset, MutableBytes out, std::uint64_t end) {
    if (!storage_.crc) return read(offset, out);
    if (offset == storage_.first) {
      crc_ = 0;
      WEIG_TRY(add_to_crc(0, offset));
    }
    WEIG_TRY(read(offset, out));
    // Of no memory at all, that function says 0.
    if (!out.empty()) crc_ = libdeflate_crc32(crc_, out.data(), out.size());
    if (offset + out.size() < end) return {};
    WEIG_TRY(add_to_crc(end, storage_.bytes));
    return compare_crc();
  }

  // Where bytes are then read in another order: all of them, for their checksum.
  Status check() {
    if (!storage_.crc) return {};
    crc_ = 0;
    WEIG_TRY(add_to_crc(0, storage_.bytes));
    return compare_crc();
  }

 private:
  static constexpr std::uint64_t kNowhere = UINT64_MAX;

  void begin() {
    at_ = 0;
    if (storage_.packing == ElementStorage::Packing::deflate)
      inflater_.emplace(input_, storage_.begin, storage_.size, storage_.bytes);
    else
      numbers_.emplace(input_, storage_.begin, storage_.begin + storage_.size,
                       storage_.numbers);
  }

  Status next(MutableBytes out) {
    at_ += out.size();
    return inflater_ ? inflater_->read(out) : numbers_->read(out);
  }

  Status pass_over(std::uint64_t count) {
    std::array<std::byte, 4096> unwanted;
    while (count > 0) {
      const auto step = std::min<std::uint64_t>(count, unwanted.size());
      WEIG_TRY(next(MutableBytes(unwanted).first(step)));
      count -= step;
    }
    return {};
  }

  Status compare_crc() const {
    if (crc_ == *storage_.crc) return {};
    return Error(Code::checksum, "the bytes differ from their checksum")
        .at(storage_.begin)
        .found(crc_)
        .expected(*storage_.crc);
  }

  Status add_to_crc(std::uint64_t from, std::uint64_t to) {
    std::vector<std::byte> bytes(std::min(to - from, kWindow));
    while (from < to) {
      const auto next =
          MutableBytes(bytes).first(std::min<std::uint64_t>(to - from, bytes.size()));
      WEIG_TRY(read(from, next));
      crc_ = libdeflate_crc32(crc_, next.data(), next.size());
      from += next.size();
    }
    return {};
  }

  const os::InputFile& file_;
  Input input_;
  const ElementStorage& storage_;
  std::uint64_t at_ = kNowhere;  // of the unpacked bytes: what comes next
  std::optional<Inflater> inflater_;
  std::optional<ProtobufNumbers> numbers_;
  std::uint32_t crc_ = 0;
};

// A strided tensor in parts, by way of a buffer that holds the part's surroundings.
class TensorReader::Gather {
 public:
  Gather(Unpacked& from, std::span<const std::uint64_t> shape,
         std::uint64_t element_bytes)
      : plan_(shape, from.storage().strides, element_bytes), from_(from) {}

  Status read(std::uint64_t offset, MutableBytes out) {
    while (!out.empty()) {
      if (offset < begin_ || offset >= begin_ + slab_.size()) WEIG_TRY(fill(offset));
      const auto here =
          std::min<std::uint64_t>(out.size(), begin_ + slab_.size() - offset);
      std::memcpy(out.data(), slab_.data() + (offset - begin_), here);
      out = out.subspan(here);
      offset += here;
    }
    return {};
  }

 private:
  Status fill(std::uint64_t offset) {
    const GatherPlan::Slab slab = plan_.slab_at(offset);
    begin_ = slab.begin;
    slab_.resize(slab.size);
    const auto status = plan_.gather(
        slab,
        [this](std::uint64_t at, MutableBytes bytes) {
          return from_.read(from_.storage().first + at, bytes);
        },
        slab_, buffer_);
    if (!status) slab_.clear();
    return status;
  }

  GatherPlan plan_;
  Unpacked& from_;
  std::uint64_t begin_ = 0;  // of the tensor's bytes: where the slab begins
  std::vector<std::byte> slab_;
  std::vector<std::byte> buffer_;
};

TensorReader::TensorReader(const os::InputFile& file, const Manifest& manifest,
                           std::span<const DataFile> others)
    : file_(&file),
      manifest_(&manifest),
      others_(others),
      window_(std::make_unique<Window>(file)) {}
TensorReader::TensorReader(TensorReader&&) noexcept = default;
TensorReader::~TensorReader() = default;

Status TensorReader::read(const Manifest::Entry& entry, std::uint64_t offset,
                          MutableBytes out) {
  if (entry.storage == Manifest::kAsItIs) return read_plain(entry, offset, out);
  auto status = read_stored(entry, offset, out);
  if (status) return {};
  Error error = std::move(status).error();
  if (error.fields().file.empty())
    error = std::move(error).file(unpacked_ ? unpacked_->path() : file_->path());
  return std::move(error).tensor(manifest_->name(entry));
}

Result<const os::InputFile*> TensorReader::file_of(const ElementStorage& storage) {
  if (storage.file == 0) return file_;
  if (!other_ || other_number_ != storage.file) {
    WEIG_TRY_ASSIGN(file, open_data_file(others_[storage.file - 1]));
    other_ = std::make_unique<os::InputFile>(std::move(file));
    other_number_ = storage.file;
  }
  return other_.get();
}

Status TensorReader::read_plain(const Manifest::Entry& entry, std::uint64_t offset,
                                MutableBytes out) {
  WEIG_TRY(window_->read(entry.begin + offset, out));
  if (manifest_->big_endian) swap_in_place(out, dtype_info(entry.dtype)->swap_unit);
  return {};
}

Status TensorReader::read_stored(const Manifest::Entry& entry, std::uint64_t offset,
                                 MutableBytes out) {
  const ElementStorage& storage = manifest_->storages[entry.storage];
  const DtypeInfo& info = *dtype_info(entry.dtype);
  if (offset == 0) {
    gather_.reset();
    unpacked_.reset();
    WEIG_TRY_ASSIGN(file, file_of(storage));
    unpacked_ = std::make_unique<Unpacked>(*file, storage);
    if (!storage.strides.empty()) {
      WEIG_TRY(unpacked_->check());
      gather_ = std::make_unique<Gather>(*unpacked_, manifest_->shape(entry),
                                         info.block_bytes);
    }
  }
  if (gather_) {
    WEIG_TRY(gather_->read(offset, out));
  } else {
    WEIG_TRY(unpacked_->read_in_order(storage.first + offset, out,
                                      storage.first + entry.size));
  }
  if (storage.big_endian) swap_in_place(out, info.swap_unit);
  return {};
}

}  // namespace weig
