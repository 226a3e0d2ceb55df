// SPDX-License-Identifier: Apache-2.0
#include "store/set_members.h"

#include <algorithm>
#include <array>
#include <map>

#include <weig/model.h>

#include "core/claim.h"
#include "core/digest.h"
#include "core/text.h"
#include "core/try.h"
#include "os/os.h"
#include "store/member_name.h"

namespace weig {
namespace {

constexpr std::size_t kNamesShown = 5;

// "" for a name alone.
std::string folder_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  return slash == path.npos ? "" : path.substr(0, std::max<std::size_t>(slash, 1));
}

std::string join(const std::string& folder, const std::string& name) {
  return folder.empty() || folder.ends_with('/') ? folder + name : folder + "/" + name;
}

// The regular files of a folder that are not hidden, as paths.
Result<std::vector<std::string>> files_in(const std::string& folder) {
  WEIG_TRY_ASSIGN(names, os::names_in(folder.empty() ? "." : folder));
  std::vector<std::string> paths;
  for (const std::string& name : names) {
    const std::string path = join(folder, name);
    if (!name.starts_with('.') && os::is_file(path)) paths.push_back(path);
  }
  return paths;
}

// Whether it begins as a WEIG file, is sealed, and has a shard section by its table:
// not proven yet.
enum class Look { other, weig, sealed, member };
Result<Look> look_at(const std::string& path) {
  WEIG_TRY_ASSIGN(file, os::InputFile::open(path));
  std::array<std::byte, sizeof(disk::Header)> bytes{};
  if (file.size() < bytes.size()) return Look::other;
  WEIG_TRY(file.read(0, bytes));
  const disk::Header header = load_header(bytes);
  if (header.magic != disk::kMagic && header.magic != disk::kSwappedMagic)
    return Look::other;
  const bool sealed =
      header.magic == disk::kMagic && (header.flags & disk::kFlagSealed) != 0;
  if (!sealed) return Look::weig;
  constexpr std::uint64_t kMostSections = 1024;  // more is for Model::open() to judge
  if (header.section_count > kMostSections) return Look::member;
  std::vector<std::byte> table(header.section_count * sizeof(disk::SectionEntry));
  if (!fits(header.section_offset, table.size(), file.size())) return Look::member;
  WEIG_TRY(file.read(header.section_offset, table));
  for (std::size_t at = 0; at < table.size(); at += sizeof(disk::SectionEntry))
    if (load_section(table.data() + at).kind ==
        static_cast<std::uint32_t>(disk::SectionKind::shard))
      return Look::member;
  return Look::sealed;
}

bool same_set(const Shard& one, const Shard& other) {
  return one.set_low == other.set_low && one.set_high == other.set_high &&
         one.count == other.count && one.tensors == other.tensors;
}

// "member 2 of 5 of set 0123..."
std::string description(const std::optional<Shard>& shard) {
  if (!shard) return "a file that is no member of a set";
  return "member " + std::to_string(shard->index + std::uint64_t{1}) + " of " +
         std::to_string(shard->count) + " of set " +
         to_hex(Digest{.low = shard->set_low, .high = shard->set_high});
}

Shard with_index(Shard shard, std::uint32_t index) {
  shard.index = index;
  return shard;
}

// Whether both have names of members of one set.
bool called_alike(const std::string& path, const std::string& other) {
  const auto name = parse_member_name(path);
  auto its_name = parse_member_name(other);
  if (!name || !its_name) return false;
  its_name->number = name->number;
  return its_name->text() == name->text();
}

// What a name says must be what the file is.
Status check_name(const std::string& path, const Shard& shard) {
  const auto name = parse_member_name(path);
  if (!name ||
      (name->number == shard.index + std::uint64_t{1} && name->count == shard.count))
    return {};
  return Error(Code::corrupt, "the name is another member's than the file is")
      .file(path)
      .found(description(shard))
      .expected("member " + std::to_string(name->number) + " of " +
                std::to_string(name->count) + ", by the name")
      .hint("members were renamed, mixed up, or come from another set");
}

// What a file is, not what keeps us from reading it.
bool is_damage(const Error& error) {
  return error.code() == Code::corrupt || error.code() == Code::unsupported;
}

// A search for the members of one set.
class Search {
 public:
  Search(const std::string& path, const Shard& shard) : path_(path), shard_(shard) {}

  Result<std::vector<std::string>> run() {
    WEIG_TRY(check_name(path_, shard_));
    found_.emplace(shard_.index, path_);
    WEIG_TRY(try_names());
    // Where the names lead to all, a copy of another name is in nobody's way.
    if (found_.size() < shard_.count) WEIG_TRY(look_into_all());
    if (found_.size() < shard_.count) return missing();
    std::vector<std::string> paths;
    paths.reserve(found_.size());
    for (auto& [index, path] : found_) paths.push_back(std::move(path));
    return paths;
  }

 private:
  std::optional<std::string> name_of(std::uint32_t index) const {
    auto name = parse_member_name(path_);
    if (!name) return std::nullopt;
    name->number = index + std::uint64_t{1};
    return name->text();
  }

  // Files that are called as the members should be, up to the first that is not there:
  // how many there should be is a file's word.
  Status try_names() {
    for (std::uint32_t index = 0; index < shard_.count; ++index) {
      if (index == shard_.index) continue;
      const auto path = name_of(index);
      if (!path || !os::is_file(*path)) break;
      WEIG_TRY_ASSIGN(shard, shard_of(*path));
      if (!shard || !same_set(*shard, shard_))
        return Error(Code::corrupt,
                     "the file has a member's name, and is not that member")
            .file(*path)
            .found(description(shard))
            .expected(description(with_index(shard_, index)))
            .hint("as " + path_ + " says");
      WEIG_TRY(check_name(*path, *shard));
      found_.emplace(index, *path);
    }
    return {};
  }

