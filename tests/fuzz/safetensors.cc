// SPDX-License-Identifier: Apache-2.0
// The safetensors reader, and all that goes on in memory from there: claiming the file
// as it is, writing its header again, and sealing it with its header kept, as convert
// and export do with files.
#include "formats/safetensors.h"

#include <weig/metadata.h>

#include "answers.h"
#include "check.h"
#include "convert/source_header.h"
#include "convert/source_section.h"
#include "core/claim.h"
#include "core/digest.h"
#include "core/layout.h"
#include "core/record.h"
#include "core/text.h"
#include "formats/safetensors_header.h"
#include "formats/sniff.h"
#include "target.h"

namespace weig::fuzz {
namespace {

Result<Manifest> read_manifest(Bytes file, Strictness strictness) {
  const SafetensorsOptions options{.strictness = strictness,
                                   .max_header_bytes = 1 << 20};
  auto length = safetensors_json_bytes(
      file.first(std::min<std::size_t>(file.size(), 8)), file.size(), options);
  if (!length) return std::move(length).error();
  Block padded(std::vector<std::byte>(*length + kJsonPadding));
  std::ranges::copy(file.subspan(8, *length), padded.writable().begin());
  return read_safetensors(padded.bytes(), *length, file.size(), options);
}

std::string entry_text(const Manifest& manifest, const Manifest::Entry& entry) {
  std::string out =
      in_quotes(manifest.name(entry)) + " " + std::string(dtype_name(entry.dtype));
  for (const std::uint64_t dimension : manifest.shape(entry))
    out += " " + std::to_string(dimension);
  return out + " : " + std::to_string(entry.size);
}

void promise_ranges(const Manifest& manifest, Strictness strictness) {
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
    const bool shared = entry.begin < end && entry.size > 0;
    promise(!shared || (last && entry.begin == last->begin && entry.size == last->size),
            "ranges are equal or disjoint", name);
    promise(
        !shared || (entry.shares != TensorSpec::kOwn && entry.shares == last->shares &&
                    !manifest.covers_file && strictness == Strictness::lenient),
        "shared bytes are known as such", name);
    promise(shared || entry.begin == end || !manifest.covers_file,
            "there are no holes in a file that is covered", name);
    end = std::max(end, entry.begin + entry.size);
    if (entry.size > 0) last = &entry;
  }
  promise(end == manifest.file_size || !manifest.covers_file,
          "nothing is behind the last tensor of a file that is covered");
  promise(strictness == Strictness::lenient || manifest.covers_file,
          "strict accepts only what can be given back");
}

// The file as it is, claimed through a table of our own.
void promise_claim(Bytes file, const Manifest& manifest) {
  std::vector<std::byte> table;
  detail::Claim claim = claim_manifest(manifest, file.data(), table);
  const Block core(table);
  claim.core = core.bytes().data();
  const auto view = detail::ViewAccess::open(claim, {.unsealed = Unsealed::accept});
  promise(view.has_value(), "what the reader accepts can be claimed");
  promise_sound(*view);
  answers(*view);
  for (std::uint32_t i = 0; i < view->size(); ++i) {
    const Tensor tensor = (*view)[i].value();
    const Manifest::Entry& entry = manifest.entries()[i];
    promise(tensor.name() == manifest.name(entry) && tensor.dtype() == entry.dtype &&
                std::ranges::equal(tensor.shape(), manifest.shape(entry)) &&
                tensor.byte_count() == entry.size &&
                tensor.data() == file.data() + entry.begin,
            "a claimed tensor is the header's", tensor.name());
  }
}

// A header written anew for the same tensors says the same.
void promise_header_again(Bytes file, const Manifest& manifest, Strictness strictness) {
  SafetensorsHeader header(manifest.metadata
                               ? std::optional<std::string_view>(*manifest.metadata)
                               : std::nullopt);
  std::vector<std::byte> data;
  for (const Manifest::Entry& entry : manifest.entries()) {
    header.add(manifest.name(entry), entry.dtype, manifest.shape(entry), entry.size);
    const Bytes bytes = file.subspan(entry.begin, entry.size);
    data.insert(data.end(), bytes.begin(), bytes.end());
  }
  const std::string text = header.finish();
  std::vector<std::byte> again(bytes_of(text).begin(), bytes_of(text).end());
  again.insert(again.end(), data.begin(), data.end());
  // Metadata that only lenient takes becomes an object, which strict does not take.
  const auto read = read_manifest(again, strictness);
  promise(read.has_value(), "a header that we write is one that we read",
          read ? "" : failure(read.error()));
  promise(read->entries().size() == manifest.entries().size(), "no tensor is lost");
  for (std::size_t i = 0; i < read->entries().size(); ++i)
    promise_equal(entry_text(*read, read->entries()[i]),
                  entry_text(manifest, manifest.entries()[i]),
                  "a header that is written again says the same");
  promise(read->covers_file, "a file that we write is covered");
  if (strictness == Strictness::strict)
    promise(read->metadata == manifest.metadata, "metadata is kept");
}

// Sealed in memory with the source's header kept: opens, and gives the header back.
void promise_kept_header(Bytes file, const Manifest& manifest) {
  std::vector<TensorSpec> specs;
  std::vector<std::uint32_t> order;
  for (const Manifest::Entry& entry : manifest.entries()) {
    order.push_back(static_cast<std::uint32_t>(specs.size()));
    specs.push_back({.name = manifest.name(entry),
                     .dtype = entry.dtype,
                     .shape = manifest.shape(entry),
                     .shares = entry.shares});
  }
  const auto plan = Plan::make(specs);
  promise(plan.has_value(), "what the reader accepts can be written",
          plan ? "" : failure(plan.error()));
  std::vector<SectionBytes> sections;
  if (manifest.metadata) {
    const Bytes text = bytes_of(*manifest.metadata);
    sections.push_back({disk::SectionKind::metadata, {text.begin(), text.end()}});
  }
  const std::string_view header = text_of(file.first(manifest.data_begin));
  if (manifest.covers_file)
    sections.push_back({disk::SectionKind::source,
                        make_source_section(header, file.size(), order, specs, *plan,
                                            manifest.metadata)});
  auto front = build_front(specs, *plan, sections);
  promise(front.has_value(), "what can be planned can be written",
          front ? "" : failure(front.error()));
  if (front->file_size > 1 << 20) return;
  std::vector<std::byte> image(front->file_size);
  std::vector<Digest> digests;
  for (std::uint32_t i = 0; i < plan->size(); ++i) {
    const Manifest::Entry& entry = manifest.entries()[plan->order()[i]];
    const Bytes bytes = file.subspan(entry.begin, entry.size);
    std::ranges::copy(bytes, image.begin() + static_cast<std::ptrdiff_t>(
                                                 front->data_offset + plan->offset(i)));
    digests.push_back(xxh3_128(bytes));
  }
  const auto trailer = seal(*front, digests);
  std::ranges::copy(front->bytes, image.begin());
  std::ranges::copy(trailer, image.end() - sizeof(disk::Trailer));
  const auto view = View::open(image);
  promise(view.has_value(), "a file that we write opens",
          view ? "" : failure(view.error()));
  promise_sound(*view);
  promise(view->check_sections().has_value(), "sections that we write are sound");
  const auto restored = restore_source_header(*view);
  promise(restored && restored->has_value() == manifest.covers_file,
          "the source's header is kept");
  if (!manifest.covers_file) return;
  promise_equal(**restored, header, "the source's header comes back byte for byte");
  const auto kept = source_order(*view, **restored);
  promise(kept && kept->ordinals.size() == view->size(),
          "the source's header is read again", kept ? "" : failure(kept.error()));
}

}  // namespace

void run_safetensors(Bytes input) {
  const Block block(input);
  const Bytes file = block.bytes();
  const Block first(file.first(std::min(file.size(), kSniffBytes)));
  const auto content = sniff(first.bytes(), file.size());
  if (!content) failure(content.error());
  bool strict_accepts = false;
  for (const auto strictness : {Strictness::strict, Strictness::lenient}) {
    const auto manifest = read_manifest(file, strictness);
    if (!manifest) {
      failure(manifest.error());
      promise(!strict_accepts, "lenient accepts what strict does");
      continue;
    }
    strict_accepts = strictness == Strictness::strict;
    promise(content && *content == Content::safetensors, "what is read is recognised");
    promise_ranges(*manifest, strictness);
    if (manifest->metadata) {
      const auto metadata = Metadata::parse(*manifest->metadata);
      promise(metadata.has_value(), "metadata of a header is metadata of ours",
              metadata ? "" : failure(metadata.error()));
      promise_equal(metadata->text(), *manifest->metadata, "metadata is canonical");
    }
    promise_claim(file, *manifest);
    promise_header_again(file, *manifest, strictness);
    promise_kept_header(file, *manifest);
  }
}

}  // namespace weig::fuzz
