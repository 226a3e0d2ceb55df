// SPDX-License-Identifier: Apache-2.0
// Zip archives: what ZipWriter writes, read again, and bent.
#include "formats/zip.h"

#include <gtest/gtest.h>

#include "formats/zip_writer.h"
#include "image.h"

namespace weig::test {
namespace {

using std::string_literals::operator""s;

Result<std::vector<ZipMember>> read(const std::string& file,
                                    const ZipOptions& options = {}) {
  const Input input{
      .size = file.size(), .read = [&](std::uint64_t at, MutableBytes out) {
        std::ranges::copy(bytes_of(file).subspan(at, out.size()), out.begin());
        return Status();
      }};
  return read_zip(input, options);
}

// Two members, the second with its sizes behind it.
struct Archive {
  std::string first, before, data = "abcdefgh", behind, directory;

  Archive() {
    ZipWriter zip(1);
    first = zip.member("one", "12345");
    before = zip.begin_member("two", data.size());
    zip.set_crc(1, 0x1234);
    behind = zip.end_member(1);
    directory = zip.finish();
  }
  std::string bytes() const { return first + before + data + behind + directory; }
  // An archive with a field of the entry, of the local header or of the end changed.
  template <typename T>
  std::string with(const std::string& where, std::size_t at, T value) const {
    std::string out = bytes();
    store(std::as_writable_bytes(std::span(out)).data() + out.find(where) + at, value);
    return out;
  }
};

const std::string kEntry = "PK\1\2", kLocal = "PK\3\4", kEnd = "PK\5\6";

TEST(Zip, finds_members_where_they_lie) {
  const Archive archive;
  const auto members = read(archive.bytes()).value();
  ASSERT_EQ(members.size(), 2u);
  EXPECT_EQ(members[0].name, "one");
  EXPECT_EQ(archive.bytes().substr(members[0].begin, members[0].size), "12345");
  EXPECT_EQ(archive.bytes().substr(members[1].begin, members[1].size), "abcdefgh");
  EXPECT_EQ(members[1].crc, 0x1234u);
  EXPECT_FALSE(storage_of(members[0]).strides.size());
}

TEST(Zip, an_archive_may_be_empty_and_have_a_comment) {
  EXPECT_EQ(read(ZipWriter(64).finish())->size(), 0u);
  Archive archive;
  std::string commented = archive.bytes() + "comment";
  store(std::as_writable_bytes(std::span(commented)).data() + commented.size() - 9,
        std::uint16_t{7});
  EXPECT_EQ(read(commented)->size(), 2u);
}

TEST(Zip, writes_and_reads_more_than_65535_members) {
  ZipWriter zip(1);
  std::string all;
  for (int i = 0; i < 70'000; ++i) all += zip.member(std::to_string(i), "");
  const auto members = read(all + zip.finish()).value();
  ASSERT_EQ(members.size(), 70'000u);
  EXPECT_EQ(members.back().name, "69999");
}

TEST(Zip, writes_places_and_sizes_beyond_32_bits) {
  ZipWriter zip(64);
  const std::uint64_t large = std::uint64_t{5} << 30;
  const std::string before = zip.begin_member("large", large);
  const std::string behind = zip.end_member(0);
  const std::string second = zip.member("second", "x");
  const std::string directory = zip.finish();
  const std::uint64_t tail_at = before.size() + large;
  const std::string tail = behind + second + directory;
  // A file with a hole.
  const Input input{.size = tail_at + tail.size(),
                    .read = [&](std::uint64_t at, MutableBytes out) {
                      for (std::size_t i = 0; i < out.size(); ++i) {
                        const std::uint64_t place = at + i;
                        const char byte = place < before.size() ? before[place]
                                          : place < tail_at     ? '\0'
                                                                : tail[place - tail_at];
                        out[i] = static_cast<std::byte>(byte);
                      }
                      return Status();
                    }};
  const auto members = read_zip(input).value();
  ASSERT_EQ(members.size(), 2u);
  EXPECT_EQ(members[0].size, large);
  EXPECT_EQ(members[0].begin % 64, 0u);
  EXPECT_EQ(members[1].begin % 64, 0u);
  EXPECT_GT(members[1].begin, large);
}

struct BadZip {
  const char* name;
  std::string bytes;
  Code code;
  const char* says;
};

const std::vector<BadZip>& bad_zips() {
  const Archive good;
  const std::string all = good.bytes();
  const std::size_t before_end = all.size() - 22;
  const auto entry = [&](std::size_t at, auto value) {
    return good.with(kEntry, at, value);
  };
  const auto local = [&](std::size_t at, auto value) {
    return good.with(kLocal, at, value);
  };
  const auto end = [&](std::size_t at, auto value) {
    return good.with(kEnd, at, value);
  };
  const auto both = [&](std::size_t at, auto value) {
    std::string out = entry(at + 2, value);
    store(std::as_writable_bytes(std::span(out)).data() + at, value);
    return out;
  };
  ZipWriter same(1);
  std::string twice = same.member("a", "1");
  twice += same.member("a", "2");
  twice += same.finish();
  static const std::vector<BadZip> rows = {
      {"zip_short", "PK", Code::corrupt, "no directory at its end"},
      {"zip_cut", all.substr(0, all.size() - 1), Code::corrupt,
       "no directory at its end"},
      {"zip_followed", all + "x", Code::corrupt, "no directory at its end"},
      {"zip_two_ends",
       all.substr(0, all.size() - 2) + "\x16\0"s + all.substr(before_end),
       Code::corrupt, "two ends"},
      {"zip_disk", end(4, std::uint16_t{1}), Code::unsupported, "several parts"},
      {"zip_counts_differ", end(8, std::uint16_t{1}), Code::unsupported,
       "several parts"},
      {"zip_member_on_disk", entry(34, std::uint16_t{1}), Code::unsupported,
       "several parts"},
      {"zip_preceded", "x" + all, Code::corrupt, "does not lie before its end"},
      {"zip_fewer",
       [&] {
         std::string out = end(8, std::uint16_t{1});
         store(std::as_writable_bytes(std::span(out)).data() + before_end + 10,
               std::uint16_t{1});
         return out;
       }(),
       Code::corrupt, "goes on after its members"},
      {"zip_more",
       [&] {
         std::string out = end(8, std::uint16_t{9});
         store(std::as_writable_bytes(std::span(out)).data() + before_end + 10,
               std::uint16_t{9});
         return out;
       }(),
       Code::corrupt, "too small for its members"},
      {"zip_entry_mark", entry(0, std::uint8_t{'p'}), Code::corrupt,
       "directory is damaged"},
      {"zip_entry_cut", entry(32, std::uint16_t{5000}), Code::corrupt,
       "directory is cut"},
      {"zip_name_twice", twice, Code::corrupt, "the same name"},
      {"zip_encrypted", both(6, std::uint16_t{0x801}), Code::unsupported, "encrypted"},
      {"zip_method", both(8, std::uint16_t{12}), Code::unsupported, "not read: 12"},
      {"zip_patch", both(6, std::uint16_t{0x820}), Code::unsupported, "not read"},
      {"zip_name_with_nul", both(28, std::uint8_t{0}).replace(30, 1, 1, '\0'),
       Code::corrupt, "header and the directory disagree"},
      {"zip_stored_sizes", entry(24, std::uint32_t{6}), Code::corrupt, "two sizes"},
      {"zip_ratio",
       [&] {
         std::string out = both(8, std::uint16_t{8});
         store(std::as_writable_bytes(std::span(out)).data() + out.find(kEntry) + 24,
               std::uint32_t{1} << 20);
         return out;
       }(),
       Code::corrupt, "unpacks to more than it can"},
      {"zip_missing_large_field", entry(42, std::uint32_t{0xFFFFFFFF}), Code::corrupt,
       "extra field of the archive is damaged"},
      {"zip_local_mark", local(0, std::uint8_t{'p'}), Code::corrupt, "the mark"},
      {"zip_local_name", local(30, std::uint8_t{'O'}), Code::corrupt, "the name"},
      {"zip_local_method", local(8, std::uint16_t{8}), Code::corrupt, "the method"},
      {"zip_local_flags", local(6, std::uint16_t{0x808}), Code::corrupt, "the flags"},
      {"zip_local_checksum", local(14, std::uint32_t{1}), Code::corrupt,
       "the checksum"},
      {"zip_local_size", local(18, std::uint32_t{4}), Code::corrupt, "the size"},
      {"zip_local_extra", local(28, std::uint16_t{60'000}), Code::corrupt,
       "outside the archive"},
      {"zip_overlap",
       good.with("two", 0, std::uint8_t{'t'}).replace(all.rfind("two") - 4, 4, 4, '\0'),
       Code::corrupt, "overlap"},
      {"zip_gap", good.with(kEntry, 42, std::uint32_t{1}), Code::corrupt,
       "belong to no member"},
      {"zip_sizes_behind", good.with("PK\7\10", 8, std::uint32_t{9}), Code::corrupt,
       "are not its sizes"},
      {"zip_checksum_behind", good.with("PK\7\10", 4, std::uint32_t{9}), Code::corrupt,
       "are not its sizes"},
  };
  return rows;
}

class ZipRefuses : public testing::TestWithParam<BadZip> {};

TEST_P(ZipRefuses, with_its_own_words) {
  const BadZip& bad = GetParam();
  const auto members = read(bad.bytes);
  ASSERT_FALSE(members);
  EXPECT_EQ(members.error().code(), bad.code) << members.error().message();
  EXPECT_NE(members.error().message().find(bad.says), std::string::npos)
      << members.error().message();
}

INSTANTIATE_TEST_SUITE_P(All, ZipRefuses, testing::ValuesIn(bad_zips()),
                         [](const auto& row) { return row.param.name; });

TEST(Zip, limits_can_be_lower) {
  const std::string all = Archive().bytes();
  EXPECT_EQ(read(all, {.max_members = 1}).error().code(), Code::limit);
  EXPECT_EQ(read(all, {.max_members = 2, .max_directory_bytes = 50}).error().code(),
            Code::limit);
}

// C36
TEST(Zip, is_refused_wherever_it_is_cut) {
  const std::string all = Archive().bytes();
  for (std::size_t size = 0; size < all.size(); ++size)
    EXPECT_FALSE(read(all.substr(0, size))) << size;
}

}  // namespace
}  // namespace weig::test