  // All files of the folder, whatever they are called.
  Status look_into_all() {
    WEIG_TRY_ASSIGN(paths, files_in(folder_of(path_)));
    for (const std::string& path : paths) {
      const auto shard = shard_of(path);  // what is damaged is no member
      if (!shard && !is_damage(shard.error()) && !unreadable_)
        unreadable_ = shard.error().message();
      if (!shard || !*shard || !same_set(**shard, shard_)) continue;
      WEIG_TRY(check_name(path, **shard));
      const auto [other, fresh] = found_.emplace((*shard)->index, path);
      const auto id = os::file_id(path);
      const auto other_id = os::file_id(other->second);
      if (!fresh && !(id && other_id && *id == *other_id))
        return Error(Code::corrupt, "two files are the same member of the set")
            .file(path)
            .found(description(*shard))
            .expected("one such file, and " + other->second + " is it");
    }
    return {};
  }

  // The first few that are missing, by the names that they should have, or by number.
  std::string missing_names() const {
    const std::size_t count = shard_.count - found_.size();
    std::string names;
    std::size_t named = 0;
    for (std::uint32_t index = 0; named < std::min(count, kNamesShown); ++index) {
      if (found_.contains(index)) continue;
      const auto name = name_of(index);
      names += (named++ > 0 ? ", " : "") +
               (name ? name->substr(name->rfind('/') + 1)
                     : "member " + std::to_string(index + std::uint64_t{1}));
    }
    if (count > named) names += " and " + std::to_string(count - named) + " more";
    return names;
  }

  Error missing() const {
    std::uint32_t index = 0;
    while (found_.contains(index)) ++index;
    const bool one = found_.size() + 1 == shard_.count;
    const auto name = name_of(index);
    return Error(Code::cannot_open, one ? "a member of the set is missing"
                                        : "members of the set are missing")
        .file(path_)
        .found(std::to_string(found_.size()) + " of " + std::to_string(shard_.count) +
               " members")
        .expected(one ? (name ? *name + ", " : "") +
                            description(with_index(shard_, index))
                      : missing_names() + ", of " + std::to_string(shard_.count))
        .hint(unreadable_ ? "not every file there can be read: " + *unreadable_
                          : "members lie in one folder");
  }

  const std::string& path_;
  const Shard& shard_;
  std::map<std::uint32_t, std::string> found_;  // by index
  std::optional<std::string> unreadable_;       // why a file there could not be read
};

}  // namespace

Result<std::optional<Shard>> shard_of(const std::string& path) {
  WEIG_TRY_ASSIGN(look, look_at(path));
  if (look != Look::member) return std::optional<Shard>();
  WEIG_TRY_ASSIGN(model, Model::open(path, {.validation = Validation::lazy,
                                            .unknown_dtypes = UnknownDtypes::accept,
                                            .part = Part::metadata}));
  auto shard = model.shard();
  if (!shard) return std::move(shard).error().file(path);
  return shard;
}

Result<std::string> model_in_folder(const std::string& folder) {
  WEIG_TRY_ASSIGN(paths, files_in(folder));
  struct Found {
    std::string path;
    std::optional<Shard> shard;
  };
  std::vector<Found> models;
  std::optional<Error> unreadable;
  for (const std::string& path : paths) {
    const auto look = look_at(path);
    if (!look && !is_damage(look.error()) && !unreadable) unreadable = look.error();
    if (!look || *look == Look::other) continue;
    const auto shard = shard_of(path);  // a damaged file is a model all the same
    Found found{path, shard ? *shard : std::nullopt};
    bool known = false;
    for (Found& model : models) {
      const bool same =
          found.shard && model.shard && same_set(*model.shard, *found.shard);
      // In place of a member, damaged or not one: opening the set says so.
      if (!same && !called_alike(model.path, path)) continue;
      known = true;
      // A member that is called as one leads to the others by their names.
      const bool better = !parse_member_name(model.path) && parse_member_name(path);
      if (better || (!model.shard && found.shard)) model = found;
    }
    if (!known) models.push_back(std::move(found));
  }
  if (models.empty() && unreadable) return *std::move(unreadable);
  if (models.empty())
    return Error(Code::cannot_open, "the folder has no WEIG file").file(folder);
  if (models.size() == 1) return models.front().path;
  std::string names;
  for (std::size_t i = 0; i < models.size() && i < kNamesShown; ++i)
    names += (i > 0 ? ", " : "") + in_quotes(models[i].path);
  if (models.size() > kNamesShown)
    names += " and " + std::to_string(models.size() - kNamesShown) + " more";
  return Error(Code::invalid_argument, "the folder has several models: " + names)
      .file(folder)
      .hint("give one of the files");
}

Result<std::vector<std::string>> find_members(const std::string& path,
                                              const Shard& shard) {
  return Search(path, shard).run();
}

Result<std::vector<std::string>> files_called_alike(const std::string& path) {
  if (os::is_folder(path)) {
    WEIG_TRY_ASSIGN(chosen, model_in_folder(path));
    return files_called_alike(chosen);
  }
  if (!parse_member_name(path)) return std::vector{path};
  WEIG_TRY_ASSIGN(paths, files_in(folder_of(path)));
  std::erase_if(paths,
                [&](const std::string& other) { return !called_alike(path, other); });
  return paths;
}

}  // namespace weig
