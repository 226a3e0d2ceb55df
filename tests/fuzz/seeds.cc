// SPDX-License-Identifier: Apache-2.0
#include "seeds.h"

#include <weig/metadata.h>

#include <functional>
#include <set>
#include <string>

#include "check.h"
#include "fields.h"
#include "formats/big_endian.h"
#include "formats/gguf.h"
#include "formats/onnx.h"
#include "formats/safetensors.h"
#include "formats/sniff.h"
#include "gguf_image.h"
#include "image.h"
#include "mutate.h"
#include "protobuf_message.h"

namespace weig::fuzz {
namespace {

using test::Image;
using test::ImageTensor;

constexpr std::size_t kMaxSeed = 16'384;

// What a reader says of an input: "" for a sound one.
using Reader = std::function<std::string(Bytes)>;

// Keeps the first input for each answer.
class Collector {
 public:
  explicit Collector(Reader reader) : reader_(std::move(reader)) {}
  // Whatever it is like.
  void add(Input input) {
    said_.insert(reader_(input));
    inputs.push_back(std::move(input));
  }
  void try_out(const Input& input) {
    if (input.size() <= kMaxSeed && said_.insert(reader_(input)).second)
      inputs.push_back(input);
  }
  std::vector<Input> inputs;

 private:
  Reader reader_;
  std::set<std::string> said_;
};

std::string say(const Status& status) { return status ? "" : guard(status.error()); }

// The first refusal of a WEIG file: at open, or of a section.
std::string answer_of_view(Bytes file) {
  const auto view = View::open(file, {.unsealed = Unsealed::accept});
  if (!view) return guard(view.error());
  return say(view->check_sections());
}

std::string answer_of_big_endian(Bytes file) {
  const auto manifest =
      read_big_endian(file, file.size(), {.unsealed = Unsealed::accept});
  return manifest ? "" : guard(manifest.error());
}

std::string answer_of_safetensors(Bytes file) {
  std::string out;
  const auto content =
      sniff(file.first(std::min(file.size(), kSniffBytes)), file.size());
  if (!content) out = guard(content.error());
  for (const auto strictness : {Strictness::strict, Strictness::lenient}) {
    const SafetensorsOptions options{.strictness = strictness,
                                     .max_header_bytes = 1 << 20};
    const auto length = safetensors_json_bytes(file, file.size(), options);
    if (!length) return out + guard(length.error());
    Input padded(file.begin() + 8,
                 file.begin() + 8 + static_cast<std::ptrdiff_t>(*length));
    padded.resize(*length + kJsonPadding);
    const auto manifest = read_safetensors(padded, *length, file.size(), options);
    out += manifest ? "+" : guard(manifest.error());
  }
  return out;
}

weig::Input input_over(Bytes file) {
  return {.size = file.size(), .read = [file](std::uint64_t offset, MutableBytes out) {
            std::ranges::copy(file.subspan(offset, out.size()), out.begin());
            return Status();
          }};
}

std::string answer_of_onnx(Bytes file) {
  const auto manifest = read_onnx(input_over(file));
  return manifest ? "" : guard(manifest.error());
}

std::string answer_of_gguf(Bytes file) {
  const weig::Input input = input_over(file);
  std::string out;
  for (const auto strictness : {Strictness::strict, Strictness::lenient}) {
    const auto header =
        read_gguf(input, {.strictness = strictness, .max_header_bytes = 1 << 20});
    out += header ? "+" : guard(header.error());
  }
  return out;
}

std::string answer_of_metadata(Bytes text) {
  const auto metadata = Metadata::parse(text_of(text));
  return metadata ? "" : guard(metadata.error());
}

// Every field with every edge, digests made right again.
void bend_fields(Collector& seeds, const Input& base) {
  const std::vector<std::uint64_t> edges = edges_of(base);
  for (const Field field : fields_of(base))
    for (const std::uint64_t edge : edges)
      for (const bool index : {false, true}) {
        Input bent = base;
        set(bent, field, edge);
        repair(bent, {.ends = false, .index = index});
        seeds.try_out(bent);
      }
}

// Every field changed as damage does, and files cut and grown.
void damage(Collector& seeds, const Input& base) {
  for (const Field field : fields_of(base)) {
    Input damaged = base;
    set(damaged, field, get(base, field) ^ 1);
    seeds.try_out(damaged);
  }
  for (const std::size_t size : {std::size_t{0}, std::size_t{3}, std::size_t{63},
                                 std::size_t{100}, base.size() - 1, base.size() + 1}) {
    Input cut = base;
    cut.resize(size);
    seeds.try_out(cut);
    repair(cut, {});
    seeds.try_out(cut);
  }
}

// Two fields, one with the value of the other: equal names, equal places.
void copy_fields(Collector& seeds, const Input& base) {
  const std::vector<Field> fields = fields_of(base);
  for (const Field to : fields)
    for (const Field from : fields) {
      if (to.width != 8 || from.width != 8) continue;
      Input bent = base;
      set(bent, to, get(base, from));
      repair(bent, {.ends = false, .index = true});
      seeds.try_out(bent);
    }
}

std::vector<ImageTensor> few_tensors() {
  return {{"w", Dtype::f32, {2, 3}}, {"b", Dtype::i16, {3}}, {"s", Dtype::f64, {}}};
}

Input unknown_type() {
  Image image = Image::sealed({{"a", Dtype::u8, {100}}, {"b", Dtype::f32, {2}}});
  image.set<std::uint32_t>(image.record(0) + 8, 0x80000001);
  image.reseal();
  return std::move(image.bytes);
}

// Names by the hundred: the index's probes collide, a queue of the check fills.
Input many_tensors() {
  std::vector<ImageTensor> tensors;
  for (int i = 0; i < 100; ++i)
    tensors.push_back({"h." + std::to_string(i) + ".w", Dtype::u8, {1}});
  return Image::sealed(tensors).bytes;
}

Input shared_minimal(ByteOrder order) {
  Image image = Image::minimal(
      {{"z", Dtype::f32, {4}}, {"a", Dtype::f32, {4}}, {"m", Dtype::i32, {4}}}, order);
  const Field first{sizeof(disk::Header) + 32, 8};
  const Field second{first.at + sizeof(disk::TensorMeta), 8};
  const Field third{second.at + sizeof(disk::TensorMeta), 8};
  const std::uint64_t place = get(image.bytes, first);
  set(image.bytes, first, get(image.bytes, second));
  set(image.bytes, second, place);
  set(image.bytes, third, place);
  return std::move(image.bytes);
}

Input file_of(std::string_view json, std::size_t data_bytes) {
  Input data(data_bytes);
  for (std::size_t i = 0; i < data.size(); ++i) data[i] = static_cast<std::byte>(i + 1);
  return test::safetensors(json, data);
}

constexpr std::string_view kHeader =
    R"({"__metadata__":{"format":"pt","k":"\n\u0001"},)"
    R"("w":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]},)"
    R"("h.0.b":{"dtype":"F4","shape":[4],"data_offsets":[16,18]},)"
    R"("e":{"dtype":"U8","shape":[0],"data_offsets":[18,18]},)"
    R"("s":{"dtype":"I16","shape":[],"data_offsets":[18,20]}})";

// Tensors of all ranks, and values of all kinds.
Input gguf_file(ByteOrder order) {
  test::GgufImage image;
  image.order = order;
  const auto key = [&](std::string_view name, std::uint32_t type) {
    return std::move(image.bytes_in_order().string(name).u32(type));
  };
  image.keys = {key("general.alignment", 4).u32(8).out,
                key("general.name", 8).string("n\"\xC3\xA9").out,
                key("bytes", 8).string("\xFF").out,
                key("i", 11).u64(UINT64_MAX).out,
                key("f", 6).u32(0x3DCCCCCD).out,
                key("d", 12).u64(0x7FF0000000000000).out,
                key("yes", 7).u8(1).out,
                key("words", 9).u32(8).u64(2).string("a").string("b").out,
                key("deep", 9).u32(9).u64(1).u32(0).u64(2).u8(1).u8(2).out,
                key("split.no", 2).u16(0).out,
                key("split.count", 2).u16(1).out,
                key("split.tensors.count", 5).u32(4).out};
  image.alignment = 8;
  image.tensors = {{.name = "t", .dims = {3, 2}},
                   {.name = "u", .dims = {4}, .type = 1, .offset = 24},
                   {.name = "e", .dims = {0, 2}, .type = 24, .offset = 32},
                   {.name = "s", .dims = {}, .type = 28, .offset = 32}};
  image.data = std::string(40, 't');
  return image.bytes();
}

Input gguf_blocks() {
  test::GgufImage image;
  image.tensors = {{.name = "q", .dims = {32}, .type = 8},
                   {.name = "k", .dims = {256, 1}, .type = 12, .offset = 64}};
  image.data = std::string(34, 'q') + std::string(30, '\0') + std::string(144, 'k');
  return image.bytes();
}

constexpr std::string_view kMetadata =
    R"({"a":"text","b":{"type":"u32","value":7},"c":{"type":"array","of":"f32",)"
    R"("value":[1.5,"nan"]},"d":{"hex":"ff00"},"e":{"type":"json","value":)"
    R"({"x":[true,null,{"y":"z"}]}}})";

constexpr std::string_view kIndex =
    R"({"metadata":{"total_size":5},"weight_map":{"t0":"a.safetensors",)"
    R"("t1":"b.safetensors","t2":"c/d.safetensors"}})";

// Every kind of data, of node and of graph; data in other files apart.
test::Message onnx_of_all_kinds() {
  using test::Message, test::onnx_tensor, test::onnx_bytes, test::onnx_node;
  const Message value = Message().text(1, "value").message(5, onnx_bytes(""));
  Message graph;
  graph.message(5, onnx_tensor("f", 1, {1, 2}).text(4, "12345678"));
  graph.message(5, onnx_tensor("g", 1, {2}).float32(4, 1).float32(4, 2));
  graph.message(5, onnx_tensor("d", 11, {1}).text(10, "12345678"));
  graph.message(5, onnx_tensor("i", 5, {3}).text(5, "12").number(5, UINT64_MAX));
  graph.message(5, onnx_tensor("l", 7, {2}).text(7, "12"));
  graph.message(5, onnx_tensor("u", 13, {2}).text(11, "12"));
  graph.message(5, onnx_tensor("six", 27, {3}).text(5, "123"));
  graph.message(5, onnx_tensor("four", 22, {3}).text(5, "12"));
  graph.message(5, onnx_tensor("s", 8, {1}).text(6, "x"));
  graph.message(5, onnx_tensor("e", 1, {0, 2}));
  graph.message(5, onnx_bytes("w"));
  graph.message(1, onnx_node("Constant", "c", value));
  graph.message(
      1, onnx_node("Constant", "k", Message().text(1, "value_floats").float32(7, 1)));
  graph.message(
      1, onnx_node("Constant", "n", Message().text(1, "value_int").number(3, 5)));
  const Message inner = Message().message(5, onnx_bytes("w"));
  graph.message(1, onnx_node("If", "y", Message().text(1, "then").message(6, inner)));
  graph.message(1, onnx_node("X", "z", Message().text(1, "all").message(11, inner)));
  Message model = test::onnx_model(graph).number(5, 3).text(4, "d");
  model.message(14, test::onnx_pair("k", "v")).message(20, Message());
  model.message(25, Message().text(1, "f").text(10, "d").message(
                        7, onnx_node("Constant", "c", value)));
  return model;
}

// What people take for weights.
constexpr std::string_view kLookalikes[] = {
    "version https://git-lfs.github.com/spec/v1\noid sha256:0\n",
    " version https://git-lfs",
    "\x1F\x8B\x08 gzip of something",
    "PK\x03\x04 zip of something",
    "GGUF\x03 and so on, and on",
    "<!DOCTYPE html><html></html>",
    "\xEF\xBB\xBF <?xml version='1.0'?>",
    "{\"error\":\"not found\"}",
    "[1,2,3,4,5,6,7,8,9]",
    "something else that is long enough",
    "short",
};

// Each token of a text in turn left out, doubled, and replaced by each value.
template <typename Use>
void bend_tokens(std::string_view text, Use use) {
  const std::vector<std::string_view> tokens = tokens_of(text);
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const auto at = static_cast<std::size_t>(tokens[i].data() - text.data());
    const std::string before(text.substr(0, at));
    const std::string after(text.substr(at + tokens[i].size()));
    use(before + std::string(tokens[i]) + std::string(tokens[i]) + after);
    for (const std::string_view value : token_values()) {
      use(before + std::string(value) + after);
      use(before + std::string(value) + std::string(tokens[i]) + after);
    }
  }
}

}  // namespace

