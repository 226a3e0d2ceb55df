// SPDX-License-Identifier: Apache-2.0
// Reading ONNX models, and knowing that a file is one.
#include <gtest/gtest.h>

#include <algorithm>

#include <weig/metadata.h>

#include "formats/onnx_mark.h"
#include "formats/protobuf_numbers.h"
#include "onnx_model.h"

namespace weig::test {
namespace {

using std::string_literals::operator""s;

// The bytes of a tensor as convert() reads them.
Result<std::string> data_of(const Message& model, const Manifest& manifest,
                            const Manifest::Entry& entry) {
  if (entry.storage == Manifest::kAsItIs)
    return model.bytes.substr(entry.begin, entry.size);
  const ElementStorage& storage = manifest.storages[entry.storage];
  EXPECT_EQ(storage.bytes, entry.size);
  std::vector<std::byte> out(entry.size);
  const Input input = input_over(model.bytes);
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
