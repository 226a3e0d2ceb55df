// SPDX-License-Identifier: Apache-2.0
// ONNX models: what the manifest says of them holds, and the initializers of the graph
// are, value by value, those that another parser reads (protozero, all in memory).
#include "formats/onnx.h"

#include <weig/metadata.h>

#include <protozero/pbf_reader.hpp>

#include <map>

#include "check.h"
#include "core/layout.h"
#include "core/record.h"
#include "core/text.h"
#include "formats/protobuf_numbers.h"
#include "formats/sniff.h"
#include "target.h"

namespace weig::fuzz {
namespace {

weig::Input input_over(Bytes file) {
  return {.size = file.size(), .read = [file](std::uint64_t offset, MutableBytes out) {
            promise(fits(offset, out.size(), file.size()), "reads are inside the file");
            std::ranges::copy(file.subspan(offset, out.size()), out.begin());
            return Status();
          }};
}

// The bytes of a tensor in this file, read in parts of so many bytes.
std::string data_of(Bytes file, const Manifest& manifest, const Manifest::Entry& entry,
                    std::size_t part) {
  if (entry.storage == Manifest::kAsItIs) {
    promise(fits(entry.begin, entry.size, file.size()), "data lies in the file");
    return std::string(text_of(file.subspan(entry.begin, entry.size)));
  }
  const ElementStorage& storage = manifest.storages[entry.storage];
  promise(storage.packing == ElementStorage::Packing::protobuf &&
              fits(storage.begin, storage.size, file.size()),
          "a storage lies in the file");
  const weig::Input input = input_over(file);
  ProtobufNumbers numbers(input, storage.begin, storage.begin + storage.size,
                          storage.numbers);
  std::vector<std::byte> out(entry.size);
  for (std::size_t at = 0; at < out.size(); at += part)
    promise(numbers.read(MutableBytes(out).subspan(at, std::min(part, out.size() - at)))
                .has_value(),
            "numbers that were counted are read", manifest.name(entry));
  return std::string(text_of(out));
}

// --- The other parser
// -----------------------------------------------------------------

constexpr std::int32_t kString = 8;  // whose other fields nobody reads

struct Told {
  std::uint64_t elements = 1;
  std::int32_t type = 0;
  std::string data;  // of the fields that hold some
};

template <typename Number>
void append(std::string& out, Number number, std::size_t size) {
  for (std::size_t i = 0; i < size; ++i)
    out += static_cast<char>(static_cast<std::uint64_t>(number) >> (8 * i));
}

// How many bytes of a number are an element's; 0 for six bits, which are not compared.
std::size_t width_of(std::int32_t type) {
  switch (type) {
    case 4:
    case 5:
    case 10:
    case 16:
      return 2;
    case 6:
    case 12:
      return 4;
    case 7:
    case 13:
      return 8;
    case 27:
    case 28:
      return 0;
    default:
      return 1;
  }
}

template <typename Packed, typename Single>
void append_all(protozero::pbf_reader& fields, std::string& out, std::size_t size,
                Packed packed, Single single) {
  if (fields.wire_type() != protozero::pbf_wire_type::length_delimited)
    return append(out, (fields.*single)(), size);
  for (const auto number : (fields.*packed)()) append(out, number, size);
}

Told told_of(protozero::pbf_reader fields, std::string& name) {
  using Reader = protozero::pbf_reader;
  Told told;
  for (Reader copy = fields; copy.next(2);) told.type = copy.get_int32();
  const std::size_t width = width_of(told.type);
  while (told.type == kString && fields.next(8)) name = fields.get_string();
  while (fields.next()) switch (fields.tag()) {
      case 1:
        if (fields.wire_type() == protozero::pbf_wire_type::varint) {
          told.elements *= static_cast<std::uint64_t>(fields.get_int64());
        } else {
          for (const auto dimension : fields.get_packed_int64())
            told.elements *= static_cast<std::uint64_t>(dimension);
        }
        break;
      case 8:
        name = fields.get_string();
        break;
      case 9:
        told.data += fields.get_string();
        break;
      case 4:
        append_all(fields, told.data, 4, &Reader::get_packed_fixed32,
                   &Reader::get_fixed32);
        break;
      case 10:
        append_all(fields, told.data, 8, &Reader::get_packed_fixed64,
                   &Reader::get_fixed64);
        break;
      case 5:
        append_all(fields, told.data, width, &Reader::get_packed_int32,
                   &Reader::get_int32);
        break;
      case 7:
        append_all(fields, told.data, width, &Reader::get_packed_int64,
                   &Reader::get_int64);
        break;
      case 11:
        append_all(fields, told.data, width, &Reader::get_packed_uint64,
                   &Reader::get_uint64);
        break;
      default:
        fields.skip();
    }
  return told;
}

std::map<std::string, Told, std::less<>> told_by_protozero(Bytes file) {
  std::map<std::string, Told, std::less<>> all;
  const std::string_view text = text_of(file);
  protozero::pbf_reader model(text.data(), text.size());
  while (model.next(7)) {
    protozero::pbf_reader graph = model.get_message();
    while (graph.next(5)) {
      std::string name;
      Told told = told_of(graph.get_message(), name);
      all.emplace(std::move(name), std::move(told));
    }
  }
  return all;
}

// Six bits to a number, and what lies elsewhere, are not compared.
void promise_as_told(Bytes file, const Manifest& manifest) {
  const auto all = told_by_protozero(file);
  std::map<std::string_view, const Manifest::Entry*> entries;
  for (const Manifest::Entry& entry : manifest.entries())
    entries.emplace(manifest.name(entry), &entry);
  for (const auto& [name, told] : all) {
    if (told.type == kString) continue;
    const auto found = entries.find(name);
    promise(found != entries.end(), "no initializer is lost", name);
    const Manifest::Entry& entry = *found->second;
    std::uint64_t elements = 1;
    for (const std::uint64_t dimension : manifest.shape(entry)) elements *= dimension;
    promise(elements == told.elements, "an initializer's shape is told", name);
    const bool is_elsewhere =
        entry.storage != Manifest::kAsItIs && manifest.storages[entry.storage].file > 0;
    if (is_elsewhere || (width_of(told.type) == 0 && told.data.size() != entry.size))
      continue;
    promise_equal(data_of(file, manifest, entry, 1 << 16), told.data,
                  "an initializer's values are those that another parser reads");
  }
}

// --- The manifest
// ---------------------------------------------------------------------

void promise_entry(Bytes file, const Manifest& manifest, const Manifest::Entry& entry) {
  const auto name = manifest.name(entry);
  const Implied implied =
      implied_bytes(*dtype_info(entry.dtype), manifest.shape(entry));
  promise(implied.rule == Rule::none && implied.bytes == entry.size,
          "data has the size that type and shape imply", name);
  promise(is_utf8(name) && name.find('\0') == name.npos && name.size() <= 65'535,
          "names can be written", name);
  if (entry.storage != Manifest::kAsItIs)
    if (const ElementStorage& storage = manifest.storages[entry.storage];
        storage.file > 0) {
      promise(storage.file <= manifest.files.size(), "a file has a name", name);
      return;
    }
  // A number takes a byte at least.
  promise(entry.size / 8 <= file.size(), "data are in the file", name);
  promise(data_of(file, manifest, entry, 1 << 16) == data_of(file, manifest, entry, 7),
          "parts of any size are the same data", name);
}

void promise_files(Manifest& manifest) {
  for (const std::string& file : manifest.files) {
    const std::string path = "/" + file + "/";
    promise(!file.starts_with('/') && path.find("/../") == path.npos &&
                file.find('\0') == file.npos && !file.empty(),
            "files lie in the model's folder", file);
  }
  const std::vector<std::uint64_t> sizes(manifest.files.size(), 16);
  const auto status = check_other_files(manifest, sizes);
  if (!status) failure(status.error());
}

}  // namespace

void run_onnx(Bytes input) {
  const Block block(input);
  const Bytes file = block.bytes();
  const Block first(file.first(std::min(file.size(), kSniffBytes)));
  const auto content = sniff(first.bytes(), file.size());
  if (!content) failure(content.error());
  auto manifest = read_onnx(input_over(file));
  if (!manifest) {
    failure(manifest.error());
    return;
  }
  std::vector<TensorSpec> specs;
  for (const Manifest::Entry& entry : manifest->entries()) {
    promise_entry(file, *manifest, entry);
    specs.push_back({.name = manifest->name(entry),
                     .dtype = entry.dtype,
                     .shape = manifest->shape(entry)});
  }
  const auto plan = Plan::make(specs);
  promise(plan.has_value(), "what the reader accepts can be written",
          plan ? "" : failure(plan.error()));
  if (manifest->metadata) {
    const auto metadata = Metadata::parse(*manifest->metadata);
    promise(metadata.has_value(), "metadata of a model is metadata of ours",
            metadata ? "" : failure(metadata.error()));
    promise_equal(metadata->text(), *manifest->metadata, "metadata is canonical");
  }
  promise_as_told(file, *manifest);
  promise_files(*manifest);
}

}  // namespace weig::fuzz