std::vector<Input> weig_seeds() {
  Collector seeds(answer_of_view);
  const std::vector<Input> bases = {Image::all_sections().bytes, Image::basic().bytes,
                                    Image::minimal(few_tensors()).bytes};
  for (const Input& base : bases) seeds.add(base);
  seeds.add(Image::sealed({}).bytes);
  seeds.add(unknown_type());
  seeds.add(many_tensors());
  seeds.add(shared_minimal(ByteOrder::little));
  seeds.add(Image::minimal(few_tensors(), ByteOrder::little, 1).bytes);
  seeds.add(Image::sealed({{"a", Dtype::u8, {1}}},
                          {{static_cast<disk::SectionKind>(0x80000001),
                            test::to_bytes("private bytes")}})
                .bytes);
  for (const Input& base : bases) {
    bend_fields(seeds, base);
    damage(seeds, base);
  }
  copy_fields(seeds, bases[2]);
  return std::move(seeds.inputs);
}

std::vector<Input> safetensors_seeds() {
  Collector seeds(answer_of_safetensors);
  seeds.add(file_of(kHeader, 20));
  seeds.add(file_of("{}", 0));
  for (const std::string_view text : kLookalikes) {
    const Bytes bytes = bytes_of(text);
    seeds.add(Input(bytes.begin(), bytes.end()));
  }
  seeds.add(Input(100));
  seeds.try_out(file_of(kHeader, 19));
  seeds.try_out(file_of(kHeader, 21));
  bend_tokens(kHeader, [&](const std::string& json) {
    seeds.try_out(file_of(json, 20));
    Input fitting = file_of(json, 20);
    repair_safetensors(fitting, kMaxSeed);
    seeds.try_out(fitting);
  });
  for (const std::uint64_t length : {0, 1, 2, 1 << 21}) {
    Input file = file_of(kHeader, 20);
    store(file.data(), length);
    seeds.try_out(file);
  }
  return std::move(seeds.inputs);
}

