// SPDX-License-Identifier: Apache-2.0
#include "convert/source_header.h"

#include <algorithm>

#include <weig/convert.h>

#include "convert/source_section.h"
#include "core/bytes.h"
#include "core/digest.h"
#include "core/try.h"
#include "formats/gguf.h"
#include "formats/safetensors.h"
#include "formats/safetensors_header.h"

namespace weig {
namespace {

constexpr std::uint64_t kMaxHeaderBytes = std::uint64_t{1} << 30;
// As text, a tensor of 64 dimensions of 20 digits takes some 1,400 bytes, and a name of
// control characters six times its own; its record and the rest at least 88.
constexpr std::uint64_t kMostHeaderTimes = 16;

Result<Manifest> parse_gguf(std::string_view header, std::uint64_t file_size) {
  const Input input{
      .size = file_size, .read = [&](std::uint64_t offset, MutableBytes out) -> Status {
        if (!fits(offset, out.size(), header.size()))
          return Error(Code::corrupt, "the source section's header is not all there");
        std::ranges::copy(bytes_of(header).subspan(offset, out.size()), out.begin());
        return {};
      }};
  const GgufOptions options{.strictness = Strictness::lenient,
                            .max_header_bytes = header.size()};
  WEIG_TRY_ASSIGN(gguf, read_gguf(input, options));
  if (gguf.manifest.data_begin != header.size())
    return Error(Code::corrupt,
                 "the source section's header has another length than it says")
        .found(header.size())
        .expected(gguf.manifest.data_begin);
  return std::move(gguf.manifest);
}

Result<Manifest> parse_safetensors(std::string_view header, std::uint64_t file_size) {
  const SafetensorsOptions options{.strictness = Strictness::lenient,
                                   .max_header_bytes = kMaxHeaderBytes};
  WEIG_TRY_ASSIGN(length, safetensors_json_bytes(bytes_of(header), file_size, options));
  if (length != header.size() - sizeof length)
    return Error(Code::corrupt,
                 "the source section's header has another length than it "
                 "says")
        .found(header.size())
        .expected(sizeof length + length);
  std::vector<std::byte> padded(length + kJsonPadding);
  std::ranges::copy(bytes_of(header).subspan(sizeof length), padded.begin());
  return read_safetensors(padded, length, file_size, options);
}

// What a kept header says. Entries come in order of their data.
Result<Manifest> parse_source_header(const SourceHeader& source,
                                     std::string_view header) {
  return source.format == SourceHeader::Format::gguf
             ? parse_gguf(header, source.file_size)
             : parse_safetensors(header, source.file_size);
}

Result<std::optional<std::uint64_t>> ordinal_named(const View& view,
                                                   std::string_view name) {
  WEIG_TRY_ASSIGN(tensor, view.find(name));
  return tensor ? std::optional<std::uint64_t>(tensor->ordinal()) : std::nullopt;
}
Result<std::optional<std::uint64_t>> ordinal_named(const ModelSet& set,
                                                   std::string_view name) {
  return set.find_ordinal(name);
}

// Of a View or a ModelSet, whose ordinals are those of the section.
template <typename Tensors>
Result<std::optional<std::string>> restore(const Tensors& view) {
  WEIG_TRY_ASSIGN(source, view.source());
  if (!source) return std::optional<std::string>();
  // The numbers are the file's word: none is allocated for before it is bounded.
  const bool outgrows =
      source->encoding == SourceHeader::Encoding::ordinals &&
      source->header_size / kMostHeaderTimes > view.file_size() + kMostSourceSpaces;
  if (source->header_size > kMaxHeaderBytes || outgrows)
    return Error(Code::limit, "the source file's header is longer than can be restored")
        .found(source->header_size)
        .expected("at most " +
                  std::to_string(outgrows ? kMostHeaderTimes *
                                                (view.file_size() + kMostSourceSpaces)
                                          : kMaxHeaderBytes));
  std::string header;
  if (source->encoding == SourceHeader::Encoding::verbatim) {
    header = text_of(source->body);
  } else {
    WEIG_TRY_ASSIGN(metadata, view.metadata_text());
    SafetensorsHeader rebuilt(metadata);
    for (std::size_t at = 0; at + 4 <= source->body.size(); at += 4) {
      const auto ordinal = load<std::uint32_t>(source->body.data() + at);
      if (ordinal >= view.size())  // of a set's first member they are the whole set's
        return Error(Code::corrupt,
                     "the source section names a tensor that the file does not have")
            .found(ordinal)
            .expected("below " + std::to_string(view.size()));
      WEIG_TRY_ASSIGN(tensor, view[ordinal]);
      if (!safetensors_dtype_name(tensor.dtype()))
        return Error(Code::corrupt,
                     "the source section names a tensor that safetensors "
                     "cannot hold")
            .tensor(tensor.name());
      rebuilt.add(tensor.name(), tensor.dtype(), tensor.shape(), tensor.byte_count());
      // One long name, named again and again, must not fill the memory.
      if (rebuilt.size() > source->header_size)
        return Error(Code::corrupt,
                     "the source section's tensors make a longer header than it says")
            .expected(std::to_string(source->header_size) + " bytes");
    }
    header = rebuilt.finish(source->header_size);
  }
  if (header.size() != source->header_size ||
      xxh3_128(bytes_of(header)) != source->digest)
    return Error(Code::corrupt,
                 "the source file's header cannot be restored: its digest")
        .found(to_hex(xxh3_128(bytes_of(header))))
        .expected(to_hex(source->digest));
  return std::optional<std::string>(std::move(header));
}

template <typename Tensors>
Result<SourceOrder> order_of(const Tensors& view, std::string_view header) {
  WEIG_TRY_ASSIGN(source, view.source());
  WEIG_TRY_ASSIGN(manifest, parse_source_header(*source, header));
  if (!manifest.covers_file)
    return Error(Code::corrupt, "the source section's tensors are not the whole file");
  if (manifest.entries().size() != view.size())
    return Error(Code::corrupt,
                 "the source section names not all of the file's tensors")
        .found(manifest.entries().size())
        .expected(view.size());
  SourceOrder order;
  order.ordinals.reserve(manifest.entries().size());
  for (const Manifest::Entry& entry : manifest.entries()) {
    WEIG_TRY_ASSIGN(ordinal, ordinal_named(view, manifest.name(entry)));
    if (!ordinal)
      return Error(Code::corrupt,
                   "the source section names a tensor that the file does not have")
          .tensor(manifest.name(entry));
    WEIG_TRY_ASSIGN(tensor, view[*ordinal]);
    if (tensor.dtype() != entry.dtype ||
        !std::ranges::equal(tensor.shape(), manifest.shape(entry)))
      return Error(Code::corrupt,
                   "the source section disagrees with the tensor's type or shape")
          .tensor(tensor.name());
    order.ordinals.push_back(static_cast<std::uint32_t>(*ordinal));
    order.begins.push_back(entry.begin);
  }
  return order;
}

// Whose header we cannot give back may be whole all the same.
template <typename Tensors>
Status check(const Tensors& tensors, const std::string& path) {
  const auto whole = [&]() -> Status {
    WEIG_TRY_ASSIGN(header, restore(tensors));
    if (header) WEIG_TRY(order_of(tensors, *header));
    return {};
  };
  auto status = whole();
  if (status || status.error().code() == Code::unsupported) return {};
  return std::move(status).error().file(path);
}

}  // namespace

Status check_source_header(const Model& model) {
  WEIG_TRY_ASSIGN(shard, model.shard());
  if (shard && shard->count > 1) return {};  // it is the whole set's
  return check(model.view(), model.path());
}

Status check_source_header(const ModelSet& set) { return check(set, set.path(0)); }

Result<std::optional<std::string>> restore_source_header(const View& view) {
  return restore(view);
}
Result<std::optional<std::string>> restore_source_header(const ModelSet& set) {
  return restore(set);
}

Result<SourceOrder> source_order(const View& view, std::string_view header) {
  return order_of(view, header);
}
Result<SourceOrder> source_order(const ModelSet& set, std::string_view header) {
  return order_of(set, header);
}

}  // namespace weig
