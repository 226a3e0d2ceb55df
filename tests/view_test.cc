// SPDX-License-Identifier: Apache-2.0
// View: what a sound file hands out, fully and lazily checked.
#include <gtest/gtest.h>

#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "core/claim.h"
#include "core/digest.h"
#include "core/try.h"
#include "image.h"

namespace weig::test {
namespace {

// Whether T is the tensor's type. Where that is all that speaks for it, since the bytes
// are in another order than the machine's, it must be refused.
template <typename T>
bool is_of(const Tensor& tensor) {
  const auto elements = tensor.as<T>();
  if (kNativeOrder == ByteOrder::little) return elements.has_value();
  return !elements && elements.error().code() == Code::unsupported;
}

TEST(View, hands_out_tensors_in_place) {
  const Image image = Image::basic();
  const View view = image.open().value();
  EXPECT_EQ(view.size(), 12u);
  EXPECT_TRUE(view.sealed());
  const Tensor bias = view.tensor("model.layers.2.mlp.bias").value();
  EXPECT_EQ(bias.dtype(), Dtype::f32);
  EXPECT_EQ(bias.rank(), 1u);
  EXPECT_EQ(bias.shape()[0], 4u);
  EXPECT_EQ(bias.byte_count(), 16u);
  EXPECT_EQ(bias.data(), image.bytes.data() + bias.data_offset());
  EXPECT_EQ(bias.data_offset() % 64, 0u);
  const auto wrong = bias.as<double>();
  ASSERT_FALSE(wrong);
  EXPECT_EQ(wrong.error().code(), Code::invalid_argument);
}

// Bytes in another order than the machine's are no numbers, and never taken for some.
TEST(View, elements_are_in_place_where_their_byte_order_is_the_machines) {
  const Image image = Image::basic();
  detail::Claim claim = claim_file({.front = image.bytes,
                                    .trailer = Bytes(image.bytes).last(64),
                                    .file_size = image.size(),
                                    .data = image.bytes.data()},
                                   {})
                            .value();
  EXPECT_EQ(claim.foreign_order, kNativeOrder == ByteOrder::big);
  for (const bool foreign : {false, true}) {
    claim.foreign_order = foreign;
    const View view = detail::ViewAccess::open(claim, {}).value();
    const Tensor bias = view.tensor("model.layers.2.mlp.bias").value();
    const auto floats = bias.as<float>();
    if (foreign) {
      ASSERT_FALSE(floats);
      EXPECT_EQ(floats.error().code(), Code::unsupported);
    } else {
      EXPECT_EQ(floats->size(), 4u);
      EXPECT_EQ(static_cast<const void*>(floats->data()), bias.data());
    }
    EXPECT_EQ(bias.bytes().size(), 16u);
    EXPECT_TRUE(view.tensor("mask")->as<std::uint8_t>());
  }
}

// C01
TEST(View, scalars_and_empty_tensors_keep_their_shapes) {
  const Image image = Image::basic();
  const View view = image.open().value();
  const Tensor scale = view.tensor("scale").value();
  EXPECT_EQ(scale.rank(), 0u);
  EXPECT_EQ(scale.element_count(), 1u);
  const Tensor empty = view.tensor("empty").value();
  EXPECT_EQ(empty.rank(), 2u);
  EXPECT_EQ(empty.shape()[0], 0u);
  EXPECT_EQ(empty.shape()[1], 4u);
  EXPECT_EQ(empty.element_count(), 0u);
  EXPECT_TRUE(empty.has_data());
  EXPECT_TRUE(empty.as<float>()->empty());
}

// C67: the last tensor is empty, at the end of the data.
TEST(View, file_whose_only_or_last_tensor_is_empty) {
  for (const auto& tensors : {std::vector<ImageTensor>{{"e", Dtype::f32, {0}}},
                              std::vector<ImageTensor>{{"a", Dtype::u8, {4096}},
                                                       {"z", Dtype::f32, {3, 0}}}}) {
    const Image image = Image::sealed(tensors);
    const auto view = image.open();
    ASSERT_TRUE(view) << view.error().message();
    const Tensor last = (*view)[tensors.size() - 1].value();
    EXPECT_EQ(last.byte_count(), 0u);
    EXPECT_EQ(last.rank(), tensors.back().shape.size());
  }
}

TEST(View, types_without_a_c_type_are_read_as_bytes) {
  const Image image = Image::sealed({{"f8", Dtype::f8_e4m3fn, {4}},
                                     {"flag", Dtype::boolean, {2}},
                                     {"half", Dtype::f16, {2}},
                                     {"brain", Dtype::bf16, {2}},
                                     {"c", Dtype::complex64, {1}}});
  const View view = image.open().value();
  EXPECT_TRUE(view.tensor("f8")->as<std::uint8_t>());
  EXPECT_FALSE(view.tensor("f8")->as<std::int8_t>());
  EXPECT_TRUE(view.tensor("flag")->as<std::uint8_t>());
  EXPECT_TRUE(is_of<Float16>(*view.tensor("half")));
  EXPECT_FALSE(view.tensor("half")->as<BFloat16>());
  EXPECT_TRUE(is_of<BFloat16>(*view.tensor("brain")));
  EXPECT_TRUE(is_of<std::complex<float>>(*view.tensor("c")));
}

TEST(View, strides_are_row_major) {
  const Image image = Image::sealed({{"a", Dtype::f32, {2, 3, 4}}});
  const View view = image.open().value();
  const Shape strides = view[0]->strides();
  EXPECT_EQ(strides[0], 12u);
  EXPECT_EQ(strides[1], 4u);
  EXPECT_EQ(strides[2], 1u);
}

TEST(View, aliases_of_minimal_files_have_one_owner_whatever_the_order) {
  // Data ranges by record: b's, then a's twice, then b's again.
  Image image = Image::minimal({{"r", Dtype::u8, {8}},
                                {"s", Dtype::u8, {8}},
                                {"t", Dtype::u8, {8}},
                                {"u", Dtype::u8, {8}}});
  constexpr std::size_t kDataOffset = 32;
  const auto at = [&](std::uint64_t i) { return image.record(i) + kDataOffset; };
  const auto a = image.get<std::uint64_t>(at(0));
  const auto b = image.get<std::uint64_t>(at(1));
  const std::uint64_t offsets[] = {b, a, a, b};
  for (std::uint64_t i = 0; i < 4; ++i) image.set(at(i), offsets[i]);
  const View view = View::open(image.span(), {.unsealed = Unsealed::accept}).value();
  EXPECT_EQ(view.owner(0).value(), 0u);
  EXPECT_EQ(view.owner(1).value(), 1u);
  EXPECT_EQ(view.owner(2).value(), 1u);
  EXPECT_EQ(view.owner(3).value(), 0u);
}

TEST(View, aliases_have_one_owner) {
  const Image image = Image::basic();
  const View view = image.open().value();
  const std::uint32_t owner = view.tensor("lm_head.flat")->ordinal();
  for (const char* name : {"lm_head.flat", "lm_head.weight", "model.embed.weight"}) {
    const Tensor tensor = view.tensor(name).value();
    EXPECT_EQ(view.owner(tensor.ordinal()).value(), owner) << name;
    EXPECT_EQ(tensor.data(), view[owner]->data()) << name;
    EXPECT_EQ(view.digest(tensor.ordinal()).value(), xxh3_128(tensor.bytes())) << name;
  }
  const Tensor other = view.tensor("scale").value();
  EXPECT_EQ(view.owner(other.ordinal()).value(), other.ordinal());
}

TEST(View, groups_are_runs_of_tensors) {
  const Image image = Image::basic();
  const View view = image.open().value();
  const Groups groups = view.groups().value();
  ASSERT_EQ(groups.size(), 3u);
  EXPECT_EQ(groups[0].name, "model.layers.2");
  EXPECT_EQ(groups[0].count, 2u);
  EXPECT_EQ(groups[1].name, "model.layers.10");
  EXPECT_EQ(view[groups[1].first]->name(), "model.layers.10.mlp.weight");
}

TEST(View, reads_every_section) {
  const Image image = Image::all_sections();
  const View view = image.open().value();
  EXPECT_EQ(*view.metadata_text().value(), R"({"format":"pt"})");
  const auto source = *view.source().value();
  EXPECT_EQ(source.format, SourceHeader::Format::safetensors);
  EXPECT_EQ(source.encoding, SourceHeader::Encoding::ordinals);
  EXPECT_EQ(source.body.size(), 4 * view.size());
  const Shard shard = *view.shard().value();
  EXPECT_EQ(shard.index, 0u);
  EXPECT_EQ(shard.count, 2u);
  EXPECT_EQ(shard.tensors, 9u);
  EXPECT_EQ(shard.set_high, 0x99AABBCCDDEEFF00u);
  ASSERT_EQ(view.quantization_count().value(), 2u);
  EXPECT_EQ(view.quantization(1)->tensor, 3u);
  EXPECT_EQ(view.quantization(1)->scale, 4u);
  EXPECT_FALSE(view.quantization(2));
  EXPECT_TRUE(view.check_sections());
}

TEST(View, missing_names_and_ordinals_are_errors) {
  const Image image = Image::basic();
  const View view = image.open().value();
  const auto missing = view.tensor("no\nsuch");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code(), Code::not_found);
  EXPECT_EQ(missing.error().message(), "tensor 'no\\nsuch': no such tensor");
  EXPECT_FALSE(view.find("").value());
  EXPECT_EQ(view[12].error().code(), Code::invalid_argument);
}

TEST(View, empty_name_is_a_name) {
  const Image image = Image::sealed({{"", Dtype::u8, {1}}, {"a", Dtype::u8, {1}}});
  EXPECT_EQ(image.open()->size(), 2u);
  const View view = image.open().value();
  EXPECT_EQ(view.tensor("")->ordinal(), 0u);
}

TEST(View, file_without_tensors) {
  const Image image = Image::sealed({});
  const View view = image.open().value();
  EXPECT_EQ(view.size(), 0u);
  EXPECT_FALSE(view.find("x").value());
  EXPECT_FALSE(view.metadata_text().value());
  EXPECT_TRUE(view.groups()->empty());
}

TEST(View, lazy_answers_like_full) {
  for (const Image& image :
       {Image::basic(), Image::all_sections(), Image::sealed({})}) {
    const View full = image.open().value();
    const View lazy = image.open({.validation = Validation::lazy}).value();
    EXPECT_EQ(describe(full).value(), describe(lazy).value());
    EXPECT_FALSE(lazy.find("absent").value());
  }
}

TEST(View, lazy_finds_damage_before_it_denies) {
  Image image = Image::basic();
  const View sound = image.open().value();
  const std::uint32_t ordinal = sound.tensor("scale")->ordinal();
  // The name in the file is no longer the name that the index knows.
  image.set<std::uint8_t>(image.get<std::uint64_t>(image.record(ordinal)), 'S');
  const View lazy = image.open({.validation = Validation::lazy}).value();
  EXPECT_TRUE(lazy.tensor("mask"));
  const auto found = lazy.find("scale");
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().code(), Code::corrupt);
  EXPECT_FALSE(lazy.check_structure());
}

