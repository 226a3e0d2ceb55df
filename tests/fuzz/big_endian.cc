// SPDX-License-Identifier: Apache-2.0
// Big-endian files: the reader, and the same file with everything swapped by hand,
// which must be a minimal file of the same tensors.
#include "formats/big_endian.h"

#include <string>

#include "check.h"
#include "core/byteswap.h"
#include "core/claim.h"
#include "core/record.h"
#include "formats/sniff.h"
#include "target.h"

namespace weig::fuzz {
namespace {

// Swaps parts of a file in place and remembers which: hostile records may put shapes
// over names or over each other, and then no little-endian file says the same.
class Swapper {
 public:
  explicit Swapper(MutableBytes file) : file_(file), touched_(file.size()) {}

  void swap(std::uint64_t at, std::uint64_t bytes, std::uint32_t unit) {
    touch(at, bytes);
    swap_in_place(file_.subspan(at, bytes), unit);
  }
  // A name stays as it is, and may lie over another.
  void keep(std::uint64_t at, std::uint64_t bytes) {
    for (std::uint64_t i = at; i < at + bytes; ++i) overlap_ = overlap_ || touched_[i];
  }
  bool overlap() const { return overlap_; }

 private:
  void touch(std::uint64_t at, std::uint64_t bytes) {
    keep(at, bytes);
    for (std::uint64_t i = at; i < at + bytes; ++i) touched_[i] = true;
  }

  MutableBytes file_;
  std::vector<bool> touched_;
  bool overlap_ = false;
};

// False where bytes have two meanings.
bool swap_file(MutableBytes file, const Manifest& manifest) {
  const disk::Header header = load_header(file, ByteOrder::big);
  Swapper swapper(file);
  std::vector<disk::TensorMeta> metas;
  for (std::uint64_t i = 0; i < header.tensor_count; ++i) {
    const std::uint64_t at = header.meta_offset + i * sizeof(disk::TensorMeta);
    metas.push_back(load_meta(file.data() + at, ByteOrder::big));
  }
  swapper.swap(0, 8, 4);
  swapper.swap(8, sizeof(disk::Header) - 8, 8);
  for (std::size_t i = 0; i < metas.size(); ++i) {
    const std::uint64_t at = header.meta_offset + i * sizeof(disk::TensorMeta);
    swapper.swap(at, 8, 8);
    swapper.swap(at + 8, 8, 4);
    swapper.swap(at + 16, 32, 8);
    if (metas[i].shape_count > 0)
      swapper.swap(metas[i].shape_offset, 8 * metas[i].shape_count, 8);
  }
  const Manifest::Entry* last = nullptr;
  for (const Manifest::Entry& entry : manifest.entries()) {
    const bool again =
        last && entry.shares != TensorSpec::kOwn && entry.shares == last->shares;
    if (!again)
      swapper.swap(entry.begin, entry.size, dtype_info(entry.dtype)->swap_unit);
    last = &entry;
  }
  for (const disk::TensorMeta& meta : metas) {
    const Bytes name = Bytes(file).subspan(meta.name_offset);
    const auto end = std::ranges::find(name, std::byte{0});
    swapper.keep(meta.name_offset, static_cast<std::uint64_t>(end - name.begin()) + 1);
  }
  return !swapper.overlap();
}

void promise_same_swapped(Bytes file, const Manifest& manifest) {
  Block swapped(file);
  if (!swap_file(swapped.writable(), manifest)) return;
  const auto view = View::open(swapped.bytes(), {.unsealed = Unsealed::accept});
  promise(view.has_value(), "what is sound big-endian is sound swapped",
          view ? "" : failure(view.error()));
  promise(view->size() == manifest.entries().size(), "no tensor is lost");
  for (const Manifest::Entry& entry : manifest.entries()) {
    const auto tensor = view->tensor(manifest.name(entry));
    promise(tensor && tensor->dtype() == entry.dtype &&
                std::ranges::equal(tensor->shape(), manifest.shape(entry)) &&
                tensor->data_offset() == entry.begin &&
                tensor->byte_count() == entry.size,
            "a swapped tensor is the same", manifest.name(entry));
  }
}

}  // namespace

void run_big_endian(Bytes input) {
  const Block block(input);
  const Bytes file = block.bytes();
  for (const auto unsealed : {Unsealed::refuse, Unsealed::accept})
    for (const auto dtypes : {UnknownDtypes::refuse, UnknownDtypes::accept}) {
      const auto manifest = read_big_endian(
          file, file.size(), {.unsealed = unsealed, .unknown_dtypes = dtypes});
      if (!manifest) {
        failure(manifest.error());
        continue;
      }
      promise(unsealed == Unsealed::accept, "only when asked for");
      promise(manifest->big_endian, "the manifest says that bytes are swapped");
      const auto content =
          sniff(file.first(std::min(file.size(), kSniffBytes)), file.size());
      promise(content && *content == Content::weig_big_endian,
              "what is read is recognised");
      for (const Manifest::Entry& entry : manifest->entries())
        promise(inside(entry.begin, entry.size, manifest->data_begin, file.size()) &&
                    entry.size % dtype_info(entry.dtype)->swap_unit == 0,
                "data lies in the file, in whole elements", manifest->name(entry));
      promise_same_swapped(file, *manifest);
    }
}

}  // namespace weig::fuzz
