// SPDX-License-Identifier: Apache-2.0
#include "convert/source_reader.h"

#include "core/try.h"

namespace weig {
namespace {

// Others may have left anything in the bits that fill the last byte.
void clear_spare_bits(Dtype dtype, std::span<const std::uint64_t> shape,
                      MutableBytes end) {
  const DtypeInfo& info = *dtype_info(dtype);
  if (info.is_block() || info.block_elements == 1 || end.empty()) return;
  std::uint64_t elements = 1;
  for (const std::uint64_t dimension : shape) elements *= dimension;
  const std::uint64_t bits = elements * 8 * info.block_bytes / info.block_elements % 8;
  if (bits > 0) end.back() &= static_cast<std::byte>((1u << bits) - 1);
}

}  // namespace

SourceReader::SourceReader(const SourceFile& source)
    : source_(&source), reader_(source.file, source.manifest, source.data_files) {}

Status SourceReader::read(std::uint32_t entry, std::uint64_t offset, MutableBytes out) {
  const Manifest& manifest = source_->manifest;
  const Manifest::Entry& e = manifest.entries()[entry];
  WEIG_TRY(reader_.read(e, offset, out));
  const bool ends = offset + out.size() == e.size;
  if (manifest.clears_spare_bits && ends)
    clear_spare_bits(e.dtype, manifest.shape(e), out);
  if (source_->digests.empty()) return {};
  if (offset == 0) hasher_.reset();
  hasher_.update(out);
  return ends ? check_digest(entry) : Status();
}

// Damage of a sealed source is not sealed anew.
Status SourceReader::check_digest(std::uint32_t entry) const {
  const Digest& wanted = source_->digests[entry];
  if (hasher_.digest() == wanted) return {};
  const Manifest::Entry& e = source_->manifest.entries()[entry];
  return Error(Code::checksum, "the bytes differ from their digest")
      .file(source_->file.path())
      .tensor(source_->manifest.name(e))
      .at(e.begin)
      .found(to_hex(hasher_.digest()))
      .expected(to_hex(wanted));
}

}  // namespace weig
