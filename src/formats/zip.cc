// SPDX-License-Identifier: Apache-2.0
// Our own reader, and not a library's: those that there are believe the directory, and
// have no answer to whether members overlap, local headers say something else, or bytes
// belong to nobody, which is how two programs come to see two archives in one file.
#include "formats/zip.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <optional>
#include <unordered_set>

#include <libdeflate.h>

#include "core/digest.h"
#include "core/text.h"
#include "core/try.h"
#include "formats/inflate.h"

namespace weig {
namespace {

constexpr std::uint32_t kLocalMark = 0x04034B50;
constexpr std::uint32_t kDescriptorMark = 0x08074B50;
constexpr std::uint32_t kEntryMark = 0x02014B50;
constexpr std::uint32_t kLargeEndMark = 0x06064B50;
constexpr std::uint32_t kLargeLocatorMark = 0x07064B50;
constexpr std::uint32_t kEndMark = 0x06054B50;
constexpr std::uint64_t kLocalBytes = 30;
constexpr std::uint64_t kEntryBytes = 46;
constexpr std::uint64_t kEndBytes = 22;
constexpr std::uint64_t kLargeEndBytes = 56;
constexpr std::uint64_t kLargeLocatorBytes = 20;
constexpr std::uint64_t kMaxComment = 0xFFFF;
// A number that is as large as its field can hold is somewhere else, in 64 bits.
constexpr std::uint64_t kElsewhere = 0xFFFFFFFF;
constexpr std::uint64_t kManyElsewhere = 0xFFFF;
constexpr std::uint16_t kLargeId = 1;
constexpr std::uint16_t kEncrypted = 0x2041;  // in any of three ways
constexpr std::uint16_t kSizesBehind = 0x0008;
constexpr std::uint16_t kPatched = 0x0020;
constexpr std::uint16_t kStored = 0;
constexpr std::uint16_t kDeflated = 8;
// No deflate stream unpacks to more times its size.
constexpr std::uint64_t kMaxRatio = 1032;

Error corrupt(std::string what) { return Error(Code::corrupt, std::move(what)); }
Error one_of_several() {
  return Error(Code::unsupported, "the archive is one of several parts");
}
Error no_end(const Input& input) {
  return corrupt("the zip archive has no directory at its end")
      .found(std::to_string(input.size) + " bytes")
      .hint("the file was cut, or something follows it");
}
Error broken_large_end(std::uint64_t at) {
  return corrupt("the archive's 64-bit end is damaged").at(at);
}
Error broken_extra() { return corrupt("an extra field of the archive is damaged"); }
Error too_many(const char* what, std::uint64_t found, std::uint64_t most) {
  return Error(Code::limit, what)
      .found(found)
      .expected("at most " + std::to_string(most));
}
Error disagrees(const char* what, const std::string& name) {
  return corrupt("a member's own header and the directory disagree")
      .found(std::string(what) + " of " + in_quotes(name));
}

// Fields one after the other, which are all there.
class Fields {
 public:
  explicit Fields(Bytes bytes) : bytes_(bytes) {}
  std::uint64_t u16() { return next<std::uint16_t>(); }
  std::uint64_t u32() { return next<std::uint32_t>(); }
  std::uint64_t u64() { return next<std::uint64_t>(); }
  std::uint64_t left() const { return bytes_.size(); }
  Bytes take(std::uint64_t count) {
    const Bytes taken = bytes_.first(count);
    bytes_ = bytes_.subspan(count);
    return taken;
  }