TEST(View, const_use_from_many_threads) {
  const Image image = Image::all_sections();
  const View view = image.open({.validation = Validation::lazy}).value();
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i)
    threads.emplace_back([&] {
      for (int round = 0; round < 50; ++round) {
        EXPECT_TRUE(view.tensor("blk.1.q"));
        EXPECT_FALSE(view.find("none").value());
        EXPECT_TRUE(view.groups());
        EXPECT_TRUE(view.check_sections());
      }
    });
  for (std::thread& thread : threads) thread.join();
}

// Lazy or not, a section is not denied because its kind was damaged.
TEST(View, lazy_denies_no_section_of_a_damaged_table) {
  const Image image = Image::basic();
  const std::uint64_t begin = image.header(48);
  const std::uint64_t last = begin + 32 * (image.header(56) - 1);
  for (int bit = 0; bit < 32; ++bit) {
    Image damaged = image;
    damaged.bytes[last + bit / 8] ^= std::byte{1} << (bit % 8);
    const auto view = View::open(damaged.span(), {.validation = Validation::lazy});
    if (!view) continue;
    for (std::uint32_t kind = 1; kind < 8; ++kind) {
      const auto found = view->section(static_cast<disk::SectionKind>(kind));
      EXPECT_TRUE(!found || *found) << bit << " " << kind;
    }
  }
  EXPECT_FALSE(*View::open(image.span(), {.validation = Validation::lazy})
                    ->section(disk::SectionKind::shard));
}

