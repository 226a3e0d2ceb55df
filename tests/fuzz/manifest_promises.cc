// SPDX-License-Identifier: Apache-2.0
#include "manifest_promises.h"

#include "check.h"
#include "core/record.h"
#include "core/text.h"

namespace weig::fuzz {
namespace {

// The last byte that a strided tensor needs, and one more.
std::uint64_t end_of(std::span<const std::uint64_t> shape, const ElementStorage& lies,
                     std::uint64_t width) {
  std::uint64_t last = 0;
  for (std::size_t d = 0; d < lies.strides.size(); ++d)
    last += (shape[d] - 1) * lies.strides[d];
  return lies.first + (last + 1) * width;
}

void promise_entry(const Manifest& manifest, const Manifest::Entry& entry,
                   std::uint64_t file_size) {
  const std::string_view name = manifest.name(entry);
  promise(is_utf8(name) && name.size() <= 65'535, "names are names", name);
  const DtypeInfo& info = *dtype_info(entry.dtype);
  const Implied implied = implied_bytes(info, manifest.shape(entry));
  promise(implied.rule == Rule::none && implied.bytes == entry.size,
          "data has the size that type and shape imply", name);
  if (entry.storage == Manifest::kAsItIs) {
    promise(fits(entry.begin, entry.size, file_size), "data lies in the file", name);
    return;
  }
  const ElementStorage& lies = manifest.storages[entry.storage];
  promise(fits(lies.begin, lies.size, file_size), "the storage lies in the file", name);
  promise(lies.packing != ElementStorage::Packing::none || lies.size == lies.bytes,
          "what is not packed has one size", name);
  const std::uint64_t end = lies.strides.empty()
                                ? lies.first + entry.size
                                : end_of(manifest.shape(entry), lies, info.block_bytes);
  promise(end <= lies.bytes, "elements lie in the storage", name);
}

}  // namespace

weig::Input input_over(Bytes bytes) {
  return {.size = bytes.size(), .read = [bytes](std::uint64_t at, MutableBytes out) {
            promise(fits(at, out.size(), bytes.size()), "reads stay in the file");
            std::ranges::copy(bytes.subspan(at, out.size()), out.begin());
            return Status();
          }};
}

void promise_manifest(const Result<Manifest>& manifest, std::uint64_t file_size) {
  if (!manifest) {
    failure(manifest.error());
    return;
  }
  std::uint64_t names = 0;
  for (const Manifest::Entry& entry : manifest->entries()) {
    promise_entry(*manifest, entry, file_size);
    names += entry.name_bytes;
  }
  promise(names <= (std::uint64_t{65} << 20), "names are bounded");
  for (const auto* lines : {&manifest->skipped, &manifest->warnings})
    for (const std::string& line : *lines)
      promise(line == escaped(line, 0, line.size()), "what is told can be printed",
              line);
}

}  // namespace weig::fuzz
