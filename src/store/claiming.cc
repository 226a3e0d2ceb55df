// SPDX-License-Identifier: Apache-2.0
// Model::Backing: from an open file to a mapping whose structure is proven, one
// function a kind of file.
#include <weig/host.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "core/byteswap.h"
#include "core/claim.h"
#include "core/progress.h"
#include "core/try.h"
#include "formats/big_endian.h"
#include "formats/gguf.h"
#include "formats/manifest.h"
#include "formats/safetensors.h"
#include "os/residency.h"
#include "store/backing.h"
#include "store/parallel.h"

namespace weig {
namespace {

// Fronts up to this are read exactly, so that opening leaves no more than the front
// resident; longer ones are worth 2 MiB pages of their own.
constexpr std::uint64_t kSmallFront = os::kHugePage;

// Changes the byte order of all elements in `image`, the file's bytes.
Status swap_elements(const View& view, MutableBytes image) {
  const auto unit = [](const Tensor& tensor) {
    const DtypeInfo* info = dtype_info(tensor.dtype());
    return info ? info->swap_unit : 1;  // of unknown types, bytes are all there is
  };
  for (const Result<Tensor>& tensor : view.tensors()) {
    if (!tensor) return tensor.error();
    WEIG_TRY_ASSIGN(owner, view.owner(tensor->ordinal()));
    if (owner == tensor->ordinal()) {
      swap_in_place(image.subspan(tensor->data_offset(), tensor->byte_count()),
                    unit(*tensor));
      continue;
    }
    WEIG_TRY_ASSIGN(first, view[owner]);
    if (unit(first) != unit(*tensor))
      return Error(Code::unsupported,
                   "tensors share bytes in the other byte order as elements of "
                   "different widths")
          .tensor(tensor->name());
  }
  return {};
}

// How much of a front of `begin` bytes is likely not padding. Not proven yet: a hint.
std::uint64_t used_bytes(const disk::Header& header, std::uint64_t begin) {
  constexpr std::uint64_t kSections = 4096;  // room for any number of known ones
  const bool in_front = header.section_offset > 0 && header.section_offset < begin;
  return in_front ? std::min(begin, header.section_offset + kSections) : begin;
}

// What a header asks for and we do not know, a newer file's may; or it is damaged,
// which shows where there is a trailer of our kind. That tells the file's size, too.
Error with_doubt(Error error, Bytes header, Bytes trailer, std::uint64_t file_size) {
  const bool has_trailer =
      std::memcmp(trailer.data(), disk::kSentinel, sizeof disk::kSentinel) == 0;
  if (has_trailer && load_header(header).file_size != file_size &&
      load_trailer(trailer).file_size == file_size)
    return std::move(error).hint("the header is damaged, not the file's length");
  if (error.code() != Code::unsupported || !has_trailer ||
      load_trailer(trailer).check == trailer_check(header, trailer))
    return error;
  const std::string& hint = error.fields().hint;
  return std::move(error).hint((hint.empty() ? "" : hint + "; ") +
                               "or it is damaged: it does not match the trailer");
}

bool is_trailer_of(Bytes bytes, std::uint64_t file_size) {
  return std::memcmp(bytes.data(), disk::kSentinel, sizeof disk::kSentinel) == 0 &&
         load_trailer(bytes).file_size == file_size;
}

// What follows a whole file, or where the rest of one may be.
Error with_neighbours(Error error, const os::InputFile& file,
                      const disk::Header& header) {
  constexpr std::uint64_t kTrailer = sizeof(disk::Trailer);
  if (header.file_size > file.size())
    return Error(error).hint(error.fields().hint +
                             "; parts that 'split' made are joined with 'cat'");
  std::array<std::byte, kTrailer> end{};
  std::array<std::byte, sizeof(std::uint32_t)> next{};
  if (header.file_size < kTrailer ||
      !fits(header.file_size, next.size(), file.size()) ||
      !file.read(header.file_size - kTrailer, end) ||
      !is_trailer_of(end, header.file_size) || !file.read(header.file_size, next) ||
      load<std::uint32_t>(next.data()) != disk::kMagic)
    return error;
  return std::move(error).hint(
      "another WEIG file follows, as 'cat' joins them: keep them apart; 'weig merge' "
      "makes one file of a set, 'weig convert' of others");
}

ViewOptions view_options(const OpenOptions& options) {
  return {.validation = options.validation,
          .unsealed = options.unsealed,
          .unknown_dtypes = options.unknown_dtypes,
          .max_metadata_bytes = options.max_metadata_bytes};
}

}  // namespace

Error with_end(Error error, const os::InputFile& file) {
  std::array<std::byte, sizeof(disk::Trailer)> end{};
  if (file.size() < end.size() || !file.read(file.size() - end.size(), end))
    return error;
  const std::uint64_t whole = load_trailer(end).file_size;
  if (!is_trailer_of(end, whole) || whole <= file.size()) return error;
  return std::move(error).hint("it ends as a WEIG file of " + std::to_string(whole) +
                               " bytes does: the last of parts that 'split' made, "
                               "which 'cat' joins again, or a damaged beginning");
}

bool needs_swap(ByteOrder order, const OpenOptions& options) {
  return order != kNativeOrder && options.part == Part::everything;
}

Result<os::Mapping> memory_for(std::uint64_t bytes, MemoryClaim& claim, ReadInto where,
                               const char* hint) {
  claim = MemoryClaim(bytes);
  if (!claim.fits())
    return Error(Code::limit, "the file does not fit into memory")
        .found(std::to_string(bytes) + " bytes")
        .expected("at most " + std::to_string(claim.memory().available) + ", which " +
                  claim.memory().source + " has available")
        .hint(hint);
  if (where == ReadInto::shared_memory)
    return os::Mapping::shared_memory(bytes, "weig");
  return os::Mapping::anonymous(bytes);
}

Status Model::Backing::map(const os::InputFile& file, std::uint64_t front_bytes,
                           const OpenOptions& options) {
  front = front_bytes;
  WEIG_TRY(map_or_read(file, options.part == Part::metadata ? front_bytes : file.size(),
                       options));
  const bool small = front_bytes <= kSmallFront;
  // Else a fault in it would read what lies around, in small pages that stay small.
  if (small && !own_memory)
    mapping.expect_random(0, std::min(front_bytes, mapping.size()));
  if (options.huge_pages == HugePages::advise && !own_memory &&
      !mapping.advise_huge(small ? kSmallFront : 0))
    warnings.push_back("the system refuses huge pages (MADV_HUGEPAGE)");
  return {};
}

Status Model::Backing::map_or_read(const os::InputFile& file, std::uint64_t length,
                                   const OpenOptions& options) {
  if (decision.choice.way != LoadWay::read) {
    auto mapped = os::Mapping::of_file(file, length);
    if (mapped) {
      mapping = *std::move(mapped);
      return {};
    }
    if (options.load.fallback == Fallback::refuse ||
        mapped.error().code() == Code::no_memory)
      return std::move(mapped).error();
    warnings.push_back(mapped.error().fields().what +
                       ": it is read into memory instead");
    decision.choice.way = LoadWay::read;
    decision.choice.reason = "the file cannot be mapped";
    decision.resident = os::resident_bytes(file);
    decision.by_places = false;
  }
  WEIG_TRY_ASSIGN(memory, memory_for(length, claim, options.read_into));
  mapping = std::move(memory);
  own_memory = true;
  claim.fill(front);
  return file.read(0, mapping.writable().first(front));
}

// Reads the data into memory of our own, and changes its byte order to this
// machine's.
Status Model::Backing::swap(const os::InputFile& file, const Progress& progress,
                            View& view) {
  constexpr std::uint64_t kStep = std::uint64_t{8} << 20;
  MemoryClaim own_claim;
  WEIG_TRY_ASSIGN(image, memory_for(file.size(), own_claim, ReadInto::own_memory,
                                    "'weig convert' needs little, and makes a file "
                                    "that is mapped"));
  const std::uint64_t begin = view.data_begin();
  for (std::uint64_t at = begin; at < file.size(); at += kStep) {
    const std::uint64_t length = std::min(kStep, file.size() - at);
    WEIG_TRY(file.read(at, image.writable().subspan(at, length)));
    own_claim.fill(length);
    if (!goes_on(progress, at + length - begin, file.size() - begin))
      return Error(Code::cancelled, "loading was stopped");
  }
  WEIG_TRY(swap_elements(view, image.writable()));
  WEIG_TRY(image.make_read_only());
  if (own_memory) WEIG_TRY(mapping.make_read_only());
  swapped = std::move(image);
  detail::ViewAccess::use_native_data(view, swapped.data());
  return {};
}

Result<View> Model::Backing::claim_weig(const os::InputFile& file, Bytes first,
                                        const OpenOptions& options) {
  const ViewOptions rules = view_options(options);
  Status known = check_header(first, file.size(), rules);
  if (first.size() < sizeof(disk::Header)) return std::move(known).error();
  std::array<std::byte, sizeof(disk::Trailer)> trailer{};
  const disk::Header header = load_header(first);
  const bool sealed = (header.flags & disk::kFlagSealed) != 0;
  if (sealed && file.size() >= trailer.size())
    WEIG_TRY(file.read(file.size() - trailer.size(), trailer));
  if (!known) {
    Error error = with_doubt(std::move(known).error(), first, trailer, file.size());
    const bool other_size = sealed && header.magic == disk::kMagic &&
                            header.version == disk::kVersion &&
                            header.file_size != file.size() &&
                            load_trailer(trailer).file_size != file.size();
    return other_size ? with_neighbours(std::move(error), file, header)
                      : std::move(error);
  }
  format = sealed ? FileFormat::weig : FileFormat::weig_minimal;

  // Not proven yet: no more than a length to map, at most the file's.
  const std::uint64_t begin =
      std::clamp<std::uint64_t>(header.data_offset, sizeof(disk::Header), file.size());
  if (begin <= kSmallFront && options.validation == Validation::full)
    file.will_need(0, used_bytes(header, begin));
  const bool swaps = needs_swap(ByteOrder::little, options);
  WEIG_TRY(map(file, swaps ? file.size() : begin, options));
  // Proven below, on several threads if it is worth it.
  ViewOptions lazy = rules;
  lazy.validation = Validation::lazy;
  WEIG_TRY_ASSIGN(
      view, detail::ViewAccess::open(
                {.front = mapping.bytes(),
                 .trailer = trailer,
                 .file_size = file.size(),
                 .data = options.part == Part::everything ? mapping.data() : nullptr},
                lazy));
  if (options.validation == Validation::full || swaps)
    WEIG_TRY(detail::ViewAccess::check_structure(view, run_in_parallel));
  if (swaps) WEIG_TRY(swap(file, options.load.progress, view));
  return std::move(view);
}

Result<View> Model::Backing::claim_foreign(const Manifest& manifest,
                                           const OpenOptions& options) {
  metadata = manifest.metadata;
  const std::byte* data = options.part == Part::everything ? mapping.data() : nullptr;
  return detail::ViewAccess::open(claim_manifest(manifest, data, core),
                                  view_options(options));
}

Result<View> Model::Backing::claim_big_endian(const os::InputFile& file,
                                              const OpenOptions& options) {
  format = FileFormat::weig_big_endian;
  WEIG_TRY(map(file, file.size(), options));
  WEIG_TRY_ASSIGN(manifest,
                  read_big_endian(mapping.bytes(), file.size(), view_options(options)));
  WEIG_TRY_ASSIGN(view, claim_foreign(manifest, options));
  if (needs_swap(ByteOrder::big, options))
    WEIG_TRY(swap(file, options.load.progress, view));
  return std::move(view);
}

Result<View> Model::Backing::claim_safetensors(const os::InputFile& file, Bytes first,
                                               const OpenOptions& options) {
  format = FileFormat::safetensors;
  const SafetensorsOptions limits{.strictness = Strictness::strict,
                                  .max_header_bytes = options.max_header_bytes};
  WEIG_TRY_ASSIGN(length, safetensors_json_bytes(first, file.size(), limits));
  std::vector<std::byte> header(length + kJsonPadding);
  WEIG_TRY(file.read(sizeof length, MutableBytes(header).first(length)));
  WEIG_TRY_ASSIGN(manifest, read_safetensors(header, length, file.size(), limits));
  return map_and_claim(file, manifest, options);
}

Result<View> Model::Backing::claim_gguf(const os::InputFile& file,
                                        const OpenOptions& options) {
  format = FileFormat::gguf;
  const Input input{.size = file.size(),
                    .read = [&file](std::uint64_t offset, MutableBytes out) {
                      return file.read(offset, out);
                    }};
  WEIG_TRY_ASSIGN(header,
                  read_gguf(input, {.strictness = Strictness::strict,
                                    .max_header_bytes = options.max_header_bytes}));
  if (header.manifest.big_endian)
    return Error(Code::unsupported, "a big-endian GGUF file is not read as it is")
        .hint("'weig convert' makes a file of it that is");
  return map_and_claim(file, header.manifest, options);
}

// A little-endian file whose data is used as it lies there.
Result<View> Model::Backing::map_and_claim(const os::InputFile& file,
                                           const Manifest& manifest,
                                           const OpenOptions& options) {
  const bool swaps = needs_swap(ByteOrder::little, options);
  WEIG_TRY(map(file, swaps ? file.size() : manifest.data_begin, options));
  WEIG_TRY_ASSIGN(view, claim_foreign(manifest, options));
  if (swaps) WEIG_TRY(swap(file, options.load.progress, view));
  return std::move(view);
}

}  // namespace weig