// Whoever writes to the file while it is opened: the numbers that were checked are
// those that are used, so that no view leads outside the bytes. The neighbour has a
// mapping of its own, as another process would.
TEST(View, a_header_that_changes_under_the_check_is_not_believed) {
  const Image image = Image::basic();
  const std::uint64_t size = image.size();
  const int file = ::memfd_create("m.weig", 0);
  ASSERT_EQ(::write(file, image.bytes.data(), size), static_cast<ssize_t>(size));
  const auto map = [&] {
    void* at = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    EXPECT_NE(at, MAP_FAILED);
    return static_cast<std::byte*>(at);
  };
  std::byte* const ours = map();
  std::byte* const theirs = map();
  std::atomic<bool> stop = false;
  std::thread writer([&] {
    // As whole words, as a neighbour's write arrives.
    std::atomic_ref<std::uint64_t> file_size(
        *static_cast<std::uint64_t*>(static_cast<void*>(theirs + 32)));
    while (!stop) {
      file_size = std::uint64_t{1} << 40;
      file_size = size;
    }
  });
  int opened = 0;
  // Where other processes hold up the writer, until it gets on.
  for (int i = 0; i < 200'000 || (opened == 0 && i < 20'000'000); ++i) {
    const auto view = View::open({ours, size}, {.validation = Validation::lazy});
    if (!view) continue;
    ++opened;
    EXPECT_EQ(view->file_size(), size);
    EXPECT_EQ(view->data_end(), size - sizeof(disk::Trailer));
  }
  stop = true;
  writer.join();
  EXPECT_GT(opened, 0);
  ::munmap(ours, size);
  ::munmap(theirs, size);
  ::close(file);
}

