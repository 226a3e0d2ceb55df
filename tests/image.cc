// SPDX-License-Identifier: Apache-2.0
#include "image.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdexcept>

#include "convert/source_section.h"
#include "core/byteswap.h"
#include "core/claim.h"
#include "core/digest.h"
#include "core/index.h"
#include "core/layout.h"
#include "core/record.h"
#include "core/text.h"
#include "core/try.h"
#include "formats/safetensors_header.h"

namespace weig::test {
namespace {

std::vector<TensorSpec> specs_of(const std::vector<ImageTensor>& tensors) {
  std::vector<TensorSpec> specs;
  for (const ImageTensor& tensor : tensors)
    specs.push_back({.name = tensor.name,
                     .dtype = tensor.dtype,
                     .shape = tensor.shape,
                     .shares = tensor.shares});
  return specs;
}

// Bytes that differ from tensor to tensor; sub-byte types' spare bits stay zero.
void fill(std::span<std::byte> bytes, std::uint64_t seed) {
  for (std::size_t i = 0; i < bytes.size(); ++i)
    bytes[i] = static_cast<std::byte>(seed * 37 + i + 1);
}

void put_u32(std::vector<std::byte>& out, std::uint32_t value) {
  out.resize(out.size() + 4);
  store(out.data() + out.size() - 4, value);
}
void put_u64(std::vector<std::byte>& out, std::uint64_t value) {
  out.resize(out.size() + 8);
  store(out.data() + out.size() - 8, value);
}

}  // namespace

Image Image::sealed(const std::vector<ImageTensor>& tensors,
                    std::vector<SectionBytes> sections) {
  const auto specs = specs_of(tensors);
  const Plan plan = Plan::make(specs).value();
  Front front = build_front(specs, plan, sections).value();
  Image image;
  image.bytes.resize(front.file_size);
  std::vector<Digest> digests(plan.size());
  for (std::uint32_t i = 0; i < plan.size(); ++i) {
    const auto data =
        std::span(image.bytes)
            .subspan(front.data_offset + plan.offset(i), plan.byte_count(i));
    if (!plan.is_alias(i)) fill(data, plan.order()[i]);
    digests[i] = xxh3_128(data);
  }
  const auto trailer = seal(front, digests);
  std::ranges::copy(front.bytes, image.bytes.begin());
  std::ranges::copy(trailer, image.bytes.end() - sizeof(disk::Trailer));
  return image;
}

Image Image::for_loading() {
  return sealed({{"a.0.w", Dtype::f32, {3 << 20}},
                 {"a.1.w", Dtype::f32, {3 << 20}},
                 {"b", Dtype::u8, {12345}}});
}

Image Image::minimal(const std::vector<ImageTensor>& tensors, ByteOrder order,
                     std::uint64_t alignment) {
  Image image;
  auto& out = image.bytes;
  out.resize(sizeof(disk::Header) + tensors.size() * sizeof(disk::TensorMeta));
  std::vector<disk::TensorMeta> metas(tensors.size());
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    metas[i].name_offset = out.size();
    const auto name = to_bytes(tensors[i].name);
    out.insert(out.end(), name.begin(), name.end());
    out.push_back(std::byte{0});
  }
  out.resize(align_up(out.size(), 8));
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    metas[i].shape_offset = out.size();
    for (const std::uint64_t dimension : tensors[i].shape) put_u64(out, dimension);
  }
  out.resize(align_up(out.size(), alignment));
  const std::uint64_t data_offset = out.size();
  const bool swap = order == ByteOrder::big;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    out.resize(align_up(out.size(), alignment));
    const DtypeInfo* info = dtype_info(tensors[i].dtype);
    metas[i].data_offset = out.size();
    metas[i].data_size = info ? implied_bytes(*info, tensors[i].shape).bytes : 0;
    out.resize(out.size() + metas[i].data_size);
    const auto data = std::span(out).subspan(metas[i].data_offset);
    fill(data, i);
    if (swap) swap_in_place(data, info->swap_unit);
  }
  const auto u64 = [&](std::uint64_t at, std::uint64_t value) {
    image.set(at, swap ? byteswapped(value) : value);
  };
  const auto u32 = [&](std::uint64_t at, std::uint32_t value) {
    image.set(at, swap ? byteswapped(value) : value);
  };
  u32(0, disk::kMagic);
  u32(4, disk::kVersion);
  u64(8, tensors.size());
  u64(16, sizeof(disk::Header));
  u64(24, data_offset);
  u64(32, out.size());
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const std::uint64_t at = sizeof(disk::Header) + i * sizeof(disk::TensorMeta);
    u64(at, metas[i].name_offset);
    u32(at + 8, static_cast<std::uint32_t>(tensors[i].dtype));
    u64(at + 16, metas[i].shape_offset);
    u64(at + 24, tensors[i].shape.size());
    u64(at + 32, metas[i].data_offset);
    u64(at + 40, metas[i].data_size);
    for (std::size_t d = 0; swap && d < tensors[i].shape.size(); ++d)
      u64(metas[i].shape_offset + 8 * d, tensors[i].shape[d]);
  }
  return image;
}