 private:
  template <typename T>
  T next() {
    return load<T>(take(sizeof(T)).data());
  }
  Bytes bytes_;
};

// Where the directory lies.
struct Directory {
  std::uint64_t begin = 0;
  std::uint64_t size = 0;
  std::uint64_t count = 0;
};

Result<std::vector<std::byte>> bytes_at(const Input& input, std::uint64_t offset,
                                        std::uint64_t size) {
  std::vector<std::byte> bytes(size);
  WEIG_TRY(input.read(offset, bytes));
  return bytes;
}

// The place of the end record: the one mark whose comment is all that follows.
Result<std::uint64_t> find_end(const Input& input) {
  const std::uint64_t size = std::min(input.size, kEndBytes + kMaxComment);
  WEIG_TRY_ASSIGN(tail, bytes_at(input, input.size - size, size));
  std::optional<std::uint64_t> found;
  for (std::uint64_t at = 0; at + kEndBytes <= size; ++at) {
    if (tail[at] != std::byte{'P'} ||
        load<std::uint32_t>(tail.data() + at) != kEndMark ||
        load<std::uint16_t>(tail.data() + at + kEndBytes - 2) != size - at - kEndBytes)
      continue;
    if (found) return corrupt("the archive has two ends").at(input.size - size + at);
    found = input.size - size + at;
  }
  if (!found) return no_end(input);
  return *found;
}

// The directory as the 64-bit end record before the other has it, if there is one.
Result<std::optional<Directory>> find_large(const Input& input, std::uint64_t end,
                                            std::uint64_t& begin) {
  if (end < kLargeLocatorBytes) return std::optional<Directory>();
  const std::uint64_t locator_at = end - kLargeLocatorBytes;
  WEIG_TRY_ASSIGN(locator, bytes_at(input, locator_at, kLargeLocatorBytes));
  Fields fields(locator);
  if (fields.u32() != kLargeLocatorMark) return std::optional<Directory>();
  const std::uint64_t disk = fields.u32();
  const std::uint64_t at = fields.u64();
  const std::uint64_t disks = fields.u32();
  if (disk != 0 || disks > 1) return one_of_several().at(locator_at);
  if (!fits(at, kLargeEndBytes, locator_at)) return broken_large_end(locator_at);
  WEIG_TRY_ASSIGN(record, bytes_at(input, at, kLargeEndBytes));
  Fields in_record(record);
  if (in_record.u32() != kLargeEndMark || in_record.u64() != locator_at - at - 12)
    return broken_large_end(at);
  in_record.take(4);  // versions
  if (in_record.u32() != 0 || in_record.u32() != 0) return one_of_several().at(at);
  Directory directory;
  directory.count = in_record.u64();
  if (in_record.u64() != directory.count) return broken_large_end(at);
  directory.size = in_record.u64();
  directory.begin = in_record.u64();
  begin = at;
  return std::optional(directory);
}

Result<Directory> find_directory(const Input& input) {
  WEIG_TRY_ASSIGN(end, find_end(input));
  WEIG_TRY_ASSIGN(record, bytes_at(input, end, kEndBytes));
  Fields fields(record);
  fields.take(4);
  if (fields.u16() != 0 || fields.u16() != 0) return one_of_several().at(end);
  Directory directory;
  const std::uint64_t count_here = fields.u16();
  directory.count = fields.u16();
  directory.size = fields.u32();
  directory.begin = fields.u32();
  if (count_here != directory.count) return one_of_several().at(end);
  std::uint64_t directory_end = end;
  WEIG_TRY_ASSIGN(large, find_large(input, end, directory_end));
  if (large) {
    const auto differs = [](std::uint64_t small, std::uint64_t real,
                            std::uint64_t elsewhere) {
      return small != elsewhere && small != real;
    };
    if (differs(directory.count, large->count, kManyElsewhere) ||
        differs(directory.size, large->size, kElsewhere) ||
        differs(directory.begin, large->begin, kElsewhere))
      return corrupt("the two ends of the archive disagree").at(end);
    directory = *large;
  }
  if (!fits(directory.begin, directory.size, directory_end) ||
      directory.begin + directory.size != directory_end)
    return corrupt("the archive's directory does not lie before its end")
        .at(end)
        .found(extent_text(directory.begin, directory.size))
        .expected("an end at " + std::to_string(directory_end))
        .hint("something was put before the archive, or into it");
  return directory;
}

// A member as a header tells of it.
struct Header {
  std::uint16_t flags = 0;
  std::uint16_t method = 0;
  std::uint32_t crc = 0;
  std::uint64_t size = 0;
  std::uint64_t bytes = 0;
  std::uint64_t name_bytes = 0;
  std::uint64_t extra_bytes = 0;
};

// From the flags on, which both kinds have.
Header read_header(Fields& fields) {
  Header header;
  header.flags = static_cast<std::uint16_t>(fields.u16());
  header.method = static_cast<std::uint16_t>(fields.u16());
  fields.take(4);  // time and date
  header.crc = static_cast<std::uint32_t>(fields.u32());
  header.size = fields.u32();
  header.bytes = fields.u32();
  header.name_bytes = fields.u16();
  header.extra_bytes = fields.u16();
  return header;
}

// Numbers that stand in the extra fields, in the order in which they are missed.
Status read_large(Bytes extra, std::span<std::uint64_t* const> missed) {
  Fields fields(extra);
  bool found = false;
  while (fields.left() >= 4) {
    const std::uint64_t id = fields.u16();
    const std::uint64_t size = fields.u16();
    if (size > fields.left()) return broken_extra();
    Fields field(fields.take(size));
    if (id != kLargeId) continue;
    if (found) return broken_extra();
    found = true;
    for (std::uint64_t* const number : missed) {
      if (field.left() < 8) return broken_extra();
      *number = field.u64();
    }
  }
  if (!missed.empty() && !found) return broken_extra();
  return {};
}

// One archive, read step by step.
class ZipReader {
 public:
  ZipReader(const Input& input, const ZipOptions& options)
      : input_(input), options_(options) {}