// The front in memory was measured by another header than the one that is in it now.
TEST(View, a_front_that_ends_before_its_data_offset_is_refused) {
  const Image image = Image::basic();
  const auto open = [&](std::uint64_t front) {
    return detail::ViewAccess::open({.front = image.span().first(front),
                                     .trailer = image.span().subspan(image.trailer()),
                                     .file_size = image.size(),
                                     .data = nullptr},
                                    {});
  };
  EXPECT_TRUE(open(image.header(24)));
  const auto cut = open(image.header(24) - 1);
  ASSERT_FALSE(cut);
  EXPECT_EQ(cut.error().code(), Code::corrupt);
}

TEST(View, unknown_types_are_listed_when_asked) {
  Image image = Image::sealed({{"a", Dtype::u8, {100}}, {"b", Dtype::f32, {2}}});
  image.set<std::uint32_t>(image.record(0) + 8, 0x80000001);
  image.reseal();
  EXPECT_EQ(image.open().error().code(), Code::unsupported);
  const View view = image.open({.unknown_dtypes = UnknownDtypes::accept}).value();
  const Tensor a = view.tensor("a").value();
  EXPECT_EQ(dtype_name(a.dtype()), "unknown");
  EXPECT_EQ(a.bytes().size(), 100u);
  EXPECT_FALSE(a.as<std::uint8_t>());
  EXPECT_TRUE(is_of<float>(*view.tensor("b")));
}