Image Image::overlapping_names(std::uint64_t count, ByteOrder order) {
  std::vector<ImageTensor> tensors(count, {"", Dtype::u8, {0}});
  tensors[0].name = std::string(disk::kMaxNameBytes, 'x');
  Image image = minimal(tensors, order);
  const std::uint64_t longest = sizeof(disk::Header) + count * sizeof(disk::TensorMeta);
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::uint64_t name = longest + i;
    image.set(sizeof(disk::Header) + i * sizeof(disk::TensorMeta),
              order == ByteOrder::big ? byteswapped(name) : name);
  }
  return image;
}

Image Image::sealed_overlapping_names(std::uint32_t count) {
  // The plan puts the longest, of zeros alone, last: it owns the bytes of the others.
  std::vector<ImageTensor> tensors = {
      {std::string(disk::kMaxNameBytes, 'x'), Dtype::u8, {0}}};
  for (std::uint32_t i = 1; i < count; ++i)
    tensors.push_back({"n" + std::to_string(i), Dtype::u8, {0}});
  Image image = sealed(tensors);
  const auto* const text = reinterpret_cast<const char*>(image.bytes.data());
  const std::uint64_t longest =
      std::string_view(text, image.size()).find(tensors[0].name);
  std::vector<std::string_view> names;
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::uint64_t name = longest + (i + 1) % count;
    image.set(image.record(i), name);
    names.emplace_back(text + name);
  }
  const auto index = build_index(names).value();
  std::ranges::copy(
      index, image.bytes.begin() + static_cast<std::ptrdiff_t>(image.section_offset(
                                       disk::SectionKind::name_index)));
  image.reseal();
  return image;
}

namespace {

const std::vector<ImageTensor> kBasicTensors = {
    {"model.layers.10.mlp.weight", Dtype::bf16, {4, 8}},
    {"model.layers.2.mlp.weight", Dtype::bf16, {4, 8}},
    {"model.layers.2.mlp.bias", Dtype::f32, {4}},
    {"model.embed.weight", Dtype::f16, {8, 4}},
    {"empty", Dtype::f32, {0, 4}},
    {"scale", Dtype::f64, {}},
    {"mask", Dtype::boolean, {3}},
    {"packed", Dtype::f4_e2m1, {2, 6}},
    {"blocks", Dtype::q8_0, {2, 32}},
    {"\xE5\xB1\x82.0.\xCE\xB2", Dtype::i64, {2}},
};
constexpr std::string_view kBasicMetadata =
    R"({"format":"pt","note":"a \"quoted\" \\ line\nend","steps":{"type":"u32","value":7}})";

std::vector<ImageTensor> basic_tensors() {
  std::vector<ImageTensor> tensors = kBasicTensors;
  tensors[3].shares = 0;  // tied weights
  tensors.push_back({"lm_head.weight", Dtype::f16, {8, 4}, 0});
  tensors.push_back({"lm_head.flat", Dtype::u16, {32}, 0});
  return tensors;
}

}  // namespace

Image Image::basic() {
  const auto metadata = to_bytes(kBasicMetadata);
  return sealed(basic_tensors(), {{disk::SectionKind::metadata, metadata}});
}