  Result<std::vector<ZipMember>> read() {
    WEIG_TRY_ASSIGN(directory, find_directory(input_));
    directory_ = directory;
    WEIG_TRY(check_limits());
    WEIG_TRY(read_entries());
    WEIG_TRY(check_places());
    return std::move(members_);
  }

 private:
  // What is known of a member until its local header is compared.
  struct Place {
    std::uint64_t header_at = 0;
    Header header;
  };

  Status check_limits() const {
    if (directory_.count > options_.max_members)
      return too_many("the archive has more members than are allowed", directory_.count,
                      options_.max_members);
    if (directory_.size > options_.max_directory_bytes)
      return too_many("the archive's directory is larger than is allowed",
                      directory_.size, options_.max_directory_bytes);
    if (directory_.count > directory_.size / kEntryBytes)
      return corrupt("the archive's directory is too small for its members")
          .at(directory_.begin)
          .found(std::to_string(directory_.count) + " members in " +
                 std::to_string(directory_.size) + " bytes");
    return {};
  }

  Status read_entries() {
    InputCursor cursor(input_, directory_.begin, directory_.begin + directory_.size);
    std::unordered_set<std::string, SeededHash> names;
    members_.reserve(directory_.count);
    for (std::uint64_t i = 0; i < directory_.count; ++i) {
      const std::uint64_t at = cursor.offset();
      auto status = read_entry(cursor);
      if (!status) return at_place(std::move(status).error(), at);
      if (!names.insert(members_.back().name).second)
        return corrupt("two members of the archive have the same name")
            .at(at)
            .found(in_quotes(members_.back().name));
    }
    if (cursor.left() == 0) return {};
    return corrupt("the archive's directory goes on after its members")
        .at(cursor.offset());
  }

  static Error at_place(Error error, std::uint64_t at) {
    return error.fields().offset == Error::kNoOffset ? std::move(error).at(at) : error;
  }

  static Result<Bytes> take(InputCursor& cursor, std::uint64_t count) {
    if (count > cursor.left()) return corrupt("the archive's directory is cut");
    return cursor.take(count);
  }

  Status read_entry(InputCursor& cursor) {
    WEIG_TRY_ASSIGN(fixed, take(cursor, kEntryBytes));
    Fields fields(fixed);
    if (fields.u32() != kEntryMark)
      return corrupt("the archive's directory is damaged");
    fields.take(4);  // versions
    Place place{.header_at = 0, .header = read_header(fields)};
    Header& header = place.header;
    const std::uint64_t comment_bytes = fields.u16();
    const std::uint64_t disk = fields.u16();
    fields.take(6);  // attributes
    place.header_at = fields.u32();
    WEIG_TRY_ASSIGN(name_bytes, take(cursor, header.name_bytes));
    ZipMember member;
    member.name = text_of(name_bytes);
    WEIG_TRY_ASSIGN(extra, take(cursor, header.extra_bytes));
    std::vector<std::uint64_t*> missed;
    for (std::uint64_t* const number : {&header.bytes, &header.size, &place.header_at})
      if (*number == kElsewhere) missed.push_back(number);
    WEIG_TRY(read_large(extra, missed));
    if (auto comment = take(cursor, comment_bytes); !comment)
      return std::move(comment).error();
    if (disk != 0) return one_of_several();
    member.is_deflated = header.method == kDeflated;
    member.size = header.size;
    member.bytes = header.bytes;
    member.crc = header.crc;
    WEIG_TRY(check_member(member, header));
    members_.push_back(std::move(member));
    places_.push_back(place);
    return {};
  }