TEST(View, unknown_sections_and_high_flags_are_passed_over) {
  Image image = Image::sealed(
      {{"a", Dtype::u8, {1}}},
      {{static_cast<disk::SectionKind>(0x80000001), to_bytes("private bytes")}});
  image.set<std::uint64_t>(40, 3 | std::uint64_t{1} << 63);
  image.reseal();
  const View view = image.open().value();
  const auto bytes = view.section(static_cast<disk::SectionKind>(0x80000001)).value();
  ASSERT_TRUE(bytes);
  EXPECT_EQ(bytes->size(), 13u);
  EXPECT_TRUE(view.check_sections());
  const auto kinds = view.section_kinds();
  EXPECT_EQ(kinds.back(), static_cast<disk::SectionKind>(0x80000001));
  EXPECT_EQ(kinds.front(), disk::SectionKind::name_index);
}

// A view's file is not to change; if it does, nothing outside of it is read.
TEST(View, a_file_that_changes_is_an_error_or_gives_nothing) {
  using Kind = disk::SectionKind;
  Image image = Image::all_sections();
  const View view = image.open().value();
  const Groups groups = view.groups().value();
  const std::uint64_t entry = image.section_offset(Kind::groups) + 8;
  image.set<std::uint32_t>(entry + 12, 1000);  // tensors of the first group
  EXPECT_TRUE(groups[0].name.empty());
  image.set<std::uint32_t>(entry + 12, 1);
  EXPECT_FALSE(groups[0].name.empty());
  image.set<std::uint64_t>(entry, 1ull << 40);  // its name
  EXPECT_TRUE(groups[0].name.empty());

  image.set<std::uint32_t>(image.record(1) + 12, 1);  // padding
  EXPECT_EQ(view[1].error().code(), Code::corrupt);

  Image minimal = Image::minimal({{"a", Dtype::f32, {4}}, {"b", Dtype::f32, {4}}});
  const View other = minimal.open({.unsealed = Unsealed::accept}).value();
  minimal.set<std::uint32_t>(minimal.record(0) + 12, 1);
  minimal.set<std::uint32_t>(minimal.record(1) + 12, 1);
  EXPECT_EQ(other.find("a").error().code(), Code::corrupt);
  EXPECT_EQ(other.tensor("a").error().code(), Code::corrupt);
}

TEST(View, what_is_asked_for_and_not_there_is_an_error) {
  const Image image = Image::all_sections();
  const View view = image.open().value();
  EXPECT_EQ(view.digest(5).error().code(), Code::invalid_argument);
  EXPECT_EQ(view.quantization(2).error().code(), Code::invalid_argument);
  const Image without = Image::basic();
  const View plain = without.open().value();
  EXPECT_EQ(plain.quantization(0).error().code(), Code::invalid_argument);
}

TEST(View, without_its_data_gives_no_elements) {
  const Image image = Image::sealed({{"w", Dtype::f32, {4}}});
  const View view =
      detail::ViewAccess::open({.front = image.span(),
                                .trailer = image.span().last(sizeof(disk::Trailer)),
                                .file_size = image.size(),
                                .data = nullptr},
                               {})
          .value();
  const auto typed = view.tensor("w")->as<float>();
  ASSERT_FALSE(typed);
  EXPECT_NE(typed.error().message().find("not in memory"), std::string::npos);
}

