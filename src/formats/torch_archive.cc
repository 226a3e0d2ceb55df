// SPDX-License-Identifier: Apache-2.0
#include "formats/torch_archive.h"

#include <algorithm>
#include <array>

#include "core/text.h"
#include "core/try.h"
#include "formats/torch_places.h"
#include "formats/torch_walk.h"

namespace weig {
namespace {

constexpr std::string_view kPickle = "data.pkl";
// What an archive has beside its pickle and its storages, and need not be told of.
constexpr auto kRecords =
    std::to_array<std::string_view>({"version", "byteorder", ".format_version",
                                     ".storage_alignment", ".data/serialization_id"});

// The one folder of an archive, with a slash; empty for a name without one.
std::string_view folder_of(std::string_view name) {
  return name.substr(0, name.find('/') + 1);
}

bool is_main_pickle(const ZipMember& member) {
  const std::string_view name = member.name;
  const std::string_view folder = folder_of(name);
  return !folder.empty() && name.substr(folder.size()) == kPickle;
}

// One archive, read step by step.
class ArchiveReader {
 public:
  ArchiveReader(const Input& input, std::span<const ZipMember> members,
                const TorchOptions& options)
      : input_(input), members_(members), options_(options) {
    manifest_.file_size = input.size;
    manifest_.covers_file = false;
  }

  Result<Manifest> read() {
    WEIG_TRY(find_folder());
    find_unchecked();
    WEIG_TRY(read_byte_order());
    WEIG_TRY_ASSIGN(keys, add_storages("data/"));
    WEIG_TRY_ASSIGN(constant_keys, add_storages("constants/"));
    TorchPlaces places(manifest_, storages_, options_.max_expansion);
    WEIG_TRY(walk(*find(kPickle), keys, "", places));
    const ZipMember* constants = find("constants.pkl");
    if (constants != nullptr && options_.select.empty())
      WEIG_TRY(walk(*constants, constant_keys, "CONSTANTS", places));
    WEIG_TRY(check_distinct_names(manifest_));
    places.finish();
    skip_others();
    std::move(skipped_).finish(manifest_.skipped);
    return std::move(manifest_);
  }

 private:
  Status find_folder() {
    for (const ZipMember& member : members_) {
      if (!is_main_pickle(member)) continue;
      if (!folder_.empty())
        return Error(Code::corrupt, "the archive holds two checkpoints")
            .found(in_quotes(member.name) + " and " + in_quotes(folder_ + "data.pkl"));
      folder_ = folder_of(member.name);
    }
    if (!folder_.empty()) return {};
    return Error(Code::corrupt, "the archive has no folder with data.pkl in it");
  }

  // Of the folder.
  const ZipMember* find(std::string_view name) const {
    const auto found = std::ranges::find_if(members_, [&](const ZipMember& member) {
      const std::string_view all = member.name;
      return all.starts_with(folder_) && all.substr(folder_.size()) == name;
    });
    return found == members_.end() ? nullptr : &*found;
  }

  Status read_byte_order() {
    const ZipMember* record = find("byteorder");
    if (record == nullptr) return {};
    WEIG_TRY_ASSIGN(bytes, contents(*record, kLongestRecord));
    const std::string_view order = text_of(bytes);
    if (order != "little" && order != "big")
      return Error(Code::corrupt, "the archive's byte order is neither little nor big")
          .at(record->begin)
          .found(in_quotes(order));
    big_endian_ = order == "big";
    return {};
  }

  // PyTorch can be told to leave all checksums 0, and never looks at them.
  void find_unchecked() {
    unchecked_ = std::ranges::all_of(members_, [](const ZipMember& member) {
      return member.bytes == 0 || member.crc == 0;
    });
    if (unchecked_)
      manifest_.warnings.push_back(
          "the archive was written without checksums: damage would not show");
  }

  Result<std::vector<std::byte>> contents(const ZipMember& member, std::uint64_t most) {
    if (!unchecked_ || member.is_deflated) return read_member(input_, member, most);
    if (member.size > most)
      return Error(Code::limit, "a member of the archive is larger than is allowed")
          .found(in_quotes(member.name) + " of " + std::to_string(member.size) +
                 " bytes")
          .expected("at most " + std::to_string(most));
    std::vector<std::byte> bytes(member.size);
    WEIG_TRY(input_.read(member.begin, bytes));
    return bytes;
  }

