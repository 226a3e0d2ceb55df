// SPDX-License-Identifier: Apache-2.0
#include "formats/npy.h"

#include <algorithm>
#include <unordered_set>

#include <weig/format.h>

#include "core/digest.h"
#include "core/text.h"
#include "core/try.h"
#include "formats/npy_header.h"

namespace weig {
namespace {

constexpr std::string_view kEnding = ".npy";
// Nearly every header is shorter.
constexpr std::uint64_t kUsualHeaderBytes = 256;
// What is packed is unpacked from its begin for every 64 MiB that are brought into
// row-major order: at most as many times as this has such parts.
constexpr std::uint64_t kMaxPackedColumns = std::uint64_t{4} << 30;
constexpr std::size_t kMostSkipped = 100;

std::string bytes_text(std::uint64_t bytes) { return std::to_string(bytes) + " bytes"; }

Status check_name(std::string_view name) {
  if (!is_utf8(name)) return Error(Code::corrupt, "the name is not UTF-8").tensor(name);
  if (name.size() > disk::kMaxNameBytes)
    return Error(Code::corrupt, "the name is too long")
        .tensor(name)
        .found(bytes_text(name.size()))
        .expected("at most 65535");
  return {};
}

// How far elements of column-major order lie apart; nothing where it is row-major order
// as well.
std::vector<std::uint64_t> strides_of(const NpyHeader& header) {
  if (header.order == ElementOrder::row_major || header.bytes == 0 ||
      std::ranges::count_if(header.shape, [](auto n) { return n > 1; }) < 2)
    return {};
  std::vector<std::uint64_t> strides;
  std::uint64_t step = 1;
  for (const std::uint64_t dimension : header.shape) {
    strides.push_back(step);
    step *= dimension;  // below 2^56: none is 0
  }
  return strides;
}

// The bytes of an array, header included.
struct Array {
  NpyHeader header;
  std::uint64_t data_begin = 0;
};

// Of a file or a member of `bytes` bytes, whose first ones `front` gives.
template <typename Front>
Result<Array> read_array(std::uint64_t bytes, const Front& front) {
  WEIG_TRY_ASSIGN(first, front(std::min(bytes, kUsualHeaderBytes)));
  WEIG_TRY_ASSIGN(begin, npy_data_begin(Bytes(first).first(
                             std::min<std::size_t>(first.size(), kNpyFrontBytes))));
  if (begin > bytes)
    return Error(Code::corrupt, "the .npy header is longer than the file")
        .found(bytes_text(begin))
        .expected("at most " + bytes_text(bytes));
  if (begin > first.size()) {
    WEIG_TRY_ASSIGN(all, front(begin));
    first = std::move(all);
  }
  WEIG_TRY_ASSIGN(header, read_npy_header(Bytes(first).first(begin)));
  if (header.bytes > bytes - begin)
    return Error(Code::corrupt, "the array is cut")
        .found(bytes_text(bytes - begin) + " of elements")
        .expected(bytes_text(header.bytes))
        .hint("its writing or its download was interrupted");
  return Array{std::move(header), begin};
}

class NpzReader {
 public:
  NpzReader(const Input& input, std::span<const ZipMember> members,
            Strictness strictness)
      : input_(input), members_(members), strictness_(strictness) {
    manifest_.file_size = input.size;
    manifest_.covers_file = false;
  }

  Result<Manifest> read() {
    WEIG_TRY(check_keys());
    for (const ZipMember& member : members_) WEIG_TRY(read_member(member));
    if (skipped_ > kMostSkipped)
      manifest_.skipped.push_back("and " + std::to_string(skipped_ - kMostSkipped) +
                                  " more like these");
    return std::move(manifest_);
  }

 private:
  // NumPy would find either of "a" and "a.npy" by the name "a".
  Status check_keys() const {
    std::unordered_set<std::string_view, SeededHash> arrays;
    for (const ZipMember& member : members_)
      if (member.name.ends_with(kEnding)) arrays.insert(name_of(member));
    for (const ZipMember& member : members_)
      if (!member.name.ends_with(kEnding) && arrays.contains(member.name))
        return Error(Code::corrupt, "two members of the archive are called the same")
            .tensor(member.name)
            .at(member.begin)
            .found(in_quotes(member.name) + " and " + in_quotes(member.name + ".npy"));
    return {};
  }

  static std::string_view name_of(const ZipMember& member) {
    const std::string_view name = member.name;
    return name.ends_with(kEnding) ? name.substr(0, name.size() - kEnding.size())
                                   : name;
  }