// The parts in which large tables are proven, one after the other.
TEST(View, is_proven_in_parts_like_as_a_whole) {
  std::vector<ImageTensor> tensors;
  for (int i = 0; i < 16'400; ++i)
    tensors.push_back({"l" + std::to_string(i), Dtype::u8, {1}});
  Image image = Image::sealed(tensors);
  const auto in_turn = [](std::uint64_t count, const auto& part) -> Status {
    for (std::uint64_t i = 0; i < count; ++i) WEIG_TRY(part(i));
    return {};
  };
  const auto status = [&] {
    image.reseal();
    const View view = image.open({.validation = Validation::lazy}).value();
    return detail::ViewAccess::check_structure(view, in_turn);
  };
  EXPECT_TRUE(status());
  // A record of the second part, and the order across the border of both.
  for (const std::uint64_t broken : {16'390u, 16'384u}) {
    const std::uint64_t at = image.record(broken) + 32;
    const auto offset = image.get<std::uint64_t>(at);
    image.set(at, offset - 64 * (broken == 16'384u ? 3 : 100));
    EXPECT_EQ(status().error().code(), Code::corrupt) << broken;
    image.set(at, offset);
  }
  image.set<std::uint8_t>(image.header(48) - 1, 1);
  const View view = image.open({.validation = Validation::lazy}).value();
  EXPECT_NE(detail::ViewAccess::check_structure(view, in_turn)
                .error()
                .message()
                .find("damaged"),
            std::string::npos);
}

// More names than are looked up at a time.
TEST(View, misses_a_name_among_many) {
  std::vector<ImageTensor> tensors;
  for (int i = 0; i < 200; ++i) tensors.push_back({"l" + std::to_string(i)});
  Image image = Image::sealed(tensors);
  std::uint64_t slot = image.section_offset(disk::SectionKind::name_index) + 64;
  while (image.get<std::uint32_t>(slot + 4) != 1) slot += 8;
  image.set<std::uint64_t>(slot, 0);
  image.reseal();
  const auto view = image.open();
  ASSERT_FALSE(view);
  EXPECT_EQ(view.error().fields().what, "the name index does not lead to the tensor");
}

TEST(View, index_survives_colliding_probes) {
  // Full of names: lookups of all, and of as many absent ones.
  std::vector<ImageTensor> tensors;
  for (int i = 0; i < 3000; ++i)
    tensors.push_back({"layer." + std::to_string(i), Dtype::u8, {1}});
  const Image image = Image::sealed(tensors);
  const View view = image.open().value();
  for (int i = 0; i < 3000; ++i) {
    EXPECT_TRUE(view.find("layer." + std::to_string(i)).value());
    EXPECT_FALSE(view.find("layer." + std::to_string(i) + "x").value());
  }
}

TEST(Minimal, opens_only_when_asked) {
  const Image image =
      Image::minimal({{"w", Dtype::f32, {2, 3}}, {"b", Dtype::i16, {3}}});
  const auto refused = image.open();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), Code::unsupported);
  EXPECT_NE(refused.error().message().find("not sealed"), std::string::npos);
  const View view = image.open({.unsealed = Unsealed::accept}).value();
  EXPECT_FALSE(view.sealed());
  EXPECT_EQ(view.tensor("w")->element_count(), 6u);
  EXPECT_FALSE(view.find("x").value());
  EXPECT_FALSE(view.digest(0).value());
}

TEST(Minimal, data_may_come_in_any_order_and_be_shared) {
  Image image = Image::minimal(
      {{"z", Dtype::f32, {4}}, {"a", Dtype::f32, {4}}, {"m", Dtype::u8, {16}}});
  const auto first = image.get<std::uint64_t>(image.record(0) + 32);
  const auto second = image.get<std::uint64_t>(image.record(1) + 32);
  image.set(image.record(0) + 32, second);
  image.set(image.record(1) + 32, first);
  image.set(image.record(2) + 32, first);
  const View view = image.open({.unsealed = Unsealed::accept}).value();
  EXPECT_EQ(view.owner(2).value(), 1u);
  EXPECT_EQ(view.tensor("m")->data(), view.tensor("a")->data());
}

TEST(Minimal, data_off_its_alignment_is_given_as_bytes) {
  const Image image = Image::minimal({{"b", Dtype::u8, {1}}, {"w", Dtype::f32, {2}}},
                                     ByteOrder::little, 1);
  const View view = image.open({.unsealed = Unsealed::accept}).value();
  const Tensor w = view.tensor("w").value();
  EXPECT_EQ(w.bytes().size(), 8u);
  ASSERT_NE(reinterpret_cast<std::uintptr_t>(w.data()) % alignof(float), 0u);
  const auto typed = w.as<float>();
  ASSERT_FALSE(typed);
  EXPECT_EQ(typed.error().code(), kNativeOrder == ByteOrder::little
                                      ? Code::invalid_argument
                                      : Code::unsupported);
}

}  // namespace
}  // namespace weig::test