  // The members of a folder in the folder, by what follows its name.
  Result<TorchStorageKeys> add_storages(std::string_view below) {
    TorchStorageKeys keys;
    const std::string prefix = folder_ + std::string(below);
    for (const ZipMember& member : members_) {
      const std::string_view name = member.name;
      if (!name.starts_with(prefix) || name.ends_with('/')) continue;
      ElementStorage lies = storage_of(member);
      lies.big_endian = big_endian_;
      if (unchecked_) lies.crc.reset();
      keys.emplace(name.substr(prefix.size()),
                   static_cast<std::uint32_t>(storages_.size()));
      storages_.push_back({std::move(lies)});
    }
    return keys;
  }

  Status walk(const ZipMember& member, const TorchStorageKeys& keys,
              std::string_view path, TorchPlaces& places) {
    const PickleOptions limits = options_.for_pickles();
    WEIG_TRY_ASSIGN(bytes, contents(member, limits.max_bytes));
    // Places in messages are the file's, where the member lies in it as it is.
    const std::uint64_t begin = member.is_deflated ? 0 : member.begin;
    const Bytes all = bytes;
    const Input window{.size = input_.size,
                       .read = [all, begin](std::uint64_t offset, MutableBytes out) {
                         std::ranges::copy(all.subspan(offset - begin, out.size()),
                                           out.begin());
                         return Status();
                       }};
    InputCursor cursor(window, begin, begin + all.size());
    auto pickle = Pickle::read(cursor, limits);
    if (!pickle) return in_member(std::move(pickle).error(), member);
    if (cursor.left() > 0)
      skipped_.add("after the pickle in " + in_quotes(member.name) + ": " +
                   std::to_string(cursor.left()) + " bytes, not looked at");
    WEIG_TRY(check_harmless(*pickle));
    WEIG_TRY(check_sizes(*pickle, keys));
    return TorchWalk(*pickle, keys, places, skipped_, options_.select).run(path);
  }

  static Error in_member(Error error, const ZipMember& member) {
    std::string found = error.fields().found;
    return std::move(error).found((found.empty() ? "" : found + ", ") + "in " +
                                  in_quotes(member.name));
  }

  // What the pickle says of each storage is what the archive has. What is no storage
  // is refused by whoever needs it.
  Status check_sizes(const Pickle& pickle, const TorchStorageKeys& keys) const {
    for (const PickleValue persistent : pickle.persistents()) {
      const auto id = torch_storage_id(pickle, persistent);
      if (!id) continue;
      const auto key = keys.find(id->key);
      if (key == keys.end()) continue;
      const ElementStorage& lies = storages_[key->second].lies;
      if (lies.bytes / id->width != id->elements)
        return Error(Code::corrupt, "a storage has another size than the pickle says")
            .at(lies.begin)
            .found(in_quotes(id->key) + " of " + std::to_string(lies.bytes) + " bytes")
            .expected(std::to_string(id->elements) + " x " + std::to_string(id->width));
    }
    return {};
  }

  void skip_others() {
    std::size_t code = 0;
    for (const ZipMember& member : members_) {
      const std::string_view name = member.name;
      if (name.ends_with('/')) continue;
      if (!name.starts_with(folder_)) {
        skipped_.add("the archive's member " + in_quotes(name));
        continue;
      }
      const std::string_view rest = name.substr(folder_.size());
      if (rest == kPickle || rest == "constants.pkl" || rest.starts_with("data/") ||
          rest.starts_with("constants/") ||
          std::ranges::find(kRecords, rest) != kRecords.end())
        continue;
      if (rest.starts_with("code/")) {
        ++code;
        continue;
      }
      skipped_.add((rest.ends_with(".pkl") ? "a pickle that was not looked at, "
                                           : "the archive's member ") +
                   in_quotes(name));
    }
    if (code > 0)
      skipped_.add("code of TorchScript, " + std::to_string(code) +
                   (code == 1 ? " file" : " files"));
  }

  static constexpr std::uint64_t kLongestRecord = 4096;

  const Input& input_;
  std::span<const ZipMember> members_;
  const TorchOptions& options_;
  std::string folder_;
  bool big_endian_ = false;
  bool unchecked_ = false;
  std::vector<TorchStorage> storages_;
  SkippedList skipped_;
  Manifest manifest_;
};

}  // namespace

bool is_torch_archive(std::span<const ZipMember> members) {
  return std::ranges::any_of(members, is_main_pickle);
}

Result<Manifest> read_torch_archive(const Input& input,
                                    std::span<const ZipMember> members,
                                    const TorchOptions& options) {
  return ArchiveReader(input, members, options).read();
}

}  // namespace weig
