// SPDX-License-Identifier: Apache-2.0
// Reading ONNX models: one row for each refusal of docs/onnx.md.
#include "formats/onnx.h"

#include <gtest/gtest.h>

#include <algorithm>

#include <weig/metadata.h>

#include "formats/onnx_mark.h"
#include "formats/protobuf_numbers.h"
#include "image.h"
#include "protobuf_message.h"

namespace weig::test {
namespace {

using std::string_literals::operator""s;

constexpr std::uint64_t kFloat = 1, kUint8 = 2, kInt8 = 3, kInt16 = 5, kInt32 = 6,
                        kInt64 = 7, kString = 8, kBool = 9, kFloat16 = 10, kDouble = 11,
                        kUint32 = 12, kUint64 = 13, kComplex64 = 14, kComplex128 = 15,
                        kInt4 = 22, kFloat6 = 27;

Input input_of(const std::string& bytes) {
  return {.size = bytes.size(),
          .read = [&bytes](std::uint64_t offset, MutableBytes out) {
            std::ranges::copy(bytes_of(bytes).subspan(offset, out.size()), out.begin());
            return Status();
          }};
}

Result<Manifest> read(const Message& model) { return read_onnx(input_of(model.bytes)); }

// The bytes of a tensor as convert() reads them.
Result<std::string> data_of(const Message& model, const Manifest& manifest,
                            const Manifest::Entry& entry) {
  if (entry.storage == Manifest::kAsItIs)
    return model.bytes.substr(entry.begin, entry.size);
  const ElementStorage& storage = manifest.storages[entry.storage];
  EXPECT_EQ(storage.bytes, entry.size);
  std::vector<std::byte> out(entry.size);
  const Input input = input_of(model.bytes);
  ProtobufNumbers numbers(input, storage.begin, storage.begin + storage.size,
                          storage.numbers);
  // In parts that end inside elements.
  for (std::size_t at = 0; at < out.size(); at += 5)
    if (auto status = numbers.read(
            MutableBytes(out).subspan(at, std::min<std::size_t>(5, out.size() - at)));
        !status)
      return std::move(status).error();
  return std::string(text_of(out));
}

// Of a model with one tensor.
std::string data_of(const Message& model) {
  const Manifest manifest = read(model).value();
  EXPECT_EQ(manifest.entries().size(), 1u);
  return data_of(model, manifest, manifest.entries()[0]).value();
}

std::vector<std::string> names_of(const Manifest& manifest) {
  std::vector<std::string> names;
  for (const auto& entry : manifest.entries()) names.emplace_back(manifest.name(entry));
  return names;
}

template <typename... Numbers>
std::string varints(Numbers... numbers) {
  return (Message::varint(static_cast<std::uint64_t>(numbers)) + ...);
}

// --- What is accepted
// -----------------------------------------------------------------

TEST(Onnx, reads_a_model) {
  Message model = onnx_model(
      Message()
          .text(2, "the graph")
          .message(1, onnx_node(
                          "Constant", "c",
                          Message().text(1, "value").message(5, onnx_bytes("ignored"))))
          .message(5, onnx_tensor("w", kFloat, {2, 3}).text(9, std::string(24, 'w')))
          .message(5, onnx_tensor("empty", kInt64, {0, 7}))
          .message(5, onnx_tensor("scalar", kBool, {}).text(9, "\1")));
  model.message(14, onnx_pair("author", "me")).message(14, onnx_pair("raw", "\xFF"));
  const Manifest manifest = read(model).value();
  EXPECT_EQ(names_of(manifest),
            (std::vector<std::string>{"c", "w", "empty", "scalar"}));
  const auto entries = manifest.entries();
  EXPECT_EQ(entries[1].dtype, Dtype::f32);
  EXPECT_EQ(manifest.shape(entries[1])[1], 3u);
  EXPECT_EQ(data_of(model, manifest, entries[1]).value(), std::string(24, 'w'));
  EXPECT_EQ(entries[2].size, 0u);
  EXPECT_EQ(manifest.shape(entries[2])[1], 7u);
  EXPECT_EQ(entries[3].rank, 0u);
  EXPECT_FALSE(manifest.covers_file);
  EXPECT_EQ(*manifest.metadata,
            R"({"onnx.ir_version":"8","onnx.producer_name":"weig",)"
            R"("onnx.opset.ai.onnx":"17","onnx.metadata.author":"me",)"
            R"("onnx.metadata.raw":{"hex":"ff"}})");
  EXPECT_EQ(Metadata::parse(*manifest.metadata)->text(), *manifest.metadata);
  EXPECT_EQ(manifest.skipped, std::vector<std::string>{"1 node of the graph"});
}

// C34
TEST(Onnx, numbers_and_raw_bytes_say_the_same) {
  struct Row {
    std::uint64_t type;
    std::uint64_t elements;
    std::uint32_t field;
    std::string packed;
    std::string raw;
  };
  const Row rows[] = {
      {kFloat, 2, 4, "\0\0\x80\x3F\0\0\0\xC0"s, "\0\0\x80\x3F\0\0\0\xC0"s},
      {kUint8, 3, 5, varints(0, 127, 255), "\0\x7F\xFF"s},
      {kInt8, 3, 5, varints(-128, -1, 127), "\x80\xFF\x7F"},
      {kInt16, 2, 5, varints(-2, 32767), "\xFE\xFF\xFF\x7F"},
      {kInt32, 2, 5, varints(-3, 1 << 20), "\xFD\xFF\xFF\xFF\0\0\x10\0"s},
      {kInt32, 1, 5, varints(0xFFFFFFFDu), "\xFD\xFF\xFF\xFF"},
      {kInt64, 2, 7, varints(-1, 1ull << 40),
       std::string(8, '\xFF') + "\0\0\0\0\0\1\0\0"s},
      {kBool, 3, 5, varints(1, 0, 1), "\1\0\1"s},
      {kFloat16, 2, 5, varints(0x3C00, 0xBC00), "\0\x3C\0\xBC"s},
      {16, 2, 5, varints(0x3F80, -128), "\x80\x3F\x80\xFF"},
      {17, 2, 5, varints(0x38, 0xB8), "\x38\xB8"},
      {kDouble, 1, 10, "\0\0\0\0\0\0\xF0\x3F"s, "\0\0\0\0\0\0\xF0\x3F"s},
      {kUint32, 2, 11, varints(0xFFFFFFFFu, 1), "\xFF\xFF\xFF\xFF\1\0\0\0"s},
      {kUint64, 1, 11, varints(UINT64_MAX), std::string(8, '\xFF')},
      {kComplex64, 1, 4, "\0\0\x80\x3F\0\0\0\xC0"s, "\0\0\x80\x3F\0\0\0\xC0"s},
      {kComplex128, 1, 10, std::string(16, 'c'), std::string(16, 'c')},
      {kInt4, 4, 5, varints(0x21, -13), "\x21\xF3"},
      {kInt4, 3, 5, varints(0x21, 0x0F), "\x21\x0F"},
      {25, 5, 5, varints(0xE4, 3), "\xE4\3"},
      {kFloat6, 4, 5, varints(1, 2, 3, 63), "\x81\x30\xFC"},
      {kFloat6, 5, 5, varints(1, 2, 3, 63, 33), "\x81\x30\xFC\x21"},
  };
  for (const Row& row : rows) {
    const auto tensor = [&] { return onnx_tensor("t", row.type, {row.elements}); };
    EXPECT_EQ(data_of(onnx_model_of(tensor().text(9, row.raw))), row.raw) << row.type;
    EXPECT_EQ(data_of(onnx_model_of(tensor().text(row.field, row.packed))), row.raw)
        << row.type;
  }
}

// Repeated fields may be split in any way, with other fields between them.
TEST(Onnx, numbers_may_be_split_in_any_way) {
  Message ints = Message().number(1, 6).number(2, kInt16);
  ints.number(5, 1).text(5, varints(2, -1)).text(8, "t").text(5, "").number(5, 300);
  ints.text(12, "about").text(5, varints(4, 5));
  EXPECT_EQ(data_of(onnx_model_of(ints)), "\1\0\2\0\xFF\xFF\x2C\1\4\0\5\0"s);
  Message floats = onnx_tensor("t", kFloat, {3});
  floats.float32(4, 1).text(4, "\0\0\0\x40"s).float32(4, -1);
  EXPECT_EQ(data_of(onnx_model_of(floats)), "\0\0\x80\x3F\0\0\0\x40\0\0\x80\xBF"s);
  Message one = onnx_tensor("t", kDouble, {}).float64(10, 2);
  EXPECT_EQ(data_of(onnx_model_of(one)), "\0\0\0\0\0\0\0\x40"s);
  const Message dims =
      Message().text(1, varints(2, 2)).number(2, kUint8).text(9, "abcd");
  EXPECT_EQ(
      read(onnx_model_of(dims))->shape(read(onnx_model_of(dims))->entries()[0]).size(),
      2u);
}

// Larger than a block of reading, so that numbers lie across its end.
TEST(Onnx, many_numbers_are_read_in_blocks) {
  std::string packed;
  std::string raw;
  for (std::uint64_t i = 0; i < 200'000; ++i) {
    const std::uint64_t value = i * 0x9E3779B97F4A7C15;
    packed += Message::varint(value >> (i % 64));
    raw += Message::little(value >> (i % 64));
  }
  EXPECT_EQ(
      data_of(onnx_model_of(onnx_tensor("t", kUint64, {200'000}).text(11, packed))),
      raw);
}

// C32: with their names behind what they hold as well.
TEST(Onnx, constants_of_all_kinds) {
  const auto attribute = [](std::string_view name) { return Message().text(1, name); };
  const auto node = [](const Message& value, std::string_view output) {
    return Message().message(5, value).text(4, "Constant").text(2, output);
  };
  Message graph;
  graph.message(1,
                node(Message().message(5, onnx_bytes("")).text(1, "value"), "tensor"));
  graph.message(1, node(attribute("value_float").float32(2, 1), "float"));
  graph.message(1, node(attribute("value_int").number(3, UINT64_MAX), "int"));
  graph.message(1,
                node(attribute("value_floats").float32(7, 1).float32(7, 2), "floats"));
  graph.message(1, node(attribute("value_ints").number(8, 1).number(8, 2), "ints"));
  graph.message(1, node(attribute("value_ints"), "none"));
  graph.message(1, node(attribute("value_string").text(4, "x"), "string"));
  graph.message(1, node(attribute("value").text(21, "of_a_function"), "reference"));
  graph.message(1, onnx_node("Identity", "other",
                             attribute("value").message(5, onnx_bytes("no constant"))));
  graph.message(1,
                node(Message().message(5, onnx_bytes("")).text(1, "value"), "foreign")
                    .text(7, "com.example"));
  const Message model = onnx_model(graph);
  const Manifest manifest = read(model).value();
  EXPECT_EQ(names_of(manifest), (std::vector<std::string>{"tensor", "float", "int",
                                                          "floats", "ints", "none"}));
  const auto data = [&](std::size_t i) {
    return data_of(model, manifest, manifest.entries()[i]).value();
  };
  EXPECT_EQ(data(1), "\0\0\x80\x3F"s);
  EXPECT_EQ(manifest.entries()[1].rank, 0u);
  EXPECT_EQ(data(2), std::string(8, '\xFF'));
  EXPECT_EQ(data(3), "\0\0\x80\x3F\0\0\0\x40"s);
  EXPECT_EQ(data(4), "\1\0\0\0\0\0\0\0\2\0\0\0\0\0\0\0"s);
  EXPECT_EQ(manifest.shape(manifest.entries()[5])[0], 0u);
  EXPECT_EQ(manifest.skipped,
            (std::vector<std::string>{
                "the strings 'string'", "10 nodes of the graph",
                "2 tensors in attributes of nodes that are no Constant"}));
}

Message constant(std::string_view output) {
  return onnx_node("Constant", output,
                   Message().text(1, "value").message(5, onnx_bytes("")));
}

TEST(Onnx, graphs_in_graphs_and_functions_have_names_of_their_own) {
  const Message inner = Message().message(5, onnx_bytes("w")).message(1, constant("c"));
  Message branches = onnx_node("If", "y", Message().message(6, inner).text(1, "then"));
  branches.message(5, Message().text(1, "else").message(6, inner));
  Message many =
      Message()
          .text(4, "Custom")
          .message(5, Message().text(1, "cases").message(11, inner).message(11, inner));
  const Message outer =
      onnx_node("Loop", "z",
                Message().text(1, "body").message(6, Message().message(1, branches)));
  Message model = onnx_model(
      Message().message(5, onnx_bytes("w")).message(1, outer).message(1, many));
  model.message(25, Message().text(1, "f").message(7, constant("c")).text(10, "d"));
  model.message(
      25, Message().text(1, "f").message(7, constant("c")).text(10, "d").text(13, "o"));
  EXPECT_EQ(names_of(read(model).value()),
            (std::vector<std::string>{"w", "z/body/y/then/w", "z/body/y/then/c",
                                      "z/body/y/else/w", "z/body/y/else/c",
                                      "#1/cases#0/w", "#1/cases#0/c", "#1/cases#1/w",
                                      "#1/cases#1/c", "d::f/c", "d::f::o/c"}));
}

TEST(Onnx, unknown_fields_are_passed_over) {
  Message tensor = onnx_bytes("w");
  tensor.number(999, 1).text(1000, "more").float32(77, 1).float64(78, 1);
  Message model = onnx_model_of(tensor);
  model.text(26, "devices").number(0x1FFFFFFF, 7).message(20, Message());
  const Manifest manifest = read(model).value();
  EXPECT_EQ(manifest.entries().size(), 1u);
  EXPECT_EQ(manifest.skipped, std::vector<std::string>{"1 graph for training"});
}

TEST(Onnx, strings_are_left_behind_and_named) {
  Message graph;
  for (int i = 0; i < 25; ++i)
    graph.message(5, onnx_tensor("s" + std::to_string(i), kString, {1}).text(6, "x"));
  const Manifest manifest = read(onnx_model(graph)).value();
  EXPECT_TRUE(manifest.entries().empty());
  ASSERT_EQ(manifest.skipped.size(), 21u);
  EXPECT_EQ(manifest.skipped[0], "the strings 's0'");
  EXPECT_EQ(manifest.skipped[20], "strings of 5 more tensors");
  ASSERT_EQ(manifest.warnings.size(), 1u);
  EXPECT_NE(manifest.warnings[0].find("no tensors"), std::string::npos);
}

// --- Data in other files
// --------------------------------------------------------------

Message external(std::string_view name, std::string_view location,
                 std::string_view offset = "", std::string_view length = "") {
  Message tensor = onnx_tensor(name, kUint8, {4}).number(14, 1);
  tensor.message(13, onnx_pair("location", location));
  if (!offset.empty()) tensor.message(13, onnx_pair("offset", offset));
  if (!length.empty()) tensor.message(13, onnx_pair("length", length));
  return tensor;
}

// C35
TEST(Onnx, data_in_other_files) {
  Message graph;
  graph.message(5, external("a", "./sub//w.bin", "4", "4"));
  graph.message(5, external("b", "sub/w.bin", "8"));
  graph.message(5, external("c", "sub/w.bin", "", "4"));
  graph.message(5, external("d", "sub/w.bin", "4", "4"));
  graph.message(
      5,
      external("e", "v.bin").message(13, onnx_pair("checksum", std::string(40, '0'))));
  Manifest manifest = read(onnx_model(graph)).value();
  EXPECT_EQ(manifest.files, (std::vector<std::string>{"sub/w.bin", "v.bin"}));
  const auto storage = [&](std::size_t i) {
    return manifest.storages[manifest.entries()[i].storage];
  };
  EXPECT_EQ(storage(0).file, 1u);
  EXPECT_EQ(storage(0).begin, 4u);
  EXPECT_EQ(storage(4).file, 2u);
  const std::uint64_t sizes[] = {12, 4};
  ASSERT_TRUE(check_other_files(manifest, sizes));
  const auto entries = manifest.entries();
  EXPECT_NE(entries[0].shares, TensorSpec::kOwn);
  EXPECT_EQ(entries[0].shares, entries[3].shares);
  EXPECT_EQ(entries[1].shares, TensorSpec::kOwn);
  EXPECT_EQ(entries[2].shares, TensorSpec::kOwn);
  ASSERT_EQ(manifest.warnings.size(), 1u);
  EXPECT_NE(manifest.warnings[0].find("SHA-1"), std::string::npos);
}

struct BadPlace {
  const char* name;
  std::vector<Message> tensors;
  std::uint64_t file_size;
  const char* says;
};

const std::vector<BadPlace>& bad_places() {
  static const std::vector<BadPlace> all = {
      {"external_behind_the_end",
       {external("t", "w", "5", "4")},
       8,
       "outside the file"},
      {"external_offset_of_64_bits",
       {external("t", "w", "18446744073709551615", "4")},
       8,
       "outside the file"},
      {"external_more_to_the_end", {external("t", "w", "3")}, 8, "and that is more"},
      {"external_less_to_the_end", {external("t", "w", "5")}, 8, "outside the file"},
      {"external_overlap",
       {external("s", "w", "0", "4"), external("t", "w", "2", "4")},
       8,
       "overlaps that of tensor 's'"},
      {"external_longer_at_the_same_place",
       {onnx_tensor("s", kUint8, {2})
            .number(14, 1)
            .message(13, onnx_pair("location", "w"))
            .message(13, onnx_pair("length", "2")),
        external("t", "w", "0", "4")},
       8,
       "overlaps that of tensor 's'"},
  };
  return all;
}

class OnnxPlace : public testing::TestWithParam<BadPlace> {};

TEST_P(OnnxPlace, is_refused) {
  const BadPlace& bad = GetParam();
  Message graph;
  for (const Message& tensor : bad.tensors) graph.message(5, tensor);
  Manifest manifest = read(onnx_model(graph)).value();
  const auto status = check_other_files(manifest, {&bad.file_size, 1});
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code(), Code::corrupt);
  const std::string message = status.error().message();
  EXPECT_NE(message.find(bad.says), std::string::npos) << message;
  EXPECT_NE(message.find("tensor 't'"), std::string::npos) << message;
}

INSTANTIATE_TEST_SUITE_P(Places, OnnxPlace, testing::ValuesIn(bad_places()),
                         [](const auto& row) { return std::string(row.param.name); });

// --- What is refused
// ------------------------------------------------------------------

struct Bad {
  const char* name;
  Message model;
  Code code;
  const char* says;
  const char* tensor = nullptr;  // that the message names
};

// A model of a tensor `t` with this one field more.
Message with(Message (*change)(Message)) {
  return onnx_model_of(change(onnx_tensor("t", kUint8, {4})));
}

Message attribute_of(const Message& attribute) {
  return onnx_model(Message().message(1, onnx_node("Constant", "t", attribute)));
}

Message attribute_of_if(const Message& attribute) {
  return onnx_model(Message().message(1, onnx_node("If", "t", attribute)));
}

Message deep(int depth) {
  Message graph = Message().message(5, onnx_bytes("w"));
  for (int i = 0; i < depth; ++i)
    graph = Message().message(
        1, onnx_node("If", "o", Message().text(1, "a").message(6, graph)));
  return onnx_model(graph);
}

// Graphs in graphs whose names together are too long for a tensor.
Message long_names() {
  const std::string half(40'000, 'n');
  Message graph = Message().message(5, onnx_bytes("w"));
  for (int i = 0; i < 2; ++i)
    graph = Message().message(
        1, onnx_node("If", half, Message().text(1, "a").message(6, graph)));
  return onnx_model(graph);
}

Message nested_name_too_long() {
  const std::string half(40'000, 'n');
  return onnx_model(
      Message().message(1, onnx_node("If", half,
                                     Message().text(1, "a").message(
                                         6, Message().message(5, onnx_bytes(half))))));
}

// A thousand times a graph's name of 60,000 bytes and more.
Message names_beyond_the_file() {
  Message graph;
  for (int i = 0; i < 1500; ++i)
    graph.message(5, onnx_tensor(std::to_string(i), 2, {0}));
  return onnx_model(
      Message().message(1, onnx_node("If", std::string(60'000, 'n'),
                                     Message().text(1, "a").message(6, graph))));
}

const std::vector<Bad>& bad_models() {
  static const std::vector<Bad> all = {
      // The wire format.
      {"no_model", Message(), Code::corrupt, "no graph"},
      {"no_graph", Message().number(1, 8).text(2, "weig"), Code::corrupt, "no graph"},
      {"tag_without_end", onnx_model({}).raw("\x88"), Code::corrupt, "a field's tag"},
      {"tag_of_80_bits", onnx_model({}).raw(std::string(10, '\xFF')), Code::corrupt,
       "a field's tag"},
      {"field_0", onnx_model({}).raw("\0\0"s), Code::corrupt, "that no message has"},
      {"field_of_30_bits", onnx_model({}).number(1 << 29, 0), Code::corrupt,
       "that no message has"},
      {"group", onnx_model({}).tag(30, 3), Code::corrupt, "wire type 3"},
      {"wire_type_6", onnx_model({}).tag(30, 6), Code::corrupt, "wire type 6"},
      {"number_without_end", onnx_model({}).tag(30, 0).raw("\xFF"), Code::corrupt,
       "a number does not end"},
      {"number_of_65_bits",
       onnx_model({}).tag(30, 0).raw(std::string(9, '\xFF') + "\2"), Code::corrupt,
       "longer than 64 bits"},
      {"bytes_behind_the_end", onnx_model({}).tag(30, 2).raw("\2x"), Code::corrupt,
       "ends behind the message"},
      {"length_that_wraps", onnx_model({}).tag(30, 2).raw(Message::varint(UINT64_MAX)),
       Code::corrupt, "ends behind the message"},
      {"cut_fixed32", onnx_model({}).tag(30, 5).raw("123"), Code::corrupt,
       "ends behind the message"},
      {"cut_fixed64", onnx_model({}).tag(30, 1).raw("1234567"), Code::corrupt,
       "ends behind the message"},
      // The model.
      {"graph_twice", onnx_model({}).message(7, {}), Code::corrupt, "a graph twice"},
      {"graph_is_a_number", Message().number(1, 8).number(7, 1), Code::corrupt,
       "the model's graph is of another type"},
      {"ir_version_is_text", Message().text(1, "8").message(7, {}), Code::corrupt,
       "ir_version is of another type"},
      {"ir_version_twice", onnx_model({}).number(1, 8), Code::corrupt, "a key twice"},
      {"model_domain_is_a_number", onnx_model({}).number(4, 1), Code::corrupt,
       "domain is of another type"},
      {"version_is_text", onnx_model({}).text(5, "1"), Code::corrupt,
       "model_version is of another type"},
      {"producer_is_a_number", onnx_model({}).number(3, 1), Code::corrupt,
       "producer_version is of another type"},
      {"producer_twice", onnx_model({}).text(2, "again"), Code::corrupt, "a key twice"},
      {"opset_is_a_number", onnx_model({}).number(8, 1), Code::corrupt,
       "opset_import is of another type"},
      {"opset_version_is_text", onnx_model({}).message(8, Message().text(2, "x")),
       Code::corrupt, "an opset's version is of another type"},
      {"opset_twice", onnx_model({}).message(8, Message().number(2, 1)), Code::corrupt,
       "a key twice"},
      {"metadata_is_a_number", onnx_model({}).number(14, 1), Code::corrupt,
       "the model's metadata is of another type"},
      {"metadata_key_twice",
       onnx_model({}).message(14, onnx_pair("k", "1")).message(14, onnx_pair("k", "2")),
       Code::corrupt, "a key twice"},
      {"metadata_key_of_two",
       onnx_model({}).message(14, onnx_pair("k", "1").text(1, "j")), Code::corrupt,
       "a key or a value twice"},
      {"metadata_key_utf8", onnx_model({}).message(14, onnx_pair("\xFF", "")),
       Code::corrupt, "not UTF-8"},
      {"function_is_a_number", onnx_model({}).number(25, 1), Code::corrupt,
       "the model's function is of another type"},
      // Graphs, nodes, attributes.
      {"initializer_is_a_number", onnx_model(Message().number(5, 1)), Code::corrupt,
       "a graph's initializer is of another type"},
      {"node_is_a_number", onnx_model(Message().number(1, 1)), Code::corrupt,
       "a graph's node is of another type"},
      {"output_is_a_number", onnx_model(Message().message(1, Message().number(2, 1))),
       Code::corrupt, "a node's output is of another type"},
      {"op_type_is_a_number", onnx_model(Message().message(1, Message().number(4, 1))),
       Code::corrupt, "a node's op_type is of another type"},
      {"domain_is_a_number", onnx_model(Message().message(1, Message().number(7, 1))),
       Code::corrupt, "a node's domain is of another type"},
      {"attribute_is_a_number",
       onnx_model(Message().message(1, Message().number(5, 1))), Code::corrupt,
       "a node's attribute is of another type"},
      {"attribute_name_is_a_number", attribute_of(Message().number(1, 1)),
       Code::corrupt, "an attribute's name is of another type"},
      {"attribute_tensor_is_a_number", attribute_of(Message().number(5, 1)),
       Code::corrupt, "an attribute's tensor is of another type"},
      {"attribute_tensor_twice",
       attribute_of(Message().text(1, "value").message(5, {}).message(5, {})),
       Code::corrupt, "an attribute's tensor is there twice"},
      {"attribute_graph_twice", attribute_of(Message().message(6, {}).message(6, {})),
       Code::corrupt, "an attribute's graph is there twice"},
      {"attribute_graphs_are_a_number", attribute_of(Message().number(11, 1)),
       Code::corrupt, "an attribute's graph is of another type"},
      {"constant_without_value", attribute_of(Message().text(1, "value")),
       Code::corrupt, "no value", "t"},
      {"constant_without_float", attribute_of(Message().text(1, "value_float")),
       Code::corrupt, "no value", "t"},
      {"constant_of_two_numbers",
       attribute_of(Message().text(1, "value_int").number(3, 1).number(3, 2)),
       Code::corrupt, "2 numbers", "t"},
      {"constant_floats_of_another_wire_type",
       attribute_of(Message().text(1, "value_floats").number(7, 1)), Code::corrupt,
       "a number of the tensor's data is of another type", "t"},
      {"constant_ints_of_another_wire_type",
       attribute_of(Message().text(1, "value_ints").float32(8, 1)), Code::corrupt,
       "a number of the tensor's data is of another type", "t"},
      {"constant_of_a_broken_tensor",
       attribute_of(Message()
                        .text(1, "value")
                        .message(5, onnx_bytes("ignored").number(2, kUint8))),
       Code::corrupt, "its data_type twice", "t"},
      {"constant_without_data",
       attribute_of(
           Message().text(1, "value").message(5, onnx_tensor("", kUint8, {4}))),
       Code::corrupt, "no data", "t"},
      {"constant_number_with_nul",
       onnx_model(Message().message(
           1, onnx_node("Constant", "t\0"s,
                        Message().text(1, "value_float").float32(2, 1)))),
       Code::corrupt, "NUL"},
      {"constant_numbers_with_nul",
       onnx_model(Message().message(
           1, onnx_node("Constant", "t\0"s, Message().text(1, "value_ints")))),
       Code::corrupt, "NUL"},
      {"constant_string_with_nul",
       onnx_model(Message().message(
           1, onnx_node("Constant", "t\0"s,
                        Message().text(1, "value_string").text(4, "x")))),
       Code::corrupt, "NUL"},
      {"broken_in_one_of_many_graphs",
       attribute_of_if(Message().text(1, "a").message(
           11, Message().message(5, onnx_tensor("w", kUint8, {4})))),
       Code::corrupt, "no data", "t/a#0/w"},
      {"broken_in_a_function",
       onnx_model({}).message(
           25, Message().text(1, "f").message(
                   7, onnx_node("Constant", "c", Message().text(1, "value")))),
       Code::corrupt, "no value", "::f/c"},
      {"graphs_too_deep", deep(32), Code::limit, "nested too deep"},
      {"names_of_graphs_too_long", long_names(), Code::limit, "too long"},
      {"names_beyond_the_file", names_beyond_the_file(), Code::limit,
       "longer than the file"},
      {"nested_name_too_long", nested_name_too_long(), Code::corrupt,
       "the name is too long"},
      {"sparse_is_a_number", onnx_model(Message().number(15, 1)), Code::corrupt,
       "a graph's sparse_initializer is of another type"},
      {"sparse_initializer",
       onnx_model(Message().message(15, Message().message(1, onnx_bytes("t")))),
       Code::unsupported, "sparse", "t"},
      {"sparse_constant",
       attribute_of(Message().text(1, "sparse_value").message(22, Message())),
       Code::unsupported, "sparse", "t"},
      {"sparse_values_are_a_number",
       onnx_model(Message().message(15, Message().number(1, 1))), Code::corrupt,
       "a sparse tensor's values is of another type"},
      // Tensors.
      {"same_name",
       onnx_model(Message().message(5, onnx_bytes("t")).message(5, onnx_bytes("t"))),
       Code::corrupt, "same name", "t"},
      {"same_name_as_a_constant",
       onnx_model(Message().message(5, onnx_bytes("t")).message(1, constant("t"))),
       Code::corrupt, "same name", "t"},
      {"name_twice", with([](Message m) { return m.text(9, "abcd").text(8, "u"); }),
       Code::corrupt, "its name twice"},
      {"name_with_nul", onnx_model_of(onnx_bytes("t\0"s)), Code::corrupt, "NUL"},
      {"string_name_with_nul", onnx_model_of(onnx_tensor("t\0"s, kString, {})),
       Code::corrupt, "NUL"},
      {"name_utf8", onnx_model_of(onnx_bytes("\xFF")), Code::corrupt, "not UTF-8"},
      {"name_too_long", onnx_model_of(onnx_bytes(std::string(65'536, 'n'))),
       Code::limit, "a tensor's name is longer"},
      {"no_data_type", onnx_model_of(Message().text(8, "t")), Code::corrupt,
       "no data_type", "t"},
      {"unknown_data_type", onnx_model_of(onnx_tensor("t", 29, {})), Code::unsupported,
       "not known: found 29", "t"},
      {"data_type_twice", with([](Message m) { return m.number(2, kUint8); }),
       Code::corrupt, "its data_type twice", "t"},
      {"data_type_twice_without_name",
       onnx_model_of(Message().number(2, kUint8).number(2, kUint8)), Code::corrupt,
       "its data_type twice"},
      {"data_type_is_text", onnx_model_of(Message().text(2, "x").text(8, "t")),
       Code::corrupt, "data_type is of another type", "t"},
      {"rank_65",
       with([](Message m) { return m.text(1, std::string(64, '\1')).text(9, "abcd"); }),
       Code::corrupt, "too many dimensions", "t"},
      {"negative_dimension", onnx_model_of(onnx_tensor("t", kUint8, {UINT64_MAX})),
       Code::corrupt, "negative: found -1", "t"},
      {"dims_are_floats", with([](Message m) { return m.float32(1, 1); }),
       Code::corrupt, "dims is of another type", "t"},
      {"dims_without_end", with([](Message m) { return m.text(1, "\xFF"); }),
       Code::corrupt, "dims hold a number that does not end", "t"},
      {"product_overflow",
       onnx_model_of(onnx_tensor("t", kUint8, {1ull << 32, 1ull << 32})), Code::corrupt,
       "2^56", "t"},
      {"no_data", with([](Message m) { return m; }), Code::corrupt, "no data", "t"},
      {"raw_too_short", with([](Message m) { return m.text(9, "abc"); }), Code::corrupt,
       "found 3 bytes, expected 4", "t"},
      {"raw_too_long", with([](Message m) { return m.text(9, "abcde"); }),
       Code::corrupt, "found 5 bytes, expected 4", "t"},
      {"raw_twice", with([](Message m) { return m.text(9, "abcd").text(9, "abcd"); }),
       Code::corrupt, "its raw_data twice", "t"},
      {"raw_is_a_number", with([](Message m) { return m.number(9, 1); }), Code::corrupt,
       "raw_data is of another type", "t"},
      {"too_few_numbers", with([](Message m) { return m.text(5, "123"); }),
       Code::corrupt, "found 3 numbers, expected 4", "t"},
      {"too_many_numbers", with([](Message m) { return m.text(5, "12345"); }),
       Code::corrupt, "found 5 numbers, expected 4", "t"},
      {"too_few_floats", onnx_model_of(onnx_tensor("t", kFloat, {2}).text(4, "1234")),
       Code::corrupt, "found 1 numbers, expected 2", "t"},
      {"half_a_float", onnx_model_of(onnx_tensor("t", kFloat, {2}).text(4, "123456")),
       Code::corrupt, "no whole numbers", "t"},
      {"number_too_large",
       with([](Message m) { return m.text(5, varints(1, 2, 3, 256)); }), Code::corrupt,
       "does not fit its type: found 256", "t"},
      {"number_too_small",
       with([](Message m) { return m.text(5, varints(1, 2, 3, -129)); }), Code::corrupt,
       "does not fit its type: found -129", "t"},
      {"six_bits_too_large",
       onnx_model_of(onnx_tensor("t", kFloat6, {1}).number(5, 64)), Code::corrupt,
       "does not fit its type", "t"},
      {"six_bits_negative",
       onnx_model_of(onnx_tensor("t", kFloat6, {1}).number(5, UINT64_MAX)),
       Code::corrupt, "does not fit its type", "t"},
      {"packed_number_without_end",
       with([](Message m) { return m.text(5, "123\xFF"); }), Code::corrupt,
       "does not end", "t"},
      {"numbers_of_another_wire_type",
       with([](Message m) { return m.text(5, "123").float32(5, 1); }), Code::corrupt,
       "a number of the tensor's data is of another type", "t"},
      {"numbers_of_another_type", with([](Message m) { return m.float32(4, 1); }),
       Code::corrupt, "float_data of UINT8", "t"},
      {"strings_of_another_type", with([](Message m) { return m.text(6, "abcd"); }),
       Code::corrupt, "string_data of UINT8", "t"},
      {"raw_and_numbers",
       with([](Message m) { return m.text(9, "abcd").text(5, "abcd"); }), Code::corrupt,
       "raw and as numbers", "t"},
      {"segment", with([](Message m) { return m.text(9, "abcd").message(3, {}); }),
       Code::unsupported, "segment", "t"},
      {"unknown_data_location", with([](Message m) { return m.number(14, 2); }),
       Code::unsupported, "data_location is not known", "t"},
      {"data_location_twice",
       with([](Message m) { return m.number(14, 0).number(14, 0); }), Code::corrupt,
       "its data_location twice", "t"},
      {"data_location_is_text", with([](Message m) { return m.text(14, "0"); }),
       Code::corrupt, "data_location is of another type", "t"},
      // Data in other files.
      {"external_and_raw", onnx_model_of(external("t", "w").text(9, "abcd")),
       Code::corrupt, "in the model and in another file", "t"},
      {"external_and_floats", onnx_model_of(external("t", "w").float32(4, 1)),
       Code::corrupt, "in the model and in another file", "t"},
      {"external_and_ints", onnx_model_of(external("t", "w").text(5, "abcd")),
       Code::corrupt, "in the model and in another file", "t"},
      {"external_and_longs", onnx_model_of(external("t", "w").text(7, "abcd")),
       Code::corrupt, "in the model and in another file", "t"},
      {"external_and_doubles", onnx_model_of(external("t", "w").float64(10, 1)),
       Code::corrupt, "in the model and in another file", "t"},
      {"external_and_unsigned", onnx_model_of(external("t", "w").text(11, "abcd")),
       Code::corrupt, "in the model and in another file", "t"},
      {"external_and_strings", onnx_model_of(external("t", "w").text(6, "abcd")),
       Code::corrupt, "in the model and in another file", "t"},
      {"external_without_location", with([](Message m) { return m.number(14, 1); }),
       Code::corrupt, "does not name", "t"},
      {"external_is_a_number", with([](Message m) { return m.number(13, 1); }),
       Code::corrupt, "external_data is of another type", "t"},
      {"external_location_twice",
       onnx_model_of(external("t", "w").message(13, onnx_pair("location", "v"))),
       Code::corrupt, "a key twice", "t"},
      {"external_offset_twice",
       onnx_model_of(external("t", "w", "0").message(13, onnx_pair("offset", "0"))),
       Code::corrupt, "a key twice", "t"},
      {"external_unknown_key",
       onnx_model_of(external("t", "w").message(13, onnx_pair("basepath", "/etc"))),
       Code::unsupported, "'basepath'", "t"},
      {"external_long_location", onnx_model_of(external("t", std::string(4097, 'w'))),
       Code::limit, "external_data is longer", "t"},
      {"external_nowhere", onnx_model_of(external("t", "")), Code::corrupt,
       "without a name", "t"},
      {"external_nul", onnx_model_of(external("t", "w\0.bin"s)), Code::corrupt, "NUL",
       "t"},
      {"external_in_memory",
       onnx_model_of(external("t", "*/_ORT_MEM_ADDR_/*", "139637976727552", "4")),
       Code::corrupt, "memory of another process", "t"},
      {"external_absolute", onnx_model_of(external("t", "/etc/passwd")), Code::corrupt,
       "absolute path", "t"},
      {"external_outside", onnx_model_of(external("t", "../w")), Code::corrupt,
       "outside the model's folder", "t"},
      {"external_out_and_back", onnx_model_of(external("t", "sub/../w")), Code::corrupt,
       "outside the model's folder", "t"},
      {"external_folder", onnx_model_of(external("t", "./.")), Code::corrupt,
       "that is the model's folder", "t"},
      {"external_negative_offset", onnx_model_of(external("t", "w", "-4", "4")),
       Code::corrupt, "no whole number as its offset: found '-4'", "t"},
      {"external_offset_of_65_bits",
       onnx_model_of(external("t", "w", "18446744073709551616")), Code::corrupt,
       "no whole number", "t"},
      {"external_offset_with_space", onnx_model_of(external("t", "w", " 4")),
       Code::corrupt, "no whole number", "t"},
      {"external_length_differs", onnx_model_of(external("t", "w", "0", "5")),
       Code::corrupt, "found 5 bytes, expected 4", "t"},
      {"external_length_is_text", onnx_model_of(external("t", "w", "0", "4x")),
       Code::corrupt, "no whole number as its length", "t"},
  };
  return all;
}

class OnnxRefuses : public testing::TestWithParam<Bad> {};

TEST_P(OnnxRefuses, it) {
  const Bad& bad = GetParam();
  const auto manifest = read(bad.model);
  ASSERT_FALSE(manifest);
  const std::string message = manifest.error().message();
  EXPECT_EQ(manifest.error().code(), bad.code) << message;
  EXPECT_NE(message.find(bad.says), std::string::npos) << message;
  if (bad.tensor) {
    EXPECT_EQ(manifest.error().fields().tensor, bad.tensor) << message;
  }
}

INSTANTIATE_TEST_SUITE_P(Models, OnnxRefuses, testing::ValuesIn(bad_models()),
                         [](const auto& row) { return std::string(row.param.name); });

// The same guards as in the rows, seen from elsewhere.
TEST(Onnx, lengths_end_in_their_message) {
  EXPECT_FALSE(read(onnx_model({}).tag(30, 2).raw("\x80")));
  EXPECT_FALSE(read(
      onnx_model(Message().message(5, Message().tag(9, 2).raw("\4"))).raw("1234")));
}

// Who reads a file that was changed after its numbers were counted.
TEST(OnnxRow, numbers_end_early) {
  const std::string bytes = Message().text(5, "abc").bytes;
  const Input input = input_of(bytes);
  ProtobufNumbers numbers(input, 0, bytes.size(), {5, WireType::varint, 8});
  std::vector<std::byte> out(4);
  const auto status = numbers.read(out);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code(), Code::corrupt);
  EXPECT_NE(status.error().message().find("end before the tensor does"),
            std::string::npos);
}

TEST(OnnxRow, metadata_too_long) {
  const std::string half(std::size_t{32} << 20, 'v');
  Message model = onnx_model({});
  model.message(14, onnx_pair("a", half)).message(14, onnx_pair("b", half));
  const auto manifest = read(model);
  ASSERT_FALSE(manifest);
  EXPECT_EQ(manifest.error().code(), Code::limit);
  EXPECT_NE(manifest.error().message().find("larger than allowed"), std::string::npos);
}

TEST(Onnx, graphs_may_be_nested_as_deep_as_told) { EXPECT_TRUE(read(deep(31))); }

TEST(Onnx, a_cut_file_is_refused_wherever_it_is_cut) {
  const Message whole = onnx_model_of(onnx_bytes("w"));
  for (std::size_t size = 0; size < whole.bytes.size() - 6; ++size) {
    const std::string cut = whole.bytes.substr(0, size);
    const auto manifest = read_onnx(input_of(cut));
    EXPECT_FALSE(manifest) << size;
  }
}

// --- The mark
// -------------------------------------------------------------------------

bool looks(const std::string& bytes, std::uint64_t file_size) {
  return looks_like_onnx(bytes_of(bytes), file_size);
}

TEST(OnnxMark, is_how_a_model_begins) {
  const std::string model = onnx_model_of(onnx_bytes("w")).bytes;
  EXPECT_TRUE(looks(model, model.size()));
  const std::string bare =
      Message().number(1, 3).message(7, Message().text(2, "g")).bytes;
  EXPECT_TRUE(looks(bare, bare.size()));
  EXPECT_FALSE(looks(bare, bare.size() - 1)) << "cut, and says nothing of itself";
  // What is said before the graph may be longer than what is looked at.
  Message wordy = Message().number(1, 8).text(6, std::string(5000, 'd')).message(7, {});
  EXPECT_TRUE(looks(wordy.bytes.substr(0, 512), wordy.bytes.size()));
  EXPECT_FALSE(looks(wordy.bytes.substr(0, 512), 1000));
  // Cut within the graph, or where it begins.
  EXPECT_TRUE(looks(model.substr(0, 20), 20));
  EXPECT_TRUE(looks(model.substr(0, 9), 9));
}

TEST(OnnxMark, is_nothing_else) {
  for (const std::string& bytes :
       {""s, "\x08"s, "\x08\x08"s, std::string(512, '\0'), std::string(512, '\x08'),
        "\x08 text after a backspace, which nobody writes"s,
        // A TensorProto, and models of other programs: messages where a model has text.
        onnx_bytes("w").bytes, Message().number(1, 1).text(2, "\n\4\b\1\x12\0"s).bytes,
        Message().number(1, 4).message(2, Message().number(1, 1)).bytes,
        Message().number(1, 0).text(2, "x").message(7, {}).bytes,
        Message().number(1, 8).number(2, 1).message(7, {}).bytes,
        Message().number(1, 8).text(5, "x").message(7, {}).bytes,
        Message().number(1, 8).text(2, "x").message(7, Message().number(3, 1)).bytes})
    EXPECT_FALSE(looks(bytes, bytes.size())) << testing::PrintToString(bytes);
}

}  // namespace
}  // namespace weig::test
