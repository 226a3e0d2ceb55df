// SPDX-License-Identifier: Apache-2.0
// What is no weights file is named as what it looks like: one row for each.
#include "formats/sniff.h"

#include <gtest/gtest.h>

#include "image.h"

namespace weig::test {
namespace {

using std::string_literals::operator""s;

struct Looks {
  const char* name;
  std::string bytes;
  const char* says;
  const char* hint;
};

const std::vector<Looks>& lookalikes() {
  static const std::vector<Looks> all = {
      {"an_empty_file", "", "the file is empty", "interrupted"},
      {"git_lfs", "version https://git-lfs.github.com/spec/v1\noid sha256:1\n",
       "a Git LFS pointer", "git lfs pull"},
      {"git_lfs_behind_a_mark", "\xEF\xBB\xBFversion https://git-lfs.example/v9\n",
       "a Git LFS pointer", "git lfs pull"},
      {"html", "<!DOCTYPE html><html>", "an HTML page", "download"},
      {"html_in_capitals", "\r\n <HTML>\n", "an HTML page", "download"},
      {"html_head", "<head><title>404</title>", "an HTML page", "download"},
      {"xml", "<?xml version=\"1.0\"?><Code>AccessDenied</Code>", "an XML document",
       "download"},
      {"xml_error", "<Error><Code>NoSuchKey</Code></Error>", "an XML document",
       "download"},
      {"json_error", "{\"error\":\"Repository not found\"}", "a JSON error message",
       "download"},
      {"json", "{\"weight_map\":{}}", "JSON text", "the folder"},
      {"json_list", "[1,2,3]", "JSON text", "the folder"},
      {"gzip", "\x1F\x8B\x08\0\0\0\0\0"s, "a gzip archive", "unpack"},
      {"xz", "\xFD\x37zXZ\0\0\0"s, "an xz archive", "unpack"},
      {"zstd", "\x28\xB5\x2F\xFD........", "a zstd archive", "unpack"},
      {"tar", std::string(257, 'x') + "ustar" + std::string(200, '\0'), "a tar archive",
       "unpack"},
      {"pickle", "\x80\x04}.", "a pickle of Python", "torch.save"},
      {"zeros", std::string(400, '\0'), "nothing but zeros", "interrupted"},
      {"plain_text", "hello, world: this is plain text",
       "no weights file that weig reads", "may have been cut"},
      {"noise", std::string(64, '\x9D'), "no weights file that weig reads",
       "lists what it reads"},
  };
  return all;
}

class Sniff : public testing::TestWithParam<Looks> {};

TEST_P(Sniff, names_what_it_looks_like) {
  const Looks& row = GetParam();
  const auto content = sniff(to_bytes(row.bytes), row.bytes.size());
  ASSERT_FALSE(content);
  EXPECT_EQ(content.error().code(), Code::corrupt);
  const std::string message = content.error().message();
  EXPECT_NE(message.find(row.says), std::string::npos) << message;
  EXPECT_NE(message.find(row.hint), std::string::npos) << message;
}

INSTANTIATE_TEST_SUITE_P(Files, Sniff, testing::ValuesIn(lookalikes()),
                         [](const auto& row) { return std::string(row.param.name); });

TEST(SniffKnows, its_own_files) {
  const auto of = [](std::string_view bytes) {
    return sniff(to_bytes(bytes), bytes.size()).value();
  };
  EXPECT_EQ(of("GIEW...."), Content::weig);
  EXPECT_EQ(of("WEIG...."), Content::weig_big_endian);
  EXPECT_EQ(of("GGUF...."), Content::gguf);
  EXPECT_EQ(of("PK\x03\x04...."), Content::zip);
  EXPECT_EQ(of("PK\x05\x06...."), Content::zip);
  EXPECT_EQ(of("L119547037146038801333356L\n."), Content::torch_stream);
  EXPECT_EQ(of("\x02\0\0\0\0\0\0\0{}"s), Content::safetensors);
  // A length that spells another format's mark.
  EXPECT_EQ(of("\x1F\x8B\0\0\0\0\0\0"s + "{" + std::string(0x8B20, ' ')),
            Content::safetensors);
}

}  // namespace
}  // namespace weig::test
