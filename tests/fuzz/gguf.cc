// SPDX-License-Identifier: Apache-2.0
// The GGUF reader, and all that goes on in memory from there: its metadata as text of
// ours, the file claimed as it is.
#include "formats/gguf.h"

#include <weig/metadata.h>

#include <bit>

#include "answers.h"
#include "check.h"
#include "core/claim.h"
#include "core/record.h"
#include "formats/sniff.h"
#include "target.h"

namespace weig::fuzz {
namespace {

weig::Input input_over(Bytes file) {
  return {.size = file.size(), .read = [file](std::uint64_t offset, MutableBytes out) {
            promise(fits(offset, out.size(), file.size()), "reads stay in the file");
            std::ranges::copy(file.subspan(offset, out.size()), out.begin());
            return Status();
          }};
}

void promise_ranges(const GgufHeader& header, Strictness strictness) {
  const Manifest& manifest = header.manifest;
  promise(std::has_single_bit(header.alignment), "alignment is a power of two");
  std::uint64_t end = manifest.data_begin;
  const Manifest::Entry* last = nullptr;  // that has bytes
  for (const Manifest::Entry& entry : manifest.entries()) {
    const auto name = manifest.name(entry);
    promise(inside(entry.begin, entry.size, manifest.data_begin, manifest.file_size),
            "data lies in the file", name);
    const Implied implied =
        implied_bytes(*dtype_info(entry.dtype), manifest.shape(entry));
    promise(implied.rule == Rule::none && implied.bytes == entry.size,
            "data has the size that type and shape imply", name);
    promise(is_aligned(entry.begin - manifest.data_begin, header.alignment),
            "data lies on the alignment", name);
    promise(entry.rank <= kGgufMaxRank && ggml_type_number(entry.dtype),
            "shape and type are GGML's", name);
    const bool shared = entry.begin < end && entry.size > 0;
    promise(!shared || (last && entry.begin == last->begin &&
                        entry.size == last->size && entry.shares == last->shares &&
                        !manifest.covers_file && strictness == Strictness::lenient),
            "ranges are equal and known as such, or disjoint", name);
    end = std::max(end, entry.begin + entry.size);
    if (entry.size > 0) last = &entry;
  }
  promise(!manifest.covers_file || manifest.file_size - end < header.alignment,
          "no more than padding is behind the last tensor of a file that is covered");
  promise(strictness == Strictness::lenient || manifest.covers_file,
          "strict accepts only what is covered");
}

void promise_metadata(const Manifest& manifest) {
  promise(manifest.metadata.has_value(), "there is metadata");
  const auto metadata = Metadata::parse(*manifest.metadata);
  promise(metadata.has_value(), "keys and values are metadata of ours",
          metadata ? "" : failure(metadata.error()));
  promise_equal(metadata->text(), *manifest.metadata, "metadata is canonical");
}

// The file as it is, claimed through a table of our own.
void promise_claim(Bytes file, const Manifest& manifest) {
  if (manifest.big_endian) return;
  std::vector<std::byte> table;
  detail::Claim claim = claim_manifest(manifest, file.data(), table);
  const Block core(table);
  claim.core = core.bytes().data();
  const auto view = detail::ViewAccess::open(claim, {.unsealed = Unsealed::accept});
  promise(view.has_value(), "what the reader accepts can be claimed",
          view ? "" : failure(view.error()));
  promise_sound(*view);
  answers(*view);
}

// All bytes that are no tensor's and not the header's are zeros, or it says so.
void promise_padding(const weig::Input& input, Bytes file, const Manifest& manifest) {
  const auto zero = has_zero_padding(input, manifest);
  promise(zero.has_value(), "memory can be read");
  std::vector<std::byte> rest(file.begin(), file.end());
  const auto clear = [&rest](std::uint64_t begin, std::uint64_t size) {
    std::ranges::fill(std::span(rest).subspan(begin, size), std::byte{0});
  };
  clear(0, manifest.data_begin);
  for (const Manifest::Entry& entry : manifest.entries())
    clear(entry.begin, entry.size);
  const bool is_zero =
      std::ranges::all_of(rest, [](std::byte b) { return b == std::byte{0}; });
  promise(*zero == is_zero, "padding is zeros, or not");
}

}  // namespace

void run_gguf(Bytes input) {
  const Block block(input);
  const Bytes file = block.bytes();
  const weig::Input over = input_over(file);
  bool strict_accepts = false;
  for (const auto strictness : {Strictness::strict, Strictness::lenient}) {
    const auto header =
        read_gguf(over, {.strictness = strictness, .max_header_bytes = 1 << 20});
    if (!header) {
      failure(header.error());
      promise(!strict_accepts, "lenient accepts what strict does");
      continue;
    }
    strict_accepts = strictness == Strictness::strict;
    const auto content =
        sniff(file.first(std::min(file.size(), kSniffBytes)), file.size());
    promise(content && *content == Content::gguf, "what is read is recognised");
    promise_ranges(*header, strictness);
    promise_metadata(header->manifest);
    promise_claim(file, header->manifest);
    promise_padding(over, file, header->manifest);
  }
}

}  // namespace weig::fuzz
