// SPDX-License-Identifier: Apache-2.0
#include "convert/data_files.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <utility>

#include "core/text.h"
#include "core/try.h"

namespace weig {
namespace {

namespace fs = std::filesystem;

Error changed(const std::string& path) {
  return Error(Code::corrupt, "the file was changed while it was read").file(path);
}

// Whether a path without links is in a folder without links, or below it.
bool is_below(const fs::path& path, const fs::path& folder) {
  const auto [end, rest] = std::ranges::mismatch(folder, path);
  return end == folder.end() && rest != path.end();
}

// The folders in which data may lie.
struct Folders {
  fs::path of_path;
  fs::path of_file;
};

Result<DataFile> find(const Folders& folders, const std::string& name) {
  const fs::path path = folders.of_path / name;
  std::error_code error;
  const fs::path real = fs::canonical(path, error);
  if (error) {
    // It says why.
    WEIG_TRY(os::InputFile::open(path.string()));
    return Error(Code::cannot_open, "cannot follow its path: " + error.message())
        .file(path.string());
  }
  if (!is_below(real, folders.of_path) && !is_below(real, folders.of_file))
    return Error(Code::corrupt,
                 "its data are said to lie in a file that is a link to "
                 "the outside of the model's folder")
        .found(in_quotes(name));
  WEIG_TRY_ASSIGN(file, os::InputFile::open(real.string()));
  return DataFile{.path = file.path(),
                  .opened = file.stamp(),
                  .id = file.id(),
                  .size = file.size(),
                  .permissions = file.permissions()};
}

// A tensor whose data are in the file of this number.
std::string_view tensor_in(const Manifest& manifest, std::uint32_t number) {
  for (const Manifest::Entry& entry : manifest.entries())
    if (entry.storage != Manifest::kAsItIs &&
        manifest.storages[entry.storage].file == number)
      return manifest.name(entry);
  return {};
}

}  // namespace

Result<std::vector<DataFile>> find_data_files(const os::InputFile& lister,
                                              Manifest& manifest) {
  std::vector<DataFile> files;
  if (manifest.files.empty()) return files;
  const fs::path path = lister.path();
  std::error_code error;
  Folders folders;
  folders.of_path =
      fs::canonical(path.has_parent_path() ? path.parent_path() : ".", error);
  if (!error) folders.of_file = fs::canonical(path, error).parent_path();
  if (error)
    return Error(Code::cannot_open, "cannot follow its path: " + error.message());
  std::vector<std::uint64_t> sizes;
  std::map<std::pair<std::uint64_t, std::uint64_t>, std::uint32_t> numbers;
  std::vector<std::uint32_t> first;  // by name: the number of the file
  for (const std::string& name : manifest.files) {
    auto file = find(folders, name);
    if (!file)
      return std::move(file).error().tensor(
          tensor_in(manifest, static_cast<std::uint32_t>(files.size() + 1)));
    const auto next = static_cast<std::uint32_t>(files.size() + 1);
    first.push_back(numbers.emplace(std::pair(file->id.device, file->id.inode), next)
                        .first->second);
    sizes.push_back(file->size);
    files.push_back(*std::move(file));
  }
  // A file that has several names is one: what is shared or overlaps in it, shows.
  for (ElementStorage& storage : manifest.storages)
    if (storage.file > 0) storage.file = first[storage.file - 1];
  WEIG_TRY(check_other_files(manifest, sizes));
  return files;
}

Result<os::InputFile> open_data_file(const DataFile& file) {
  WEIG_TRY_ASSIGN(again, os::InputFile::open(file.path));
  if (again.stamp().differs_from(file.opened)) return changed(file.path);
  again.expect_sequential();
  return std::move(again);
}

Status check_unchanged(std::span<const DataFile> files) {
  for (const DataFile& file : files) {
    WEIG_TRY_ASSIGN(stamp, os::stamp_of(file.path));
    if (!stamp || stamp->differs_from(file.opened)) return changed(file.path);
  }
  return {};
}

}  // namespace weig
