// SPDX-License-Identifier: Apache-2.0
// ONNX models that are refused: one row for each refusal of docs/onnx.md.
#include <gtest/gtest.h>

#include <algorithm>

#include "formats/protobuf_numbers.h"
#include "onnx_model.h"

namespace weig::test {
namespace {

using std::string_literals::operator""s;

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
  const Input input = input_over(bytes);
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
    const auto manifest = read_onnx(input_over(cut));
    EXPECT_FALSE(manifest) << size;
  }
}

}  // namespace
}  // namespace weig::test