namespace {

// Every tensor that has one named NAME.scale is told to be quantised by it, and by
// NAME.zero where that is there: along axis 0, or whole if there is one scale.
std::vector<std::byte> quantizations(const std::vector<ImageTensor>& tensors,
                                     const Plan& plan) {
  const auto ordinal = [&](const std::string& name) {
    for (std::uint32_t i = 0; i < plan.size(); ++i)
      if (tensors[plan.order()[i]].name == name) return i;
    return disk::kNone;
  };
  std::vector<std::byte> entries;
  std::uint32_t count = 0;
  for (std::uint32_t i = 0; i < plan.size(); ++i) {
    const std::string& name = tensors[plan.order()[i]].name;
    const std::uint32_t scale = ordinal(name + ".scale");
    if (scale == disk::kNone) continue;
    const bool whole = tensors[plan.order()[scale]].shape[0] == 1;
    const std::uint32_t axis = whole ? disk::kNone : 0;
    const std::uint32_t block = 0;
    for (const std::uint32_t field :
         {i, 1U, axis, block, scale, ordinal(name + ".zero"), disk::kNone, 0U})
      put_u32(entries, field);
    ++count;
  }
  std::vector<std::byte> section;
  put_u32(section, count);
  put_u32(section, 0);
  section.insert(section.end(), entries.begin(), entries.end());
  return section;
}

// Of tensors that safetensors knows, with all seven kinds of section.
Image with_all_sections(const std::vector<ImageTensor>& tensors) {
  const auto specs = specs_of(tensors);
  const Plan plan = Plan::make(specs).value();
  const std::string_view metadata = R"({"format":"pt"})";
  SafetensorsHeader header(metadata);
  std::uint64_t data = 0;
  for (std::uint32_t i = 0; i < plan.size(); ++i) {
    const TensorSpec& spec = specs[plan.order()[i]];
    header.add(spec.name, spec.dtype, spec.shape, plan.byte_count(i));
    data += plan.byte_count(i);
  }
  const std::string text = header.finish();
  const std::vector<std::uint32_t> order(plan.order().begin(), plan.order().end());

  std::vector<std::byte> shard;
  put_u64(shard, 0x1122334455667788);
  put_u64(shard, 0x99AABBCCDDEEFF00);
  put_u32(shard, 0);
  put_u32(shard, 2);
  put_u64(shard, tensors.size() + 4);

  return Image::sealed(
      tensors,
      {{disk::SectionKind::metadata, to_bytes(metadata)},
       {disk::SectionKind::source,
        make_source_section(text, text.size() + data, order, specs, plan, metadata)},
       {disk::SectionKind::quantization, quantizations(tensors, plan)},
       {disk::SectionKind::shard, shard}});
}

}  // namespace

Image Image::all_sections() {
  return with_all_sections({{"blk.0.q", Dtype::i8, {4, 8}},
                            {"blk.0.q.scale", Dtype::f32, {4}},
                            {"blk.0.q.zero", Dtype::i8, {4}},
                            {"blk.1.q", Dtype::i8, {4, 8}},
                            {"blk.1.q.scale", Dtype::f32, {1}}});
}

Image Image::small_model() {
  std::vector<ImageTensor> tensors = {
      {"embed", Dtype::f16, {8, 4}},      {"empty", Dtype::f32, {0, 4}},
      {"head", Dtype::bf16, {4, 4}},      {"mask", Dtype::boolean, {3}},
      {"packed", Dtype::f4_e2m1, {2, 6}}, {"positions", Dtype::i64, {2}},
      {"rope", Dtype::complex64, {2}},    {"step", Dtype::f64, {}},
  };
  for (const std::string layer : {"blk.0", "blk.1", "blk.2", "blk.10"}) {
    tensors.push_back({layer + ".norm", Dtype::f32, {4}});
    tensors.push_back({layer + ".q", Dtype::i8, {4, 8}});
    tensors.push_back({layer + ".q.scale", Dtype::f32, {4}});
    tensors.push_back({layer + ".q.zero", Dtype::i8, {4}});
  }
  return with_all_sections(tensors);
}

std::uint64_t Image::record(std::uint64_t ordinal) const {
  return header(16) + ordinal * sizeof(disk::TensorMeta);
}

