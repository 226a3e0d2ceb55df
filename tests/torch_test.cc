// SPDX-License-Identifier: Apache-2.0
// Reading PyTorch's archives: what their pickles say of tensors.
#include "formats/torch_archive.h"

#include <gtest/gtest.h>

#include "image.h"
#include "pickle_bytes.h"
#include "torch_archive.h"
#include "torch_manifest.h"

namespace weig::test {
namespace {

using namespace pickled;
using std::string_literals::operator""s;

using Entry = Manifest::Entry;

TorchArchive archive_with(const std::vector<std::string>& items) {
  return archive_of(stream(dict(items)));
}
std::uint64_t storage_begin(const TorchArchive& archive) {
  return archive.members[1].begin;
}

TorchOptions with_selection(const std::string& select) {
  TorchOptions options;
  options.select = select;
  return options;
}
TorchOptions with_expansion(std::uint64_t times) {
  TorchOptions options;
  options.max_expansion = times;
  return options;
}

TEST(Torch, finds_a_tensor_where_it_lies) {
  const TorchArchive archive = archive_with({text("w"), pair()});
  EXPECT_EQ(shown(archive.read()),
            "w f32 2, " + std::to_string(storage_begin(archive)) + " 8");
}

struct Typed {
  std::string value;
  const char* dtype;
};

// C18
TEST(Torch, knows_every_element_type) {
  const auto of_storage = [](const char* type, std::int64_t elements) {
    return tensor(storage(type, "0", elements), 0, {elements}, {1});
  };
  const auto untyped = [](const char* type, std::int64_t elements) {
    return typed_tensor(untyped_storage("0", 8), type, {elements}, {1});
  };
  const std::vector<Typed> all = {
      {of_storage("FloatStorage", 2), "f32"},
      {of_storage("DoubleStorage", 1), "f64"},
      {of_storage("HalfStorage", 4), "f16"},
      {of_storage("BFloat16Storage", 4), "bf16"},
      {of_storage("LongStorage", 1), "i64"},
      {of_storage("IntStorage", 2), "i32"},
      {of_storage("ShortStorage", 4), "i16"},
      {of_storage("CharStorage", 8), "i8"},
      {of_storage("ByteStorage", 8), "u8"},
      {of_storage("BoolStorage", 8), "bool"},
      {of_storage("ComplexFloatStorage", 1), "complex64"},
      {untyped("float32", 2), "f32"},
      {untyped("complex32", 2), "complex32"},
      {untyped("uint16", 4), "u16"},
      {untyped("uint32", 2), "u32"},
      {untyped("uint64", 1), "u64"},
      {untyped("float8_e4m3fn", 8), "f8_e4m3fn"},
      {untyped("float8_e5m2", 8), "f8_e5m2"},
      {untyped("float8_e4m3fnuz", 8), "f8_e4m3fnuz"},
      {untyped("float8_e5m2fnuz", 8), "f8_e5m2fnuz"},
      {untyped("float8_e8m0fnu", 8), "f8_e8m0"},
  };
  for (const Typed& one : all) {
    const auto manifest = archive_with({text("w"), one.value}).read();
    ASSERT_TRUE(manifest) << manifest.error().message();
    EXPECT_EQ(dtype_name(manifest->entries()[0].dtype), one.dtype);
    EXPECT_EQ(manifest->entries()[0].size, 8u);
  }
  const std::string sixteen =
      tensor(storage("ComplexDoubleStorage", "0", 1), 0, {1}, {1});
  EXPECT_EQ(
      dtype_name(archive_of(stream(dict({text("w"), sixteen})), std::string(16, 'x'))
                     .read()
                     ->entries()[0]
                     .dtype),
      "complex128");
}

// C13, C14
TEST(Torch, keeps_strides_and_offsets_and_reads_no_more_than_it_needs) {
  const std::string bytes = storage("ByteStorage", "0", 8);
  const TorchArchive archive = archive_with({
      text("transposed"),
      tensor(bytes, 0, {2, 3}, {1, 2}),  //
      text("every second"),
      tensor(bytes, 1, {3}, {2}),  //
      text("middle"),
      tensor(bytes, 2, {2, 2}, {2, 1}),  //
      text("odd stride of one"),
      tensor(bytes, 0, {1, 2}, {77, 1}),
      text("empty at the end"),
      tensor(bytes, 8, {0, 3}, {3, 1}),
      text("scalar"),
      tensor(bytes, 7, {}, {}),
  });
  const auto at = [&](std::uint64_t offset) {
    return std::to_string(storage_begin(archive) + offset);
  };
  EXPECT_EQ(shown(archive.read()),
            "transposed u8 2,3, " + at(0) + " 6 of 6 strides 1 2; " +
                "every second u8 3, " + at(1) + " 3 of 5 strides 2; " +
                "middle u8 2,2, " + at(2) + " 4; " +             //
                "odd stride of one u8 1,2, " + at(0) + " 2; " +  //
                "empty at the end u8 0,3, " + at(0) + " 0; " +   //
                "scalar u8  " + at(7) + " 1");
}

// C12
TEST(Torch, equal_views_are_aliases_and_others_are_not) {
  const std::string whole = storage("ByteStorage", "0", 8);
  const auto manifest = archive_with({
                                         text("a"),
                                         tensor(whole, 0, {8}, {1}),  //
                                         text("b"),
                                         tensor(whole, 0, {8}, {1}),  //
                                         text("shaped"),
                                         tensor(whole, 0, {2, 4}, {4, 1}),
                                         text("half"),
                                         tensor(whole, 0, {4}, {1}),  //
                                         text("t"),
                                         tensor(whole, 0, {4, 2}, {1, 4}),  //
                                         text("t2"),
                                         tensor(whole, 0, {4, 2}, {1, 4}),
                                         text("u"),
                                         tensor(whole, 0, {2, 4}, {1, 2}),
                                         text("empty"),
                                         tensor(whole, 0, {0}, {1}),
                                     })
                            .read()
                            .value();
  const auto shares = [&](std::size_t i) { return manifest.entries()[i].shares; };
  EXPECT_NE(shares(0), TensorSpec::kOwn);
  EXPECT_EQ(shares(1), shares(0));
  EXPECT_EQ(shares(2), shares(0));
  EXPECT_EQ(shares(3), TensorSpec::kOwn);
  EXPECT_NE(shares(4), TensorSpec::kOwn);
  EXPECT_NE(shares(4), shares(0));
  EXPECT_EQ(shares(5), shares(4));
  EXPECT_EQ(shares(6), TensorSpec::kOwn);
  EXPECT_EQ(shares(7), TensorSpec::kOwn);
}

// C15
TEST(Torch, tells_how_much_no_tensor_uses) {
  const std::string whole = storage("ByteStorage", "0", 8);
  const auto unused = [&](const std::vector<std::string>& items) {
    TorchArchive archive = archive_with(items);
    return archive.read()->warnings;
  };
  EXPECT_TRUE(has(unused({text("a"), tensor(whole, 1, {2}, {1}),  //
                          text("b"), tensor(whole, 2, {3}, {1})}),
                  "4 bytes of storages belong to no tensor"));
  EXPECT_TRUE(has(unused({}), "8 bytes of storages"));
  EXPECT_FALSE(has(unused({text("a"), tensor(whole, 0, {8}, {1})}), "of storages"));
}

// C21
TEST(Torch, goes_by_the_byte_order_that_the_archive_says) {
  TorchArchive archive = archive_with({text("w"), pair()});
  archive.add("archive/byteorder", "little");
  EXPECT_EQ(shown(archive.read()).find("big"), std::string::npos);
  archive = archive_with({text("w"), pair()});
  archive.add("archive/byteorder", "big");
  EXPECT_NE(shown(archive.read()).find("big"), std::string::npos);
  archive =
      archive_with({text("w"), tensor(storage("ByteStorage", "0", 8), 0, {8}, {1})});
  archive.add("archive/byteorder", "big");
  EXPECT_EQ(shown(archive.read()).find("big"), std::string::npos);
}

std::string names_in(const std::string& value, const std::string& select = {}) {
  const auto manifest = archive_of(stream(value)).read(with_selection(select));
  if (!manifest) return manifest.error().message();
  std::string names;
  for (const Entry& entry : manifest->entries())
    names += (names.empty() ? "" : " ") + std::string(manifest->name(entry));
  return names;
}

// C17, C19
TEST(Torch, names_say_where_a_tensor_is) {
  const std::string ordered = global("collections", "OrderedDict");
  EXPECT_EQ(names_in(dict({text("a"), dict({text("b.c"), pair(), integer(3), pair()}),
                           text("l"), list({"N", tuple({pair()})}), "\x88", pair()})),
            "a.b.c a.3 l.1.0 True");
  EXPECT_EQ(names_in(pair()), "tensor");
  EXPECT_EQ(names_in(list({pair(), pair()})), "0 1");
  EXPECT_EQ(names_in(ordered + ")R(" + text("w") + pair() + "u"), "w");
  EXPECT_EQ(names_in(ordered + "(" + list({list({text("w"), pair()})}) + "tR"), "w");
  EXPECT_EQ(names_in(dict({text("p"), call(global("torch._utils", "_rebuild_parameter"),
                                           {pair(), "\x88", no_hooks()})})),
            "p");
  EXPECT_EQ(
      names_in(dict({"U\x01p"s, call(global("torch._tensor", "_rebuild_from_type_v2"),
                                     {global("torch._utils", "_rebuild_tensor_v2"),
                                      global("torch", "Tensor"),
                                      tuple({storage("FloatStorage", "0", 2),
                                             integer(0), sizes({2}), sizes({1})}),
                                      "}"})})),
      "p");
  EXPECT_EQ(names_in(dict({text(""), dict({text(""), pair()})})), ".");
}

TEST(Torch, attributes_of_script_objects_are_named_as_a_state_dict_has_them) {
  const std::string inner = global("__torch__.m", "Linear") + ")\x81" +
                            dict({text("weight"), pair(), text("training"), "\x89"}) +
                            "b";
  const std::string outer =
      global("__torch__", "Net") + ")\x81" + dict({text("fc"), inner}) + "b";
  TorchArchive archive = archive_of(stream(outer));
  archive.add("archive/constants.pkl", stream(tuple({pair()})))
      .add("archive/constants/0", "abcdefgh")
      .add("archive/code/__torch__.py", "x")
      .add("archive/code/__torch__.py.debug_pkl", "x");
  const Manifest manifest = archive.read().value();
  ASSERT_EQ(manifest.entries().size(), 2u);
  EXPECT_EQ(manifest.name(manifest.entries()[0]), "fc.weight");
  EXPECT_EQ(manifest.name(manifest.entries()[1]), "CONSTANTS.0");
  EXPECT_EQ(manifest.entries()[1].begin, archive.members[3].begin);
  EXPECT_TRUE(has(manifest.skipped, "'fc.training': False"));
  EXPECT_TRUE(has(manifest.skipped, "code of TorchScript, 2 files"));
}

// C17, C19, C46
TEST(Torch, lists_what_it_skips) {
  TorchArchive archive = archive_of(stream(dict({
      text("w"),
      pair(),  //
      text("epoch"),
      integer(3),  //
      text("qtype"),
      text("int8"),  //
      text("cfg"),
      dict({text("a"), "N"}),  //
      text("betas"),
      sizes({1, 2, 3}),  //
      text("lr"),
      call(global("numpy.core.multiarray", "scalar"), {"N"}),
      text("model"),
      call(global("my.models", "Net"), {list({pair(), pair()})}),
      text("none"),
      "}",  //
      text("dtype"),
      global("torch", "float16"),  //
      text("storage"),
      storage("FloatStorage", "0", 2),  //
      text("odd"),
      integer(7) + "Q",  //
      "(t",
      integer(1),  //
  })));
  archive.add("archive/evil.pkl", "x").add("other", "y");
  const Manifest manifest = archive.read().value();
  ASSERT_EQ(manifest.entries().size(), 1u);
  for (const char* line :
       {"'epoch': the number 3", "'qtype': the text 'int8'", "'cfg.a': None",
        "'betas': a list of 3 without tensors",
        "'lr': an object of numpy.core.multiarray.scalar",
        "'model': an object of my.models.Net, with 2 tensors in it",
        "'none': an empty dict", "'dtype': torch.float16",
        "'storage': what lies outside the pickle", "'odd': what lies outside",
        "a key that is no name", "not looked at, 'archive/evil.pkl'",
        "the archive's member 'other'"})
    EXPECT_TRUE(has(manifest.skipped, line)) << line;
  std::vector<std::string> many;
  for (int i = 0; i < 500; ++i) many.insert(many.end(), {integer(i), "N"});
  const Manifest counted = archive_with(many).read().value();
  EXPECT_EQ(counted.skipped.size(), 101u);
  EXPECT_EQ(counted.skipped.back(), "and 400 more like these");
}

// C19
TEST(Torch, selects_a_part_by_its_path) {
  const std::string value =
      dict({text("state_dict"),
            dict({text("a"), pair(), text("in"), dict({text("b"), pair()})}),
            text("optimizer"), dict({text("m"), pair()}), text("epoch"), integer(1),
            text("state"), dict({text("z"), pair()})});
  EXPECT_EQ(names_in(value, "state_dict"), "a in.b");
  EXPECT_EQ(names_in(value, "state_dict.in"), "b");
  EXPECT_EQ(names_in(value), "state_dict.a state_dict.in.b optimizer.m state.z");
  for (const char* path : {"state_dic", "epoch", "state_dict.a", "state_dict.c", "."}) {
    const auto none = archive_of(stream(value)).read(with_selection(path));
    ASSERT_FALSE(none) << path;
    EXPECT_EQ(none.error().code(), Code::not_found);
    EXPECT_NE(none.error().message().find("'state_dict', 'optimizer'"),
              std::string::npos)
        << none.error().message();
  }
}

TEST(Torch, containers_that_hold_themselves_end) {
  EXPECT_EQ(names_in("}q\x01(" + text("w") + pair() + text("self") + "h\x01u"), "w");
  EXPECT_EQ(names_in("]q\x01(h\x01" + pair() + "e"), "1");
}

// C52
TEST(Torch, expands_as_far_as_it_may) {
  const std::string bytes = storage("ByteStorage", "0", 8);
  EXPECT_TRUE(archive_with({text("w"), tensor(bytes, 0, {64 << 10}, {0})}).read());
  const TorchArchive large =
      archive_with({text("w"), tensor(bytes, 0, {1 << 17, 8}, {0, 1})});
  EXPECT_FALSE(large.read());
  EXPECT_TRUE(large.read(with_expansion(1 << 20)));
}

TEST(Torch, reads_that_fail) {
  TorchArchive archive = archive_with({text("w"), pair()});
  archive.add("archive/byteorder", "little");
  fail_each_read(archive.bytes, [&](const Input& input) {
    return read_torch_archive(input, archive.members, {});
  });
}

// C17
TEST(Torch, any_folder_will_do) {
  for (const char* folder : {"archive/", "model/", "weights v2/"}) {
    TorchArchive archive;
    archive.add(folder + "data.pkl"s, stream(with(pair())));
    archive.add(folder + "data/0"s, "12345678").add(folder + "version"s, "3\n");
    EXPECT_TRUE(is_torch_archive(archive.members));
    const Manifest manifest = archive.read().value();
    EXPECT_EQ(manifest.entries().size(), 1u);
    EXPECT_TRUE(manifest.skipped.empty());
  }
  EXPECT_FALSE(is_torch_archive(TorchArchive().add("a.npy", "x").members));
}

}  // namespace
}  // namespace weig::test