  static Error in_member(const ZipMember& member, Error error) {
    return std::move(error).found("in " + in_quotes(member.name));
  }

  static Status check_member(const ZipMember& member, const Header& header) {
    if ((header.flags & kEncrypted) != 0)
      return in_member(
          member, Error(Code::unsupported, "a member of the archive is encrypted"));
    if ((header.flags & kPatched) != 0 ||
        (header.method != kStored && header.method != kDeflated))
      return in_member(
          member, Error(Code::unsupported,
                        "a member of the archive is packed by a method that is not "
                        "read: " +
                            std::to_string(header.method)));
    if (member.name.find('\0') != member.name.npos)
      return in_member(member, corrupt("a member's name has a NUL character"));
    if (!member.is_deflated && member.size != member.bytes)
      return in_member(member, corrupt("a stored member has two sizes"));
    if (member.is_deflated && member.bytes / kMaxRatio > member.size)
      return in_member(member,
                       corrupt("a member says that it unpacks to more than it can"));
    return {};
  }

  // In the order of the file, members and what belongs to them follow each other from
  // its begin to the directory.
  Status check_places() {
    std::vector<std::uint32_t> order(members_.size());
    std::iota(order.begin(), order.end(), 0);
    std::ranges::sort(order, {}, [&](std::uint32_t i) { return places_[i].header_at; });
    std::uint64_t end = 0;  // of the one before
    const Place* before = nullptr;
    for (const std::uint32_t i : order) {
      WEIG_TRY(check_gap(before, end, places_[i].header_at));
      auto status = find_bytes(members_[i], places_[i]);
      if (!status) return at_place(std::move(status).error(), places_[i].header_at);
      end = members_[i].begin + members_[i].size;
      before = &places_[i];
    }
    return check_gap(before, end, directory_.begin);
  }

  // Between a member's end and what comes next there may be its sizes, no more.
  Status check_gap(const Place* before, std::uint64_t end, std::uint64_t next) const {
    if (next < end)
      return corrupt("members of the archive overlap")
          .at(next)
          .expected("at or after " + std::to_string(end));
    const std::uint64_t gap = next - end;
    if (before == nullptr || (before->header.flags & kSizesBehind) == 0) {
      if (gap == 0) return {};
      return corrupt("bytes of the archive belong to no member")
          .at(end)
          .found(std::to_string(gap) + " bytes");
    }
    if (gap == 12 || gap == 16 || gap == 20 || gap == 24) {
      WEIG_TRY_ASSIGN(bytes, bytes_at(input_, end, gap));
      Fields fields(bytes);
      const bool marked = gap == 16 || gap == 24;
      const bool as_it_must_be = !marked || fields.u32() == kDescriptorMark;
      const std::uint64_t crc = fields.u32();
      const bool wide = gap >= 20;
      const std::uint64_t size = wide ? fields.u64() : fields.u32();
      const std::uint64_t unpacked = wide ? fields.u64() : fields.u32();
      if (as_it_must_be && crc == before->header.crc && size == before->header.size &&
          unpacked == before->header.bytes)
        return {};
    }
    return corrupt("what follows a member of the archive are not its sizes")
        .at(end)
        .found(std::to_string(gap) + " bytes");
  }

