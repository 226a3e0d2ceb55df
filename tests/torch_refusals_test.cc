// SPDX-License-Identifier: Apache-2.0
// PyTorch's archives that are refused: a row for each refusal of docs/pytorch.md.
#include <gtest/gtest.h>

#include "pickle_bytes.h"
#include "torch_archive.h"
#include "torch_manifest.h"

namespace weig::test {
namespace {

using namespace pickled;
using std::string_literals::operator""s;

TorchOptions with_selection(const std::string& select) {
  TorchOptions options;
  options.select = select;
  return options;
}

// The dict {"a": d, "b": d} of the dict before, so many times: 2^levels paths.
std::string doubled(int levels) {
  std::string value = dict({text("w"), pair()});
  for (int i = 0; i < levels; ++i)
    value +=
        "q\x01"
        "0}(" +
        text("a") + "h\x01" + text("b") + "h\x01u";
  return value;
}

// Tensors that are each as large as a small file's may be.
std::string expanded_together() {
  std::vector<std::string> items;
  for (int i = 0; i < 100; ++i)
    items.insert(items.end(), {integer(i), tensor(storage("ByteStorage", "0", 8), 0,
                                                  {64 << 10}, {0})});
  return dict(items);
}

struct BadTensor {
  const char* name;
  std::string value;  // of the pickle
  Code code;
  const char* says;
  bool names_tensor = true;
  const char* select = "";
};

// More names than its few values justify, by one step of the walk: so many times the
// value `many`, which takes `steps` of them, and once `last`. All together are
// `values`.
std::string too_many(std::uint64_t values, const std::string& many, std::uint64_t steps,
                     const std::string& last, std::uint64_t last_steps) {
  const std::uint64_t allowed = 4 * (values + 65'536) + 3;
  std::string value = many + "q\x01" + "0](";
  for (std::uint64_t done = last_steps; done < allowed + 1; done += steps)
    value += "h\x01";
  return value + last + "e";
}

// Far too many values for names that are still too long.
std::string long_names() {
  std::string tensors = "q\x01" + std::string("0](");
  for (int i = 0; i < 1100; ++i) tensors += "h\x01";
  return "(" + std::string(400'000, ')') + "1" + pair() + tensors + "e" + "q\x02" +
         "0}" + text(std::string(65'000, 'n')) + "h\x02s";
}

const std::vector<BadTensor>& bad_tensors() {
  const std::string bytes = storage("ByteStorage", "0", 8);
  const std::string v2 = global("torch._utils", "_rebuild_tensor_v2");
  const auto view = [&](const std::string& shape, const std::string& strides) {
    return with(call(v2, {bytes, integer(0), shape, strides, "\x89", no_hooks()}));
  };
  const auto marked = [&](const char* mark) {
    return with(call(v2, {bytes, integer(0), sizes({1}), sizes({1}), "\x89", no_hooks(),
                          dict({text(mark), "\x88"})}));
  };
  const auto named = [&](const std::string& name) {
    return dict({text(name), tensor(bytes, 0, {8}, {1})});
  };
  const std::string beyond = tensor(bytes, 1, {8}, {1});
  const std::string ordered = global("collections", "OrderedDict");
  const std::string script = global("__torch__", "Net") + ")\x81";
  const std::string script_list = global("torch.jit._pickle", "build_tensorlist");
  const auto stored = [](const std::vector<std::string>& identity) {
    return with(tensor(tuple(identity) + "Q", 0, {1}, {1}));
  };
  const auto part = [&](const std::string& description) {
    return stored({text("storage"), global("torch", "ByteStorage"), text("0"),
                   text("cpu"), integer(8), description});
  };
  const auto of_class = [](const std::vector<std::string>& arguments) {
    return with(call(global("torch._tensor", "_rebuild_from_type_v2"), arguments));
  };
  const std::string plain = global("torch", "Tensor");
  const std::vector<std::string> view_arguments = {bytes, integer(0), sizes({1}),
                                                   sizes({1})};
  static const std::vector<BadTensor> all = {
      {"root_is_a_number", integer(3), Code::unsupported, "no tensors in dicts", false},
      {"root_is_a_model", call(global("my", "Net"), {pair()}), Code::unsupported,
       "save its state_dict()", false},
      {"runs_programs", with(call(global("os", "system"), {text("true")})),
       Code::unsupported, "wants to run programs", false},
      {"runs_python", with(call(global("__builtin__", "eval"), {text("1")})),
       Code::unsupported, "wants to run programs", false},
      {"names_it_and_drops_it", global("subprocess", "Popen") + "0" + with(pair()),
       Code::unsupported, "wants to run programs", false},
      {"loads_another_file", with(call(global("torch", "load"), {text("x")})),
       Code::unsupported, "wants to run programs", false},
      {"below_a_module", with(call(global("importlib.util", "x"), {})),
       Code::unsupported, "wants to run programs", false},
      {"runs_a_method_of_a_builtin",
       with(call(global("builtins", "eval.__call__"), {text("1")})), Code::unsupported,
       "wants to run programs", false},
      {"no_such_part", with(pair()), Code::not_found, "no such part", false, "v"},
      {"root_is_a_bad_tensor", beyond, Code::corrupt, "beyond its storage"},
      {"bad_in_a_script_list", with(call(script_list, {list({beyond})})), Code::corrupt,
       "beyond its storage"},
      {"bad_state_of_a_script", script + beyond + "b", Code::corrupt,
       "beyond its storage"},
      {"bad_in_the_state_of_a_script", script + with(beyond) + "b", Code::corrupt,
       "beyond its storage"},
      {"bad_in_an_ordered_dict", ordered + ")R(" + text("w") + beyond + "u",
       Code::corrupt, "beyond its storage"},
      {"bad_in_pairs", ordered + "(" + list({list({text("w"), beyond})}) + "tR",
       Code::corrupt, "beyond its storage"},
      {"few_arguments", with(call(v2, {bytes, integer(0), sizes({1})})), Code::corrupt,
       "made of what none is made of"},
      {"no_storage", with(call(v2, {"N", integer(0), sizes({1}), sizes({1})})),
       Code::corrupt, "made of what none is made of"},
      {"offset_below_0", with(tensor(bytes, -1, {1}, {1})), Code::corrupt,
       "made of what none is made of"},
      {"offset_no_number", with(call(v2, {bytes, "N", sizes({1}), sizes({1})})),
       Code::corrupt, "made of what none is made of"},
      {"identity_no_tuple", with(tensor("NQ", 0, {1}, {1})), Code::corrupt,
       "named by no tuple"},
      {"identity_too_short", with(tensor(tuple({text("storage")}) + "Q", 0, {1}, {1})),
       Code::corrupt, "is no storage"},
      {"identity_of_a_module",
       with(tensor(tuple({text("module"), global("torch", "ByteStorage"), text("0"),
                          text("cpu"), integer(8)}) +
                       "Q",
                   0, {1}, {1})),
       Code::corrupt, "is no storage"},
      {"storage_type_no_name",
       stored({text("storage"), "N", text("0"), text("cpu"), integer(8)}),
       Code::corrupt, "is no storage"},
      {"storage_key_no_text",
       stored({text("storage"), global("torch", "ByteStorage"), integer(500),
               text("cpu"), integer(8)}),
       Code::corrupt, "is no storage"},
      {"storage_size_no_number",
       stored({text("storage"), global("torch", "ByteStorage"), text("0"), text("cpu"),
               "N"}),
       Code::corrupt, "is no storage"},
      {"part_no_tuple", part(integer(500)), Code::corrupt, "described by no tuple"},
      {"part_of_four", part(tuple({text("1"), integer(0), integer(8), "N"})),
       Code::corrupt, "no offset and size"},
      {"part_offset_no_number", part(tuple({text("1"), "N", integer(8)})),
       Code::corrupt, "no offset and size"},
      {"part_size_no_number", part(tuple({text("1"), integer(0), "N"})), Code::corrupt,
       "no offset and size"},
      {"part_offset_below_0", part(sizes({1, -1, 8})), Code::corrupt,
       "no offset and size"},
      {"part_size_below_0", part(sizes({1, 0, -1})), Code::corrupt,
       "no offset and size"},
      {"part_beyond_its_storage", part(sizes({1, 1, 8})), Code::corrupt,
       "reaches beyond it"},
      {"storage_below_0", with(tensor(storage("ByteStorage", "0", -1), 0, {1}, {1})),
       Code::corrupt, "is no storage"},
      {"storage_of_2_to_the_60",
       with(tensor(storage("ByteStorage", "1", std::int64_t{1} << 60), 0, {1}, {1})),
       Code::corrupt, "more elements than can be"},
      {"quantized_storage", with(tensor(storage("QInt8Storage", "0", 8), 0, {1}, {1})),
       Code::unsupported, "'torch.QInt8Storage'"},
      {"storage_of_another_module",
       with(tensor(tuple({text("storage"), global("evil", "ByteStorage"), text("0"),
                          text("cpu"), integer(8)}) +
                       "Q",
                   0, {1}, {1})),
       Code::unsupported, "'evil.ByteStorage'"},
      {"untyped", with(tensor(untyped_storage("0", 8), 0, {1}, {1})), Code::corrupt,
       "no element type"},
      {"type_that_is_none",
       with(typed_tensor(untyped_storage("0", 8), "float7", {1}, {1})),
       Code::unsupported, "'torch.float7'"},
      {"packed_type",
       with(typed_tensor(untyped_storage("0", 8), "float4_e2m1fn_x2", {1}, {1})),
       Code::unsupported, "'torch.float4_e2m1fn_x2'"},
      {"type_of_another_module",
       with(call(global("torch._utils", "_rebuild_tensor_v3"),
                 {untyped_storage("0", 8), integer(0), sizes({1}), sizes({1}), "\x89",
                  no_hooks(), global("evil", "float32")})),
       Code::unsupported, "'evil.float32'"},
      {"type_no_name",
       with(call(global("torch._utils", "_rebuild_tensor_v3"),
                 {untyped_storage("0", 8), integer(0), sizes({1}), sizes({1}), "\x89",
                  no_hooks(), "N"})),
       Code::corrupt, "is no name"},
      {"quantized", with(call(global("torch._utils", "_rebuild_qtensor"), {bytes})),
       Code::unsupported, "'torch._utils._rebuild_qtensor'"},
      {"of_a_class",
       with(call(global("torch._tensor", "_rebuild_from_type_v2"),
                 {v2, global("my", "Tensor"), tuple({bytes}), "}"})),
       Code::unsupported, "'my.Tensor'"},
      {"of_a_class_by_another_call",
       with(call(
           global("torch._tensor", "_rebuild_from_type_v2"),
           {global("my", "make"), global("torch", "Tensor"), tuple({bytes}), "}"})),
       Code::unsupported, "'my.make'"},
      {"of_two_arguments", of_class({v2, plain}), Code::corrupt,
       "made of what none is made of"},
      {"of_no_call", of_class({"N", plain, tuple(view_arguments)}), Code::corrupt,
       "made of what none is made of"},
      {"of_nothing", of_class({v2, "N", tuple(view_arguments)}), Code::corrupt,
       "made of what none is made of"},
      {"of_a_list", of_class({v2, plain, list(view_arguments)}), Code::corrupt,
       "made of what none is made of"},
      {"conjugated", marked("conj"), Code::unsupported, "not what is stored"},
      {"negated", marked("neg"), Code::unsupported, "not what is stored"},
      {"shape_no_tuple", view("N", sizes({1})), Code::corrupt,
       "no tuple for its shape"},
      {"strides_no_tuple", view(sizes({1}), "N"), Code::corrupt,
       "no tuple for its strides"},
      {"negative_size", view(sizes({-1}), sizes({1})), Code::corrupt,
       "what is no size in its"},
      {"negative_stride", view(sizes({1}), sizes({-1})), Code::corrupt,
       "what is no size in its"},
      {"text_as_size", view(tuple({text("1")}), sizes({1})), Code::corrupt,
       "what is no size in its"},
      {"fewer_strides", view(sizes({1, 1}), sizes({1})), Code::corrupt,
       "differ in length"},
      {"rank_65", view("(" + std::string(65, 'N') + "t", sizes({1})), Code::corrupt,
       "too many numbers in its shape"},
      {"too_many_elements",
       with(tensor(bytes, 0, {std::int64_t{1} << 40, std::int64_t{1} << 40}, {0, 0})),
       Code::corrupt, "2^56"},
      {"beyond_its_storage", with(tensor(bytes, 1, {8}, {1})), Code::corrupt,
       "beyond its storage"},
      {"beyond_by_stride", with(tensor(bytes, 0, {2, 2}, {7, 1})), Code::corrupt,
       "beyond its storage"},
      {"beyond_64_bits", with(tensor(bytes, 1, {3}, {INT64_MAX})), Code::corrupt,
       "beyond its storage"},
      {"product_beyond_64_bits", with(tensor(bytes, 0, {5}, {std::int64_t{1} << 62})),
       Code::corrupt, "beyond its storage"},
      {"sum_beyond_64_bits",
       with(tensor(bytes, 2, {2, 2, 2}, {INT64_MAX, INT64_MAX, 1})), Code::corrupt,
       "beyond its storage"},
      {"storage_is_smaller", with(tensor(storage("ByteStorage", "0", 9), 0, {8}, {1})),
       Code::corrupt, "another size than the pickle says", false},
      {"storage_is_larger", with(tensor(storage("ByteStorage", "0", 7), 0, {7}, {1})),
       Code::corrupt, "another size than the pickle says", false},
      {"storage_is_not_there",
       with(tensor(storage("ByteStorage", "1", 8), 0, {8}, {1})), Code::corrupt,
       "lacks the tensor's storage"},
      {"expanded", with(tensor(bytes, 0, {1 << 20, 1 << 20}, {0, 0})), Code::limit,
       "repeats its storage too often"},
      {"expanded_a_little_too_much", with(tensor(bytes, 0, {(64 << 10) + 1}, {0})),
       Code::limit, "repeats its storage too often"},
      {"expanded_together", expanded_together(), Code::limit,
       "repeat the storages too often"},
      {"name_with_nul", named("a\0b"s), Code::corrupt, "NUL"},
      {"name_no_utf8", named("a\xFF"), Code::corrupt, "UTF-8"},
      {"name_too_long", dict({text(std::string(65'535, 'n')), named("m")}),
       Code::corrupt, "too long"},
      {"two_of_a_name", dict({text("w"), pair(), text("w"), pair()}), Code::corrupt,
       "same name"},
      {"two_of_a_path",
       dict({text("a"), dict({text("w"), pair()}), text("a.w"), pair()}), Code::corrupt,
       "same name"},
      {"key_no_name", dict({"(t", pair()}), Code::unsupported, "a key that is no text",
       false},
      {"odd_pairs", global("collections", "OrderedDict") + "(" + list({pair()}) + "tR",
       Code::corrupt, "no pairs"},
      {"pairs_of_four",
       ordered + "(" + list({list({text("a"), pair(), text("b"), pair()})}) + "tR",
       Code::corrupt, "no pairs"},
      {"list_of_two", with(call(script_list, {list({pair()}), "N"})), Code::corrupt,
       "made of no list"},
      {"list_of_no_list",
       dict({text("w"), call(global("torch.jit._pickle", "build_tensorlist"), {"N"})}),
       Code::corrupt, "made of no list"},
      {"nested_65", std::string(65, ']') + pair() + std::string(65, 'a'), Code::limit,
       "nested too deeply", false},
      {"doubled", doubled(40), Code::limit, "hold each other too often", false},
      {"many_names_of_others",
       too_many(6, call(global("my", "Net"), {}), 2, call(global("my", "Net"), {}), 2),
       Code::limit, "hold each other too often", false},
      {"many_names_of_containers", too_many(3, "}", 1, "}", 1), Code::limit,
       "hold each other too often", false},
      {"many_names_and_a_list", too_many(3, "}", 1, "]", 2), Code::limit,
       "hold each other too often", false},
      {"many_names_and_a_tensor", too_many(20, "}", 1, pair(), 2), Code::limit,
       "hold each other too often", false},
      {"long_names", long_names(), Code::limit, "too long together", false},
  };
  return all;
}

class TorchRefuses : public testing::TestWithParam<BadTensor> {};

TEST_P(TorchRefuses, with_its_own_words) {
  const BadTensor& bad = GetParam();
  const auto manifest = archive_of(stream(bad.value)).read(with_selection(bad.select));
  ASSERT_FALSE(manifest) << shown(manifest);
  EXPECT_EQ(manifest.error().code(), bad.code) << manifest.error().message();
  EXPECT_NE(manifest.error().message().find(bad.says), std::string::npos)
      << manifest.error().message();
  EXPECT_EQ(manifest.error().fields().names_tensor, bad.names_tensor)
      << manifest.error().message();
}

INSTANTIATE_TEST_SUITE_P(All, TorchRefuses, testing::ValuesIn(bad_tensors()),
                         [](const auto& row) { return row.param.name; });

// A deflated storage, which is unpacked for each of its tensors.
TorchArchive unpacked_often() {
  std::vector<std::string> items;
  const std::string large = storage("ByteStorage", "0", 1 << 20);
  for (int i = 0; i < 65; ++i)
    items.insert(items.end(), {integer(i), tensor(large, (1 << 20) - 1 - i, {1}, {1})});
  TorchArchive archive = archive_of(stream(dict(items)));
  archive.members[1].is_deflated = true;
  archive.members[1].bytes = 1 << 20;
  return archive;
}

struct BadArchive {
  const char* name;
  TorchArchive archive;
  Code code;
  const char* says;
};

const std::vector<BadArchive>& bad_archives() {
  const std::string good = stream(with(pair()));
  const auto also = [&](const char* name, const std::string& contents) {
    TorchArchive archive = archive_of(good);
    archive.add(name, contents);
    return archive;
  };
  static const std::vector<BadArchive> all = {
      {"no_checkpoint", TorchArchive().add("data.pkl", good).add("a/b/data.pkl", good),
       Code::corrupt, "no folder with data.pkl"},
      {"two_checkpoints", also("b/data.pkl", good), Code::corrupt, "two checkpoints"},
      {"byte_order", also("archive/byteorder", "middle"), Code::corrupt,
       "neither little nor big"},
      {"long_byte_order", also("archive/byteorder", std::string(5000, 'x')),
       Code::limit, "larger than is allowed"},
      {"unpacked_often", unpacked_often(), Code::limit, "read the storages too often"},
      {"cut_pickle", archive_of(good.substr(0, good.size() - 1)), Code::corrupt,
       "in 'archive/data.pkl'"},
      {"constants", also("archive/constants.pkl", "x."), Code::corrupt,
       "in 'archive/constants.pkl'"},
      {"harm_in_constants",
       also("archive/constants.pkl", stream(tuple({global("os", "system")}))),
       Code::unsupported, "wants to run programs"},
  };
  return all;
}

class TorchArchiveRefuses : public testing::TestWithParam<BadArchive> {};

TEST_P(TorchArchiveRefuses, with_its_own_words) {
  const BadArchive& bad = GetParam();
  const auto manifest = bad.archive.read();
  ASSERT_FALSE(manifest) << shown(manifest);
  EXPECT_EQ(manifest.error().code(), bad.code) << manifest.error().message();
  EXPECT_NE(manifest.error().message().find(bad.says), std::string::npos)
      << manifest.error().message();
}

INSTANTIATE_TEST_SUITE_P(All, TorchArchiveRefuses, testing::ValuesIn(bad_archives()),
                         [](const auto& row) { return row.param.name; });

}  // namespace
}  // namespace weig::test
