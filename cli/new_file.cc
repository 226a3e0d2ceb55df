// SPDX-License-Identifier: Apache-2.0
#include "new_file.h"

#include <fmt/format.h>

#include <cerrno>
#include <filesystem>
#include <random>
#include <string_view>
#include <system_error>
#include <utility>

#include "host.h"

namespace weig::cli {
namespace fs = std::filesystem;
namespace {

Error system_failure(std::string_view action, const std::string& path,
                     const std::error_code& error) {
  return Error(Code::io, fmt::format("cannot {}: {}", action, error.message()))
      .file(path);
}

// Whether `path` may become a new file.
Status check_target(const std::string& path, Existing existing,
                    const std::string& input) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  // A name that is too long, a loop of links.
  if (!fs::status_known(status))
    return Error(Code::cannot_open,
                 fmt::format("cannot look at the output: {}", error.message()))
        .file(path);
  if (!fs::exists(status)) {
    // A dangling link would be replaced, not followed: better to ask first.
    if (!fs::is_symlink(fs::symlink_status(path, error))) return {};
    return Error(Code::exists, "the output is a link to nothing")
        .file(path)
        .hint("remove it, or name the file itself");
  }
  if (!fs::is_regular_file(status))
    return Error(Code::exists, "the output exists already, and is not a regular file")
        .file(path);
  if (fs::equivalent(path, input, error))
    return Error(Code::exists, "the output is the input").file(path);
  if (existing == Existing::replace) return {};
  return Error(Code::exists, "the output exists already")
      .file(path)
      .hint("--force replaces it");
}

// Not for more eyes than the input; a file that is replaced hands its own mode on, and
// until then nobody else may look.
unsigned permissions_of_new(const std::string& path, const std::string& input) {
  std::error_code error;
  if (fs::exists(path, error)) return 0600;
  const auto permissions = fs::status(input, error).permissions();
  return error ? 0600 : static_cast<unsigned>(permissions) & 0777;
}

// In the same folder, so that it can be renamed; unlike the name of any model.
std::string temporary_name(const fs::path& path) {
  std::random_device random;
  const fs::path name =
      fmt::format(".{}.{:08x}{:08x}.part", path.filename().string().substr(0, 200),
                  random(), random());
  return (path.parent_path() / name).string();
}

}  // namespace

Result<NewFile> NewFile::create(const std::string& path, Existing existing,
                                const std::string& input) {
  if (auto status = check_target(path, existing, input); !status)
    return std::move(status).error();
  std::error_code error;
  const fs::path real = fs::weakly_canonical(path, error);
  NewFile file;
  file.path_ = error ? path : real.string();
  file.existing_ = existing;
  const std::string temporary = temporary_name(file.path_);
  poll_for_stops();
  file.file_.reset(create_file(temporary, permissions_of_new(file.path_, input)));
  if (!file.file_)
    return Error(Code::cannot_open,
                 "cannot create the output: " + std::generic_category().message(errno))
        .file(path);
  file.temporary_ = temporary;
  set_unfinished_file(temporary);
  file.output_ = std::make_unique<Output>(file.file_.get(), path);
  return file;
}

NewFile::NewFile(NewFile&& other) noexcept
    : path_(std::move(other.path_)),
      temporary_(std::exchange(other.temporary_, {})),
      existing_(other.existing_),
      file_(std::move(other.file_)),
      output_(std::move(other.output_)) {}

NewFile::~NewFile() {
  file_.reset();
  std::error_code ignored;
  if (temporary_.empty()) return;
  fs::remove(temporary_, ignored);
  set_unfinished_file({});
}

Status NewFile::publish() {
  if (auto status = output_->finish(); !status) return status;
  if (output_->stopped()) return Error(Code::cancelled, "interrupted").file(path_);
  // Before the name: a power failure must not leave the name to an empty file.
  if (const int failed = sync_file(file_.get()))
    return system_failure("sync the output", path_, {failed, std::generic_category()});
  if (std::fclose(file_.release()) != 0)
    return system_failure("close the output", path_, {errno, std::generic_category()});
  if (auto status = give_name(); !status) return status;
  if (const int failed = sync_folder_of(path_))
    return system_failure("sync the output's folder", path_,
                          {failed, std::generic_category()});
  return {};
}

Status NewFile::give_name() {
  std::error_code error;
  if (existing_ == Existing::replace) {
    const fs::file_status old = fs::status(path_, error);
    if (fs::exists(old)) fs::permissions(temporary_, old.permissions(), error);
  } else {
    // Unlike a rename, a link never replaces what has come to be there meanwhile. The
    // destructor removes the first name.
    fs::create_hard_link(temporary_, path_, error);
    if (!error) return {};
    if (error == std::errc::file_exists)
      return Error(Code::exists, "the output exists already").file(path_);
  }
  fs::rename(temporary_, path_, error);
  if (error) return system_failure("name the output", path_, error);
  temporary_.clear();
  set_unfinished_file({});
  return {};
}

}  // namespace weig::cli