std::vector<Input> gguf_seeds() {
  Collector seeds(answer_of_gguf);
  const std::vector<Input> bases = {gguf_file(ByteOrder::little), gguf_blocks(),
                                    gguf_file(ByteOrder::big)};
  for (const Input& base : bases) seeds.add(base);
  seeds.add(test::GgufImage{}.bytes());
  Input joined = bases[1];
  joined.resize(align_up(joined.size(), 32));
  joined.insert(joined.end(), bases[0].begin(), bases[0].end());
  seeds.try_out(joined);
  for (const Input& base : {bases[0], bases[1]})
    for (std::size_t at = 0; at < base.size(); ++at) {
      Input cut(base.begin(), base.begin() + static_cast<std::ptrdiff_t>(at));
      seeds.try_out(cut);
      for (const std::uint64_t edge :
           {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{2}, std::uint64_t{5},
            std::uint64_t{9}, std::uint64_t{13}, std::uint64_t{31}, std::uint64_t{33},
            std::uint64_t{64}, std::uint64_t{0xFF}, std::uint64_t{1} << 40, UINT64_MAX})
        for (const std::size_t width :
             {std::size_t{1}, std::size_t{4}, std::size_t{8}}) {
          if (!fits(at, width, base.size())) continue;
          Input bent = base;
          for (std::size_t i = 0; i < width; ++i)
            bent[at + i] = static_cast<std::byte>(edge >> (8 * i));
          seeds.try_out(bent);
        }
    }
  return std::move(seeds.inputs);
}

