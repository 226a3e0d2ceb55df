// SPDX-License-Identifier: Apache-2.0
// Zip archives: what ZipWriter writes, read again, and one row for each refusal of
// docs/zip.md, "Archives".
#include "formats/zip.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "bytes_input.h"
#include "formats/zip_content.h"
#include "formats/zip_writer.h"
#include "image.h"
#include "packed.h"

namespace weig::test {
namespace {

using std::string_literals::operator""s;

Result<std::vector<ZipMember>> read(const std::string& file,
                                    const ZipOptions& options = {}) {
  return read_zip(input_over(file), options);
}

template <typename T>
void put(std::string& out, std::size_t at, T value) {
  store(std::as_writable_bytes(std::span(out)).data() + at, value);
}
template <typename T>
std::string number(T value) {
  std::string out(sizeof value, '\0');
  put(out, 0, value);
  return out;
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
};

// Where things are in that archive, and of what else is spoken.
const std::string kEntry = "PK\1\2", kLocal = "PK\3\4", kEnd = "PK\5\6";
const std::string kLargeEnd = "PK\6\6", kLocator = "PK\6\7", kBehind = "PK\7\10";
constexpr std::uint16_t kPaddingId = 0x4246;

// The same with a 64-bit end, which says nothing else.
std::string with_large_end() {
  std::string all = Archive().bytes();
  const std::size_t at = all.find(kEnd);
  const auto size = std::uint64_t{load<std::uint32_t>(bytes_of(all).data() + at + 12)};
  const auto begin = std::uint64_t{load<std::uint32_t>(bytes_of(all).data() + at + 16)};
  const std::uint64_t count = 2;
  all.insert(at, kLargeEnd + number(std::uint64_t{44}) + number(std::uint16_t{45}) +
                     number(std::uint16_t{45}) + number(std::uint64_t{0}) +
                     number(count) + number(count) + number(size) + number(begin) +
                     kLocator + number(std::uint32_t{0}) + number(std::uint64_t{at}) +
                     number(std::uint32_t{1}));
  return all;
}

std::string extra_field(std::uint16_t id, const std::string& body) {
  return number(id) + number(static_cast<std::uint16_t>(body.size())) + body;
}

// An extra field for the first member's entry, or for its own header.
void add_entry_extra(std::string& all, const std::string& extra) {
  const std::size_t at = all.find(kEntry), end = all.find(kEnd);
  const auto size = load<std::uint32_t>(bytes_of(all).data() + end + 12);
  put(all, end + 12, static_cast<std::uint32_t>(size + extra.size()));
  put(all, at + 30, static_cast<std::uint16_t>(extra.size()));
  all.insert(at + 46 + 3, extra);
}
void add_local_extra(std::string& all, const std::string& extra) {
  for (const std::size_t at : {all.rfind(kEntry) + 42, all.find(kEnd) + 16}) {
    const auto place = load<std::uint32_t>(bytes_of(all).data() + at);
    put(all, at, static_cast<std::uint32_t>(place + extra.size()));
  }
  put(all, 28, static_cast<std::uint16_t>(extra.size()));
  all.insert(30 + 3, extra);
}

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

TEST(Zip, a_small_archive_may_have_a_large_end) {
  EXPECT_EQ(read(with_large_end()).value().size(), 2u);
  std::string only_there = with_large_end();
  const std::size_t end = only_there.find(kEnd);
  put(only_there, end + 8, std::uint64_t{0xFFFFFFFFFFFFFFFF});
  put(only_there, end + 16, std::uint32_t{0xFFFFFFFF});
  EXPECT_EQ(read(only_there).value().size(), 2u);
}

TEST(Zip, a_small_member_may_have_large_fields) {
  std::string all = Archive().bytes();
  const std::string sizes = number(std::uint64_t{5}) + number(std::uint64_t{5});
  const std::size_t entry = all.find(kEntry);
  for (const std::size_t at : {std::size_t{18}, entry + 20})
    put(all, at, std::uint64_t{0xFFFFFFFFFFFFFFFF});
  put(all, entry + 42, std::uint32_t{0xFFFFFFFF});
  add_entry_extra(all, extra_field(1, sizes + number(std::uint64_t{0})));
  add_local_extra(all, extra_field(kPaddingId, "ab") + extra_field(1, sizes));
  const auto members = read(all).value();
  EXPECT_EQ(members[0].size, 5u);
  EXPECT_EQ(all.substr(members[0].begin, 5), "12345");
}

// Some writers leave out the mark, some write 64 bits.
TEST(Zip, sizes_behind_a_member_are_written_in_four_ways) {
  const Archive archive;
  const std::string crc = archive.behind.substr(4, 4);
  const std::string wide = number(std::uint64_t{8}) + number(std::uint64_t{8});
  for (const std::string& behind :
       {archive.behind, archive.behind.substr(4), kBehind + crc + wide, crc + wide}) {
    std::string all = archive.first + archive.before + archive.data + behind;
    const std::size_t begin = all.size();
    all += archive.directory;
    put(all, all.find(kEnd) + 16, static_cast<std::uint32_t>(begin));
    EXPECT_EQ(read(all).value().size(), 2u) << behind.size();
  }
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
  const char* row;
  const char* says;
  Code code;
  // What is done to a sound archive.
  std::function<void(std::string& all)> bend;
  ZipOptions options = {};
};

// A number that stands `at` bytes behind the first of such marks, or the last.
template <typename T>
std::function<void(std::string&)> first(const std::string& mark, std::size_t at,
                                        T value) {
  return [=](std::string& all) { put(all, all.find(mark) + at, value); };
}
template <typename T>
std::function<void(std::string&)> last(const std::string& mark, std::size_t at,
                                       T value) {
  return [=](std::string& all) { put(all, all.rfind(mark) + at, value); };
}
// In the first member's own header and in the directory.
template <typename T>
std::function<void(std::string&)> both(std::size_t at, T value) {
  return [=](std::string& all) {
    put(all, at, value);
    put(all, all.find(kEntry) + at + (at < 30 ? 2 : 16), value);
  };
}
// In an archive with a 64-bit end.
template <typename T>
std::function<void(std::string&)> large(const std::string& mark, std::size_t at,
                                        T value) {
  return [=](std::string& all) {
    all = with_large_end();
    put(all, all.find(mark) + at, value);
  };
}

// The first member takes all up to the directory, in which the second one begins.
void cover_second(std::string& all) {
  const std::size_t directory = all.find(kEntry);
  both(18, static_cast<std::uint32_t>(directory - 33))(all);
  both(22, static_cast<std::uint32_t>(directory - 33))(all);
  put(all, all.rfind(kEntry) + 42, static_cast<std::uint32_t>(directory));
}

const std::vector<BadZip>& bad_zips() {
  using u8 = std::uint8_t;
  using u16 = std::uint16_t;
  using u32 = std::uint32_t;
  using u64 = std::uint64_t;
  constexpr u32 kMissed = 0xFFFFFFFF;
  static const std::vector<BadZip> rows = {
      {"zip_short", "no directory at its end", Code::corrupt,
       [](std::string& all) { all = "PK"; }},
      {"zip_cut", "no directory at its end", Code::corrupt,
       [](std::string& all) { all.pop_back(); }},
      {"zip_followed", "no directory at its end", Code::corrupt,
       [](std::string& all) { all += 'x'; }},
      {"zip_two_ends", "two ends", Code::corrupt,
       [](std::string& all) {
         const std::string end = all.substr(all.find(kEnd));
         put(all, all.size() - 2, static_cast<u16>(end.size()));
         all += end;
       }},
      {"zip_large_end_disk", "several parts", Code::unsupported,
       large(kLocator, 4, u32{1})},
      {"zip_large_end_disks", "several parts", Code::unsupported,
       large(kLocator, 16, u32{2})},
      {"zip_large_end_place", "64-bit end is damaged", Code::corrupt,
       large(kLocator, 8, ~u64{0})},
      {"zip_large_end_mark", "64-bit end is damaged", Code::corrupt,
       large(kLargeEnd, 0, u8{'p'})},
      {"zip_large_end_size", "64-bit end is damaged", Code::corrupt,
       large(kLargeEnd, 4, u64{45})},
      {"zip_large_end_on_disk", "several parts", Code::unsupported,
       large(kLargeEnd, 16, u32{1})},
      {"zip_large_end_directory_on_disk", "several parts", Code::unsupported,
       large(kLargeEnd, 20, u32{1})},
      {"zip_large_end_counts", "64-bit end is damaged", Code::corrupt,
       large(kLargeEnd, 24, u64{3})},
      {"zip_ends_differ_in_count", "two ends of the archive disagree", Code::corrupt,
       large(kEnd, 8, u32{0x10001})},
      {"zip_ends_differ_in_size", "two ends of the archive disagree", Code::corrupt,
       large(kEnd, 12, u32{1})},
      {"zip_ends_differ_in_place", "two ends of the archive disagree", Code::corrupt,
       large(kEnd, 16, u32{1})},
      {"zip_disk", "several parts", Code::unsupported, first(kEnd, 4, u16{1})},
      {"zip_directory_on_disk", "several parts", Code::unsupported,
       first(kEnd, 6, u16{1})},
      {"zip_counts_differ", "several parts", Code::unsupported, first(kEnd, 8, u16{1})},
      {"zip_preceded", "does not lie before its end", Code::corrupt,
       [](std::string& all) { all.insert(0, "x"); }},
      {"zip_directory_that_wraps", "does not lie before its end", Code::corrupt,
       [](std::string& all) {
         all = with_large_end();
         const std::size_t end = all.find(kLargeEnd);
         put(all, end + 40, u64{1} << 63);
         put(all, end + 48, end + (u64{1} << 63));
         put(all, all.find(kEnd) + 12, u64{0xFFFFFFFFFFFFFFFF});
       }},
      {"zip_members_above_the_limit",
       "more members than are allowed",
       Code::limit,
       [](std::string&) {},
       {.max_members = 1}},
      {"zip_directory_above_the_limit",
       "directory is larger than is allowed",
       Code::limit,
       [](std::string&) {},
       {.max_members = 2, .max_directory_bytes = 50}},
      {"zip_more", "too small for its members", Code::corrupt,
       first(kEnd, 8, u32{0x90009})},
      {"zip_fewer", "goes on after its members", Code::corrupt,
       first(kEnd, 8, u32{0x10001})},
      {"zip_entry_mark", "directory is damaged", Code::corrupt,
       last(kEntry, 0, u8{'p'})},
      {"zip_entry_cut", "directory is cut", Code::corrupt, last(kEntry, 30, u16{5000})},
      {"zip_comment_cut", "directory is cut", Code::corrupt,
       last(kEntry, 32, u16{5000})},
      {"zip_name_twice", "the same name", Code::corrupt,
       [](std::string& all) {
         for (std::size_t at = all.find("two"); at != all.npos; at = all.find("two"))
           all.replace(at, 3, "one");
       }},
      {"zip_extra_cut", "extra field of the archive is damaged", Code::corrupt,
       [](std::string& all) {
         add_entry_extra(all, number(kPaddingId) + number(u16{9}));
       }},
      {"zip_local_extra_cut", "extra field of the archive is damaged", Code::corrupt,
       [](std::string& all) {
         add_local_extra(all, number(kPaddingId) + number(u16{9}));
       }},
      {"zip_large_field_twice", "extra field of the archive is damaged", Code::corrupt,
       [](std::string& all) {
         add_entry_extra(all, extra_field(1, "") + extra_field(1, ""));
       }},
      {"zip_large_field_short", "extra field of the archive is damaged", Code::corrupt,
       [](std::string& all) {
         put(all, all.find(kEntry) + 24, kMissed);
         add_entry_extra(all, extra_field(1, number(u32{5})));
       }},
      {"zip_large_field_missing", "extra field of the archive is damaged",
       Code::corrupt, first(kEntry, 42, kMissed)},
      {"zip_member_on_disk", "several parts", Code::unsupported,
       first(kEntry, 34, u16{1})},
      {"zip_encrypted", "encrypted", Code::unsupported, both(6, u16{0x801})},
      {"zip_method", "not read: 12", Code::unsupported, both(8, u16{12})},
      {"zip_patch", "not read", Code::unsupported, both(6, u16{0x820})},
      {"zip_name_with_nul", "NUL character", Code::corrupt, both(31, u8{0})},
      {"zip_stored_sizes", "two sizes", Code::corrupt, both(22, u32{6})},
      {"zip_ratio", "unpacks to more than it can", Code::corrupt,
       [](std::string& all) {
         both(8, u16{8})(all);
         both(22, u32{5 * 1032 + 1032})(all);
       }},
      {"zip_local_mark", "the mark", Code::corrupt, first(kLocal, 0, u8{'p'})},
      {"zip_local_name", "the name", Code::corrupt, first(kLocal, 30, u8{'O'})},
      {"zip_local_name_length", "the name", Code::corrupt, first(kLocal, 26, u16{4})},
      {"zip_local_method", "the method", Code::corrupt, first(kLocal, 8, u16{8})},
      {"zip_local_flags", "the flags", Code::corrupt, first(kLocal, 6, u16{0x808})},
      {"zip_local_checksum", "the checksum", Code::corrupt, first(kLocal, 14, u32{1})},
      {"zip_local_size", "the size", Code::corrupt, first(kLocal, 18, u32{4})},
      {"zip_local_unpacked_size", "the size", Code::corrupt, first(kLocal, 22, u32{4})},
      {"zip_local_extra", "outside the archive", Code::corrupt,
       first(kLocal, 28, u16{60'000})},
      {"zip_outside", "outside the archive", Code::corrupt,
       [](std::string& all) {
         both(18, u32{60'000})(all);
         both(22, u32{60'000})(all);
       }},
      {"zip_header_in_the_directory", "outside the archive", Code::corrupt,
       cover_second},
      {"zip_overlap", "overlap", Code::corrupt, last(kEntry, 42, u32{10})},
      {"zip_gap", "belong to no member", Code::corrupt, first(kEntry, 42, u32{1})},
      {"zip_size_behind", "are not its sizes", Code::corrupt,
       first(kBehind, 8, u32{9})},
      {"zip_unpacked_size_behind", "are not its sizes", Code::corrupt,
       first(kBehind, 12, u32{9})},
      {"zip_checksum_behind", "are not its sizes", Code::corrupt,
       first(kBehind, 4, u32{9})},
      {"zip_mark_behind", "are not its sizes", Code::corrupt,
       first(kBehind, 0, u8{'p'})},
      {"zip_gap_behind", "are not its sizes", Code::corrupt,
       [](std::string& all) {
         const std::size_t directory = all.find(kEntry);
         put(all, all.find(kEnd) + 16, static_cast<u32>(directory + 1));
         all.insert(directory, "x");
       }},
  };
  return rows;
}

class ZipRefuses : public testing::TestWithParam<BadZip> {};

TEST_P(ZipRefuses, with_its_own_words) {
  const BadZip& bad = GetParam();
  std::string all = Archive().bytes();
  bad.bend(all);
  const auto members = read(all, bad.options);
  ASSERT_FALSE(members);
  EXPECT_EQ(members.error().code(), bad.code) << members.error().message();
  EXPECT_NE(members.error().message().find(bad.says), std::string::npos)
      << members.error().message();
}

INSTANTIATE_TEST_SUITE_P(All, ZipRefuses, testing::ValuesIn(bad_zips()),
                         [](const auto& row) { return row.param.row; });

// C36
TEST(Zip, is_refused_wherever_it_is_cut) {
  const std::string all = Archive().bytes();
  for (std::size_t size = 0; size < all.size(); ++size)
    EXPECT_FALSE(read(all.substr(0, size))) << size;
}

// Whichever read fails first.
TEST(Zip, hands_on_what_reading_says) {
  const std::string all = with_large_end();
  const Input sound = input_over(all);
  for (int good = 0;; ++good) {
    int left = good;
    const Input input{.size = sound.size,
                      .read = [&](std::uint64_t at, MutableBytes out) -> Status {
                        if (left-- == 0) return Error(Code::io, "no more");
                        return sound.read(at, out);
                      }};
    const auto members = read_zip(input);
    if (members) {
      EXPECT_GE(good, 8);
      return;
    }
    EXPECT_EQ(members.error().code(), Code::io) << good;
  }
}

// A file of packed numbers, and the member that they are.
struct Packed {
  std::vector<std::byte> bytes = count_up(100'000);
  std::string file;
  ZipMember member;

  Packed() {
    const auto packed = deflated(bytes);
    file = text_of(packed);
    member = {.name = "m",
              .is_deflated = true,
              .begin = 0,
              .size = packed.size(),
              .bytes = bytes.size(),
              .crc = static_cast<std::uint32_t>(
                  crc32(0, reinterpret_cast<const Bytef*>(bytes.data()),
                        static_cast<uInt>(bytes.size())))};
  }
};

TEST(Zip, reads_members) {
  const Packed packed;
  const Input input = input_over(packed.file);
  EXPECT_EQ(read_member(input, packed.member, 100'000).value(), packed.bytes);
  const auto front = read_member_front(input, packed.member, 10).value();
  EXPECT_TRUE(std::ranges::equal(front, Bytes(packed.bytes).first(10)));
  EXPECT_EQ(storage_of(packed.member).packing, ElementStorage::Packing::deflate);
  EXPECT_EQ(storage_of(packed.member).crc, packed.member.crc);
}

TEST(Zip, member_above_the_limit) {
  const Packed packed;
  const auto bytes = read_member(input_over(packed.file), packed.member, 99'999);
  ASSERT_FALSE(bytes);
  EXPECT_EQ(bytes.error().code(), Code::limit);
}

TEST(Zip, member_with_another_checksum) {
  Packed packed;
  packed.member.crc ^= 1;
  const auto bytes = read_member(input_over(packed.file), packed.member, 100'000);
  ASSERT_FALSE(bytes);
  EXPECT_EQ(bytes.error().code(), Code::corrupt);
  EXPECT_NE(bytes.error().message().find("another checksum"), std::string::npos);
}

TEST(Zip, members_that_cannot_be_read) {
  Packed packed;
  packed.file[0] = '\xFF';
  EXPECT_FALSE(read_member_front(input_over(packed.file), packed.member, 10));
  packed.member.is_deflated = false;
  const std::string nothing;
  EXPECT_FALSE(read_member_front(input_over(nothing), packed.member, 10));
}

TEST(Zip, archives_of_other_things) {
  EXPECT_EQ(sniff_zip({}).value(), ZipContent::npz);
  const std::vector<ZipMember> members = {{.name = "a.txt"}};
  const auto content = sniff_zip(members);
  ASSERT_FALSE(content);
  EXPECT_NE(content.error().message().find("other things"), std::string::npos);
}

}  // namespace
}  // namespace weig::test
