// SPDX-License-Identifier: Apache-2.0
// Reading PyTorch's streams: one row for each refusal of docs/pytorch.md that archives
// do not have.
#include "formats/torch_stream.h"
#include "formats/torch_mark.h"

#include <gtest/gtest.h>

#include "bytes_input.h"
#include "image.h"
#include "pickle_bytes.h"
#include "torch_archive.h"
#include "torch_manifest.h"

namespace weig::test {
namespace {

using namespace pickled;
using std::string_literals::operator""s;

constexpr const char* kMagicBytes = "\x6C\xFC\x9C\x46\xF9\x20\x6A\xA8\x50\x19";

struct TorchStream {
  std::string magic = "\x80\x02\x8A\x0A" + std::string(kMagicBytes, 10) + ".";
  std::string protocol = stream("M\xE9\x03");
  std::string system = stream("}");
  std::string object = stream(with(pair()));
  std::string keys = stream(list({text("0")}));
  std::string storages = number(2, 8) + "12345678";

  std::string bytes() const {
    return magic + protocol + system + object + keys + storages;
  }
  Result<Manifest> read(const TorchOptions& options = {}) const {
    const std::string all = bytes();
    return read_torch_stream(input_over(all), options);
  }
};

TEST(TorchStream, finds_a_tensor_where_it_lies) {
  const TorchStream good;
  EXPECT_EQ(shown(good.read()),
            "w f32 2, " + std::to_string(good.bytes().size() - 8) + " 8");
}

TEST(TorchStream, is_known_by_its_number_in_every_protocol) {
  const auto known = [](const std::string& bytes) {
    return is_torch_stream(bytes_of(bytes));
  };
  const std::string number = "\x8A\x0A" + std::string(kMagicBytes, 10) + ".";
  const std::string decimal = "L119547037146038801333356L\n.";
  EXPECT_TRUE(known("\x80\x02" + number));
  EXPECT_TRUE(known("\x80\x03" + number));
  EXPECT_TRUE(known("\x80\x04\x95" + pickled::number(13, 8) + number));
  EXPECT_TRUE(known(decimal));
  EXPECT_FALSE(known("\x80\x02}."));
  EXPECT_FALSE(known("\x80"));
  EXPECT_FALSE(known("\x80\x04\x95"));
  EXPECT_FALSE(known(""));
  TorchStream spelled;
  spelled.magic = decimal;
  EXPECT_TRUE(spelled.read());
}

// As versions before 0.4 wrote views of storages.
TEST(TorchStream, a_part_of_a_storage_begins_where_it_says) {
  TorchStream parts;
  const auto part = [](std::int64_t first, std::int64_t count) {
    return tuple({text("storage"), global("torch", "ShortStorage"), text("0"),
                  text("cpu"), integer(4),
                  tuple({text("1"), integer(first), integer(count)})}) +
           "Q";
  };
  parts.object = stream(dict({text("w"), tensor(part(1, 2), 1, {1}, {1})}));
  parts.storages = number(4, 8) + "12345678";
  EXPECT_EQ(shown(parts.read()),
            "w i16 1, " + std::to_string(parts.bytes().size() - 4) + " 2");
  parts.object = stream(dict({text("w"), tensor(part(1, 2), 1, {2}, {1})}));
  EXPECT_NE(shown(parts.read()).find("beyond its storage"), std::string::npos);
  parts.object = stream(dict({text("w"), tensor(part(3, 2), 0, {1}, {1})}));
  EXPECT_NE(shown(parts.read()).find("a part of a storage reaches beyond it"),
            std::string::npos);
}

struct BadStream {
  const char* name;
  TorchStream stream;
  Code code;
  const char* says;
};

const std::vector<BadStream>& bad_torch_streams() {
  static const std::vector<BadStream> all = {
      {"magic", {.magic = stream(integer(5))}, Code::corrupt, "PyTorch's number"},
      {"protocol",
       {.protocol = stream(integer(1000))},
       Code::unsupported,
       "another protocol"},
      {"protocol_no_number",
       {.protocol = stream("N")},
       Code::unsupported,
       "another protocol"},
      {"one_name_twice",
       {.object = stream(dict({text("w"), pair(), text("w"), pair()}))},
       Code::corrupt,
       "same name"},
      {"harm_in_a_pickle_before",
       {.system = stream(call(global("posix", "system"), {text("true")}))},
       Code::unsupported,
       "wants to run programs"},
      {"no_list", {.keys = stream("}")}, Code::corrupt, "no list of its storages"},
      {"key_no_text",
       {.keys = stream(list({integer(0)}))},
       Code::corrupt,
       "by what is no text"},
      {"nobody_describes_it",
       {.keys = stream(list({text("1")}))},
       Code::corrupt,
       "that nothing describes"},
      {"quantized",
       {.object = stream(with(tensor(storage("QInt8Storage", "0", 8), 0, {8}, {1})))},
       Code::unsupported,
       "'torch.QInt8Storage'"},
      {"another_size",
       {.storages = number(1, 8) + "1234"},
       Code::corrupt,
       "another size than the pickle says"},
      {"cut_size", {.storages = "1234567"}, Code::corrupt, "outside the file"},
      {"cut_storage",
       {.storages = number(2, 8) + "1234567"},
       Code::corrupt,
       "outside the file"},
      {"storage_twice",
       {.keys = stream(list({text("0"), text("0")})),
        .storages = number(2, 8) + "12345678" + number(2, 8) + "12345678"},
       Code::corrupt,
       "a storage twice"},
      {"no_storage",
       {.keys = stream("]"), .storages = ""},
       Code::corrupt,
       "lacks the tensor's storage"},
      {"more_behind",
       {.storages = number(2, 8) + "12345678x"},
       Code::corrupt,
       "1 bytes after the last storage"},
  };
  return all;
}

class TorchStreamRefuses : public testing::TestWithParam<BadStream> {};

TEST_P(TorchStreamRefuses, with_its_own_words) {
  const BadStream& bad = GetParam();
  const auto manifest = bad.stream.read();
  ASSERT_FALSE(manifest) << shown(manifest);
  EXPECT_EQ(manifest.error().code(), bad.code) << manifest.error().message();
  EXPECT_NE(manifest.error().message().find(bad.says), std::string::npos)
      << manifest.error().message();
}

INSTANTIATE_TEST_SUITE_P(All, TorchStreamRefuses,
                         testing::ValuesIn(bad_torch_streams()),
                         [](const auto& row) { return row.param.name; });

TEST(TorchStream, what_is_behind_it_can_be_ignored) {
  const TorchStream more{.storages = number(2, 8) + "12345678xyz"};
  TorchOptions leniently;
  leniently.strictness = Strictness::lenient;
  const auto manifest = more.read(leniently);
  ASSERT_TRUE(manifest);
  EXPECT_TRUE(has(manifest->warnings, "3 bytes after the last storage"));
}

TEST(TorchStream, reads_that_fail) {
  const std::string all = TorchStream().bytes();
  fail_each_read(all, [](const Input& input) { return read_torch_stream(input, {}); });
}

// C36
TEST(TorchStream, is_refused_wherever_it_is_cut) {
  const std::string all = TorchStream().bytes();
  for (std::size_t size = 0; size < all.size(); ++size) {
    const std::string cut = all.substr(0, size);
    EXPECT_FALSE(read_torch_stream(input_over(cut), {})) << size;
  }
}

}  // namespace
}  // namespace weig::test
