// SPDX-License-Identifier: Apache-2.0
#include "formats/manifest.h"

#include <algorithm>
#include <tuple>
#include <unordered_set>

#include "core/bytes.h"
#include "core/claim.h"
#include "core/digest.h"
#include "core/record.h"
#include "core/text.h"
#include "core/try.h"

namespace weig {

Status check_name_bytes(const View& view) {
  const detail::Claim& claim = detail::ViewAccess::claim(view);
  NameBytes names(claim);
  for (std::uint64_t i = 0; i < view.size(); ++i) {
    WEIG_TRY_ASSIGN(tensor, view[i]);
    WEIG_TRY(names.add(tensor.name().size()));
  }
  return {};
}

Status check_distinct_names(const Manifest& manifest) {
  std::unordered_set<std::string_view, SeededHash> names;
  names.reserve(manifest.entries().size());
  for (const Manifest::Entry& entry : manifest.entries())
    if (!names.insert(manifest.name(entry)).second)
      return Error(Code::corrupt, "two tensors have the same name")
          .tensor(manifest.name(entry));
  return {};
}

Status order_and_check_ranges(Manifest& manifest) {
  std::ranges::stable_sort(manifest.entries(), [](const auto& a, const auto& b) {
    return a.begin != b.begin ? a.begin < b.begin : a.size < b.size;
  });
  Manifest::Entry* last = nullptr;  // the last that has bytes
  std::uint32_t sets = 0;
  for (Manifest::Entry& entry : manifest.entries()) {
    if (entry.size == 0) continue;
    if (last && entry.begin < last->begin + last->size) {
      if (entry.begin != last->begin || entry.size != last->size)
        return Error(Code::corrupt, "the tensor's data overlaps that of tensor " +
                                        in_quotes(manifest.name(*last)))
            .tensor(manifest.name(entry))
            .at(entry.begin)
            .expected("at or after " + std::to_string(last->begin + last->size));
      if (last->shares == TensorSpec::kOwn) last->shares = sets++;
      entry.shares = last->shares;
    }
    last = &entry;
  }
  return {};
}

namespace {

Error misplaced(const Manifest& manifest, const Manifest::Entry& entry,
                std::uint64_t file_size, const char* what) {
  const ElementStorage& storage = manifest.storages[entry.storage];
  return Error(Code::corrupt, what)
      .tensor(manifest.name(entry))
      .found(extent_text(storage.begin, storage.size) + " of " +
             in_quotes(manifest.files[storage.file - 1]))
      .expected("a file of " + std::to_string(file_size) + " bytes");
}

Status check_inside(const Manifest& manifest, const Manifest::Entry& entry,
                    std::uint64_t file_size) {
  const ElementStorage& storage = manifest.storages[entry.storage];
  if (!fits(storage.begin, storage.size, file_size))
    return misplaced(manifest, entry, file_size,
                     "its data lie outside the file that holds them");
  if (storage.ends_file && storage.begin + storage.size != file_size)
    return misplaced(manifest, entry, file_size,
                     "its data are all of a file from an offset on, and that is more");
  return {};
}

}  // namespace

Status check_other_files(Manifest& manifest, std::span<const std::uint64_t> sizes) {
  std::vector<Manifest::Entry*> entries;
  for (Manifest::Entry& entry : manifest.entries()) {
    if (entry.storage == Manifest::kAsItIs) continue;
    const std::uint32_t file = manifest.storages[entry.storage].file;
    if (file == 0) continue;
    WEIG_TRY(check_inside(manifest, entry, sizes[file - 1]));
    if (entry.size > 0) entries.push_back(&entry);
  }
  const auto place = [&](const Manifest::Entry* entry) -> const ElementStorage& {
    return manifest.storages[entry->storage];
  };
  std::ranges::stable_sort(entries, [&](const auto* a, const auto* b) {
    const ElementStorage& one = place(a);
    const ElementStorage& other = place(b);
    return std::tie(one.file, one.begin, one.size) <
           std::tie(other.file, other.begin, other.size);
  });
  std::uint32_t sets = 0;
  for (std::size_t i = 1; i < entries.size(); ++i) {
    const ElementStorage& before = place(entries[i - 1]);
    const ElementStorage& storage = place(entries[i]);
    if (storage.file != before.file || storage.begin >= before.begin + before.size)
      continue;
    if (storage.begin != before.begin || storage.size != before.size)
      return Error(Code::corrupt, "the tensor's data overlaps that of tensor " +
                                      in_quotes(manifest.name(*entries[i - 1])))
          .tensor(manifest.name(*entries[i]))
          .found(extent_text(storage.begin, storage.size) + " of " +
                 in_quotes(manifest.files[storage.file - 1]))
          .expected("at or after " + std::to_string(before.begin + before.size));
    if (entries[i - 1]->shares == TensorSpec::kOwn) entries[i - 1]->shares = sets++;
    entries[i]->shares = entries[i - 1]->shares;
  }
  return {};
}

Result<Manifest> manifest_of(const View& view) {
  Manifest manifest;
  manifest.file_size = view.file_size();
  manifest.data_begin = view.data_begin();
  WEIG_TRY(check_name_bytes(view));
  for (std::uint64_t i = 0; i < view.size(); ++i) {
    WEIG_TRY_ASSIGN(tensor, view[i]);
    manifest.add(tensor.name(), tensor.dtype(), tensor.shape(), tensor.data_offset(),
                 tensor.byte_count());
  }
  WEIG_TRY(order_and_check_ranges(manifest));
  WEIG_TRY_ASSIGN(metadata, view.metadata_text());
  if (metadata) manifest.metadata = *metadata;
  return manifest;
}

detail::Claim claim_manifest(const Manifest& manifest, const std::byte* data,
                             std::vector<std::byte>& core) {
  const std::uint64_t count = manifest.entries().size();
  const std::uint64_t strings_begin = count * sizeof(disk::TensorMeta);
  std::uint64_t dimensions = 0;
  std::uint64_t name_bytes = 0;
  for (const auto& entry : manifest.entries()) {
    dimensions += entry.rank;
    name_bytes += entry.name_bytes + 1;
  }
  core.assign(strings_begin + 8 * dimensions + name_bytes, std::byte{0});
  std::uint64_t shape_at = strings_begin;
  std::uint64_t name_at = strings_begin + 8 * dimensions;
  std::byte* meta = core.data();
  for (const auto& entry : manifest.entries()) {
    store(meta, name_at);
    store(meta + 8, static_cast<std::uint32_t>(entry.dtype));
    store(meta + 16, shape_at);
    store(meta + 24, std::uint64_t{entry.rank});
    store(meta + 32, entry.begin);
    store(meta + 40, entry.size);
    meta += sizeof(disk::TensorMeta);
    for (const std::uint64_t dimension : manifest.shape(entry)) {
      store(core.data() + shape_at, dimension);
      shape_at += 8;
    }
    const std::string_view name = manifest.name(entry);
    std::ranges::copy(bytes_of(name), core.data() + name_at);
    name_at += name.size() + 1;
  }
  detail::Claim claim;
  claim.core = core.data();
  claim.data = data;
  claim.file_size = manifest.file_size;
  claim.tensor_count = count;
  claim.strings_begin = strings_begin;
  claim.strings_end = core.size();
  claim.data_begin = manifest.data_begin;
  claim.data_end = manifest.file_size;
  return claim;
}

}  // namespace weig