  // By the local header, which must say what the directory says.
  Status find_bytes(ZipMember& member, const Place& place) const {
    const std::uint64_t fixed_bytes = kLocalBytes + member.name.size();
    if (!fits(place.header_at, fixed_bytes, directory_.begin))
      return corrupt("a member lies outside the archive")
          .found(in_quotes(member.name) + " at " + std::to_string(place.header_at));
    WEIG_TRY_ASSIGN(fixed, bytes_at(input_, place.header_at, fixed_bytes));
    Fields fields(fixed);
    if (fields.u32() != kLocalMark) return disagrees("the mark", member.name);
    fields.take(2);  // version
    Header local = read_header(fields);
    const Header& told = place.header;
    if (local.name_bytes != member.name.size() ||
        text_of(fields.take(fields.left())) != member.name)
      return disagrees("the name", member.name);
    if (local.method != told.method) return disagrees("the method", member.name);
    if (((local.flags ^ told.flags) & (kEncrypted | kSizesBehind)) != 0)
      return disagrees("the flags", member.name);
    const std::uint64_t extra_at = place.header_at + fixed_bytes;
    if (!fits(extra_at, local.extra_bytes, directory_.begin))
      return corrupt("a member lies outside the archive").found(in_quotes(member.name));
    WEIG_TRY_ASSIGN(extra, bytes_at(input_, extra_at, local.extra_bytes));
    std::vector<std::uint64_t*> missed;
    for (std::uint64_t* const number : {&local.bytes, &local.size})
      if (*number == kElsewhere) missed.push_back(number);
    WEIG_TRY(read_large(extra, missed));
    const bool behind = (local.flags & kSizesBehind) != 0;
    const auto other = [&](std::uint64_t here, std::uint64_t there) {
      return here != there && !(behind && here == 0);
    };
    if (other(local.crc, told.crc)) return disagrees("the checksum", member.name);
    if (other(local.size, told.size) || other(local.bytes, told.bytes))
      return disagrees("the size", member.name);
    member.begin = extra_at + local.extra_bytes;
    if (!fits(member.begin, member.size, directory_.begin))
      return corrupt("a member lies outside the archive")
          .found(in_quotes(member.name) + " of " + std::to_string(member.size) +
                 " bytes")
          .hint("the file was cut, or is damaged");
    return {};
  }

  const Input& input_;
  const ZipOptions& options_;
  Directory directory_;
  std::vector<ZipMember> members_;
  std::vector<Place> places_;  // of each
};

}  // namespace

Result<std::vector<ZipMember>> read_zip(const Input& input, const ZipOptions& options) {
  return ZipReader(input, options).read();
}

Result<std::vector<std::byte>> read_member(const Input& input, const ZipMember& member,
                                           std::uint64_t max_bytes) {
  if (member.bytes > max_bytes)
    return Error(Code::limit, "a member of the archive is larger than is allowed")
        .at(member.begin)
        .found(in_quotes(member.name) + " of " + std::to_string(member.bytes) +
               " bytes")
        .expected("at most " + std::to_string(max_bytes));
  WEIG_TRY_ASSIGN(bytes, read_member_front(input, member, member.bytes));
  const std::uint32_t crc = libdeflate_crc32(0, bytes.data(), bytes.size());
  if (crc != member.crc)
    return corrupt("a member of the archive has another checksum than it says")
        .at(member.begin)
        .found(in_quotes(member.name) + ", " + hex(crc))
        .expected(hex(member.crc));
  return std::move(bytes);
}

Result<std::vector<std::byte>> read_member_front(const Input& input,
                                                 const ZipMember& member,
                                                 std::uint64_t count) {
  std::vector<std::byte> bytes(std::min(count, member.bytes));
  if (!member.is_deflated) {
    WEIG_TRY(input.read(member.begin, bytes));
    return bytes;
  }
  Inflater inflater(input, member.begin, member.size, member.bytes);
  WEIG_TRY(inflater.read(bytes));
  return bytes;
}

ElementStorage storage_of(const ZipMember& member) {
  ElementStorage storage;
  if (member.is_deflated) storage.packing = ElementStorage::Packing::deflate;
  storage.begin = member.begin;
  storage.size = member.size;
  storage.bytes = member.bytes;
  storage.crc = member.crc;
  return storage;
}

}  // namespace weig