std::vector<Input> big_endian_seeds() {
  Collector seeds(answer_of_big_endian);
  const Input base = Image::minimal(few_tensors(), ByteOrder::big).bytes;
  seeds.add(base);
  seeds.add(Image::minimal({}, ByteOrder::big).bytes);
  seeds.add(Image::minimal({{"c", Dtype::complex128, {2}}, {"p", Dtype::f4_e2m1, {3}}},
                           ByteOrder::big, 1)
                .bytes);
  seeds.add(shared_minimal(ByteOrder::big));
  bend_fields(seeds, base);
  bend_fields(seeds, shared_minimal(ByteOrder::big));
  copy_fields(seeds, base);
  damage(seeds, base);
  return std::move(seeds.inputs);
}

std::vector<Input> metadata_seeds() {
  Collector seeds(answer_of_metadata);
  const auto bytes = [](std::string_view text) { return test::to_bytes(text); };
  seeds.add(bytes(kMetadata));
  seeds.add(bytes("{}"));
  std::string many = "{";
  for (int i = 0; i < 20; ++i) many += "\"k" + std::to_string(i) + "\":\"v\",";
  seeds.add(bytes(many + "\"k\":\"v\"}"));
  bend_tokens(kMetadata, [&](const std::string& text) { seeds.try_out(bytes(text)); });
  return std::move(seeds.inputs);
}