  Status read_member(const ZipMember& member) {
    auto status = add_member(member);
    if (status) return {};
    Error error = std::move(status).error();
    const bool may_skip =
        strictness_ == Strictness::lenient && error.code() == Code::unsupported;
    if (!may_skip) {
      if (error.fields().offset == Error::kNoOffset)
        error = std::move(error).at(member.begin);
      return std::move(error).tensor(name_of(member));
    }
    skip(member, error.fields().what);
    return {};
  }

  void skip(const ZipMember& member, const std::string& why) {
    if (++skipped_ <= kMostSkipped)
      manifest_.skipped.push_back("the archive's member " + in_quotes(member.name) +
                                  ": " + why);
  }

  // Places that errors name are the file's, where the member lies in it as it is.
  Status add_member(const ZipMember& member) {
    const auto front = [&](std::uint64_t count) {
      return read_member_front(input_, member, count);
    };
    if (!member.name.ends_with(kEnding)) {
      WEIG_TRY_ASSIGN(mark, front(kNpyMark.size()));
      if (text_of(mark) != kNpyMark) {
        if (!member.name.ends_with('/')) skip(member, "no array");
        return {};
      }
    }
    const std::string_view name = name_of(member);
    WEIG_TRY(check_name(name));
    auto array = read_array(member.bytes, front);
    if (!array) return in_file(std::move(array).error(), member);
    const NpyHeader& header = array->header;
    if (member.bytes - array->data_begin != header.bytes)
      return Error(Code::corrupt, "the member is longer than its array")
          .found(bytes_text(member.bytes - array->data_begin) + " of elements")
          .expected(bytes_text(header.bytes));
    ElementStorage storage = storage_of(member);
    storage.big_endian = header.is_big_endian;
    storage.first = array->data_begin;
    storage.strides = strides_of(header);
    if (member.is_deflated && !storage.strides.empty() &&
        header.bytes > kMaxPackedColumns)
      return Error(Code::limit, "a packed array in column-major order is too large")
          .found(bytes_text(header.bytes))
          .expected("at most " + bytes_text(kMaxPackedColumns))
          .hint("save it by numpy.savez, or in row-major order");
    manifest_.add(name, header.dtype, header.shape, header.bytes, std::move(storage));
    return {};
  }

  static Error in_file(Error error, const ZipMember& member) {
    const std::uint64_t offset = error.fields().offset;
    if (offset == Error::kNoOffset) return error;
    return std::move(error).at(member.is_deflated ? member.begin
                                                  : member.begin + offset);
  }

  const Input& input_;
  std::span<const ZipMember> members_;
  Strictness strictness_;
  std::size_t skipped_ = 0;
  Manifest manifest_;
};

}  // namespace

Result<Manifest> read_npy(const Input& input, std::string_view name,
                          Strictness strictness) {
  WEIG_TRY(check_name(name));
  const auto front = [&](std::uint64_t count) -> Result<std::vector<std::byte>> {
    std::vector<std::byte> bytes(count);
    WEIG_TRY(input.read(0, bytes));
    return bytes;
  };
  WEIG_TRY_ASSIGN(array, read_array(input.size, front));
  const NpyHeader& header = array.header;
  Manifest manifest;
  manifest.file_size = input.size;
  manifest.data_begin = array.data_begin;
  manifest.covers_file = false;
  const std::uint64_t end = array.data_begin + header.bytes;
  if (end < input.size) {
    const std::string what = bytes_text(input.size - end) + " after the array";
    if (strictness == Strictness::strict)
      return Error(Code::corrupt, what)
          .at(end)
          .hint(
              "of several arrays in one file only the first is read; "
              "'weig convert --lenient' ignores what is behind");
    manifest.warnings.push_back(what);
  }
  ElementStorage storage{.big_endian = header.is_big_endian,
                         .begin = array.data_begin,
                         .size = header.bytes,
                         .bytes = header.bytes,
                         .strides = strides_of(header)};
  if (storage.big_endian || !storage.strides.empty()) {
    manifest.add(name, header.dtype, header.shape, header.bytes, std::move(storage));
  } else {
    manifest.add(name, header.dtype, header.shape, array.data_begin, header.bytes);
  }
  return manifest;
}

bool is_npz(std::span<const ZipMember> members) {
  return members.empty() || std::ranges::any_of(members, [](const ZipMember& member) {
           return member.name.ends_with(kEnding);
         });
}

Result<Manifest> read_npz(const Input& input, std::span<const ZipMember> members,
                          Strictness strictness) {
  return NpzReader(input, members, strictness).read();
}

}  // namespace weig
