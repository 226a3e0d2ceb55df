// SPDX-License-Identifier: Apache-2.0
// The reader of zip archives: what it finds lies in the file, and nothing lies in two
// places.
#include "formats/zip.h"

#include <algorithm>
#include <unordered_set>

#include "bytes_input.h"
#include "check.h"
#include "formats/zip_writer.h"
#include "image.h"
#include "manifest_promises.h"
#include "packed.h"
#include "seeds.h"
#include "target.h"

namespace weig::fuzz {
namespace {

using std::string_literals::operator""s;

constexpr std::uint64_t kWholeBytes = 1 << 16;

// Of a member, all that can be asked for.
void promise_bytes(const weig::Input& input, const ZipMember& member) {
  const auto front = read_member_front(input, member, 16);
  if (!front) {
    failure(front.error());
    return;
  }
  promise(front->size() == std::min<std::uint64_t>(16, member.bytes),
          "a member begins with as much as was asked for", member.name);
  const auto whole = read_member(input, member, kWholeBytes);
  if (!whole) {
    failure(whole.error());
    return;
  }
  promise(whole->size() == member.bytes && member.bytes <= kWholeBytes,
          "a member has as many bytes as it says", member.name);
  promise(std::ranges::equal(*front, Bytes(*whole).first(front->size())),
          "a member begins as its bytes do", member.name);
}

// Written by us with the same members, it is read as the same.
void promise_written(std::span<const ZipMember> members) {
  ZipWriter zip(64);
  std::string file;
  for (const ZipMember& member : members) file += zip.member(member.name, "x");
  file += zip.finish();
  const auto again = read_zip(input_over(bytes_of(file)));
  promise(again && again->size() == members.size(), "what is written is read");
  for (std::size_t i = 0; again && i < members.size(); ++i)
    promise((*again)[i].name == members[i].name && (*again)[i].begin % 64 == 0,
            "what is written is read as it was", members[i].name);
}

std::string packed_archive() {
  const auto packed = test::deflated(test::count_up(5000));
  ZipWriter zip(1);
  std::string file = zip.member("packed", text_of(packed)) + zip.finish();
  for (const auto& [mark, at] : {std::pair("PK\3\4", 8), {"PK\1\2", 10}}) {
    const std::size_t method = file.find(mark) + static_cast<std::size_t>(at);
    file[method] = 8;
    store(std::as_writable_bytes(std::span(file)).data() + method + 14,
          std::uint32_t{5000});
  }
  return file;
}

std::string streamed_archive() {
  ZipWriter zip(1);
  const std::string file = zip.begin_member("streamed", 3) + "abc";
  zip.set_crc(0, 0x352441C2);
  return file + zip.end_member(0) + zip.finish();
}

// With a 64-bit end that says what the other does.
std::string large_archive() {
  std::string file = streamed_archive();
  const std::size_t end = file.find("PK\5\6");
  std::string more = "PK\6\6\x2C"s + std::string(7 + 4 + 8, '\0');
  const auto put = [&](std::uint64_t value) {
    more.resize(more.size() + sizeof value);
    store(std::as_writable_bytes(std::span(more)).data() + more.size() - sizeof value,
          value);
  };
  put(1);
  put(1);
  put(load<std::uint32_t>(bytes_of(file).data() + end + 12));
  put(load<std::uint32_t>(bytes_of(file).data() + end + 16));
  more += "PK\6\7\0\0\0\0"s;
  put(end);
  more += "\1\0\0\0"s;
  return file.insert(end, more);
}

}  // namespace

void run_zip(Bytes input) {
  const Block file(input);
  const weig::Input in = input_over(file.bytes());
  const auto members = read_zip(in);
  if (!members) {
    failure(members.error());
    return;
  }
  std::unordered_set<std::string_view> names;
  std::vector<std::pair<std::uint64_t, std::uint64_t>> places;
  for (const ZipMember& member : *members) {
    promise(names.insert(member.name).second, "names are unique", member.name);
    promise(fits(member.begin, member.size, in.size), "members lie in the file",
            member.name);
    promise(member.is_deflated || member.size == member.bytes,
            "what is stored has one size", member.name);
    places.emplace_back(member.begin, member.begin + member.size);
    promise_bytes(in, member);
  }
  std::ranges::sort(places);
  for (std::size_t i = 1; i < places.size(); ++i)
    promise(places[i].first >= places[i - 1].second, "members do not overlap");
  promise_written(*members);
}

std::vector<Input> zip_seeds() {
  ZipWriter zip(64);
  std::string two = zip.member("a", "12345") + zip.member("b/c.npy", "");
  two += zip.finish();
  std::vector<Input> seeds;
  for (const std::string& file : {ZipWriter(1).finish(), two, packed_archive(),
                                  streamed_archive(), large_archive(), two + "x"})
    seeds.push_back(test::to_bytes(file));
  return seeds;
}

}  // namespace weig::fuzz