std::vector<Input> onnx_seeds() {
  using test::Message, test::onnx_tensor, test::onnx_bytes;
  const Message model = onnx_of_all_kinds();
  Message elsewhere = onnx_tensor("x", 2, {4}).number(14, 1);
  for (const char* key : {"location", "offset", "length", "checksum"})
    elsewhere.message(13, test::onnx_pair(key, key[0] == 'o'   ? "8"
                                               : key[2] == 'n' ? "4"
                                                               : "a/b"));
  const Message sparse =
      Message().message(15, Message().message(1, onnx_bytes("values")));
  Collector seeds(answer_of_onnx);
  for (const Message& base :
       {model, test::onnx_model_of(elsewhere), test::onnx_model(sparse), Message()}) {
    const Input input = test::to_bytes(base.bytes);
    seeds.add(input);
    if (base.bytes.empty()) continue;
    for (const Input& bent : bent_messages(input)) seeds.try_out(bent);
  }
  return std::move(seeds.inputs);
}

std::vector<Input> plan_seeds() {
  std::vector<Input> seeds;
  Random random(7);
  for (std::size_t i = 0; i < 24; ++i) {
    Input input(16 * (1 + random.below(20)));
    for (std::byte& b : input)
      b = static_cast<std::byte>(random.next() >> random.below(8));
    seeds.push_back(std::move(input));
  }
  return seeds;
}

std::vector<Input> index_seeds() {
  // What it says of them needs the shards: all are kept, and few are made.
  std::vector<Input> seeds = {test::to_bytes(kIndex), test::to_bytes("{}")};
  for (const std::string_view shard :
       {"a.safetensors", "./b.safetensors", "../outside.safetensors", "/a.safetensors",
        "c/../a.safetensors", "c", "", "absent.safetensors", "a\\u0000",
        "c//d.safetensors"})
    seeds.push_back(
        test::to_bytes(R"({"weight_map":{"t0":")" + std::string(shard) + "\"}}"));
  return seeds;
}

std::vector<Input> roundtrip_seeds() {
  // Sound ones of all kinds: refusals are the readers' own, and files cost time.
  std::vector<Input> seeds = {
      file_of(kHeader, 20),
      file_of("{}", 0),
      file_of(R"({"a":{"dtype":"F4","shape":[2],"data_offsets":[0,1]},)"
              R"("b":{"dtype":"F4","shape":[2],"data_offsets":[0,1]}})",
              3),
      Image::basic().bytes,
      Image::sealed({}).bytes,
      Image::minimal(few_tensors()).bytes,
      Image::minimal(few_tensors(), ByteOrder::big).bytes,
      shared_minimal(ByteOrder::little),
      shared_minimal(ByteOrder::big),
      test::to_bytes(onnx_of_all_kinds().bytes),
      gguf_file(ByteOrder::little),
      gguf_file(ByteOrder::big),
      gguf_blocks(),
  };
  Image unsharded = Image::all_sections();
  unsharded.set<std::uint32_t>(unsharded.section_offset(disk::SectionKind::shard) + 20,
                               1);
  unsharded.reseal();
  seeds.push_back(std::move(unsharded.bytes));
  return seeds;
}

}  // namespace weig::fuzz
