// SPDX-License-Identifier: Apache-2.0
#include "convert/source_section.h"

#include <algorithm>

#include "core/bytes.h"
#include "core/digest.h"
#include "formats/safetensors_header.h"

namespace weig {
namespace {

// All of the section but its body.
std::vector<std::byte> begin_section(SourceHeader::Format format,
                                     SourceHeader::Encoding encoding,
                                     std::string_view header, std::uint64_t file_size) {
  std::vector<std::byte> section(sizeof(disk::SourceHead));
  const Digest digest = xxh3_128(bytes_of(header));
  std::byte* out = section.data();
  store(out, static_cast<std::uint32_t>(format));
  store(out + 4, static_cast<std::uint32_t>(encoding));
  store(out + 8, file_size);
  store(out + 16, std::uint64_t{header.size()});
  store(out + 24, digest.low);
  store(out + 32, digest.high);
  return section;
}

std::vector<std::byte> verbatim(SourceHeader::Format format, std::string_view header,
                                std::uint64_t file_size) {
  std::vector<std::byte> section =
      begin_section(format, SourceHeader::Encoding::verbatim, header, file_size);
  const Bytes bytes = bytes_of(header);
  section.insert(section.end(), bytes.begin(), bytes.end());
  return section;
}

}  // namespace

std::vector<std::byte> make_source_section(std::string_view header,
                                           std::uint64_t file_size,
                                           std::span<const std::uint32_t> header_specs,
                                           std::span<const TensorSpec> specs,
                                           const Plan& plan,
                                           std::optional<std::string_view> metadata) {
  SafetensorsHeader rebuilt(metadata);
  std::vector<std::uint32_t> ordinal_of(specs.size());
  for (std::uint32_t ordinal = 0; ordinal < plan.size(); ++ordinal)
    ordinal_of[plan.order()[ordinal]] = ordinal;
  for (const std::uint32_t i : header_specs)
    rebuilt.add(specs[i].name, specs[i].dtype, specs[i].shape,
                plan.byte_count(ordinal_of[i]));
  // Spaces without end are kept as they are: no small file makes a large header.
  const bool short_enough = header.size() <= rebuilt.size() + kMostSourceSpaces;
  const bool same = short_enough && rebuilt.finish(header.size()) == header;

  if (!same) return verbatim(SourceHeader::Format::safetensors, header, file_size);
  std::vector<std::byte> section =
      begin_section(SourceHeader::Format::safetensors, SourceHeader::Encoding::ordinals,
                    header, file_size);
  const std::size_t head = section.size();
  section.resize(head + 4 * header_specs.size());
  std::byte* out = section.data() + head;
  for (const std::uint32_t i : header_specs) {
    store(out, ordinal_of[i]);
    out += 4;
  }
  return section;
}

std::vector<std::byte> make_gguf_source_section(std::string_view header,
                                                std::uint64_t file_size) {
  return verbatim(SourceHeader::Format::gguf, header, file_size);
}

}  // namespace weig