std::uint64_t Image::section_entry(disk::SectionKind kind) const {
  for (std::uint64_t i = 0; i < header(56); ++i) {
    const std::uint64_t at = header(48) + i * sizeof(disk::SectionEntry);
    if (get<std::uint32_t>(at) == static_cast<std::uint32_t>(kind)) return at;
  }
  throw std::logic_error("the image has no such section");
}

std::uint64_t Image::section_offset(disk::SectionKind kind) const {
  return header(section_entry(kind) + 8);
}
std::uint64_t Image::section_size(disk::SectionKind kind) const {
  return header(section_entry(kind) + 16);
}

void Image::reseal() {
  const std::uint64_t core_end = header(48) + header(56) * sizeof(disk::SectionEntry);
  if (core_end > size()) return;
  for (std::uint64_t at = header(48); at < core_end; at += sizeof(disk::SectionEntry))
    if (fits(header(at + 8), header(at + 16), size()))
      set(at + 24, xxh3_64(Bytes(bytes).subspan(header(at + 8), header(at + 16))));
  const Digest id = xxh3_128(Bytes(bytes).first(core_end));
  set(trailer() + 16, id.low);
  set(trailer() + 24, id.high);
  set(trailer() + 56, trailer_check(bytes, Bytes(bytes).subspan(trailer())));
}

std::vector<std::byte> to_bytes(std::string_view text) {
  const Bytes bytes = bytes_of(text);
  return {bytes.begin(), bytes.end()};
}

Result<std::string> describe(const View& view, ByteOrder elements) {
  std::string out;
  const auto digest = [&](const Tensor& tensor) {
    const DtypeInfo* info = dtype_info(tensor.dtype());
    if (elements == ByteOrder::little || !info) return to_hex(xxh3_128(tensor.bytes()));
    std::vector<std::byte> bytes(tensor.bytes().begin(), tensor.bytes().end());
    swap_in_place(bytes, info->swap_unit);
    return to_hex(xxh3_128(bytes));
  };
  for (std::uint64_t i = 0; i < view.size(); ++i) {
    WEIG_TRY_ASSIGN(tensor, view[i]);
    out += in_quotes(tensor.name()) + " " + std::string(dtype_name(tensor.dtype()));
    for (const std::uint64_t dimension : tensor.shape())
      out += " " + std::to_string(dimension);
    out += " : " + digest(tensor) + "\n";
    WEIG_TRY_ASSIGN(found, view.find(tensor.name()));
    if (!found || found->ordinal() != i) out += "not found by its name\n";
  }
  WEIG_TRY_ASSIGN(groups, view.groups());
  for (std::uint32_t i = 0; i < groups.size(); ++i)
    out += "group " + in_quotes(groups[i].name) + " " +
           std::to_string(groups[i].first) + " " + std::to_string(groups[i].count) +
           "\n";
  WEIG_TRY_ASSIGN(metadata, view.metadata_text());
  out += metadata ? "metadata " + std::string(*metadata) + "\n" : "no metadata\n";
  return out;
}

Folder::Folder() {
  std::string name =
      (std::filesystem::temp_directory_path() / "weig-test-XXXXXX").string();
  if (!::mkdtemp(name.data())) throw std::runtime_error("cannot make a folder");
  root_ = name;
}
Folder::~Folder() {
  std::error_code ignored;
  std::filesystem::remove_all(root_, ignored);
}
std::string Folder::path(std::string_view name) const {
  return root_ + "/" + std::string(name);
}
std::vector<std::string> Folder::names() const {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(root_))
    names.push_back(entry.path().filename().string());
  std::ranges::sort(names);
  return names;
}

void write_file(const std::string& path, std::span<const std::byte> bytes) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(reinterpret_cast<const char*>(bytes.data()),
             static_cast<std::streamsize>(bytes.size()));
  if (!file.flush()) throw std::runtime_error("cannot write " + path);
}

std::vector<std::byte> read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("cannot read " + path);
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  return to_bytes(text);
}

std::vector<std::byte> safetensors(std::string_view header,
                                   std::span<const std::byte> data) {
  std::vector<std::byte> out;
  put_u64(out, header.size());
  const auto text = to_bytes(header);
  out.insert(out.end(), text.begin(), text.end());
  out.insert(out.end(), data.begin(), data.end());
  return out;
}

}  // namespace weig::test
