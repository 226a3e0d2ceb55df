// SPDX-License-Identifier: Apache-2.0
// The files of a set: found by what is inside them, their names being the first guess.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <weig/view.h>

namespace weig {

// What the file says of the set that it is a member of; nothing where it is a file of
// another kind, or no member. Reads its front. Fails as Model::open() does.
Result<std::optional<Shard>> shard_of(const std::string& path);

// The member or the model in a folder, by which all of it is opened: where it holds
// WEIG files of one set, or one WEIG file alone. Fails with cannot_open where it holds
// none, and with invalid_argument where it holds several models, which it names.
Result<std::string> model_in_folder(const std::string& folder);

// The files of all members, by index, of the set that `path` is a member of, as `shard`
// says: in the same folder. Fails with cannot_open, naming the first that is missing,
// and with corrupt where a file has the name of a member and is another, or is of
// another set or none, and where two files are the same member.
Result<std::vector<std::string>> find_members(const std::string& path,
                                              const Shard& shard);

// As ModelSet::files_called_alike().
Result<std::vector<std::string>> files_called_alike(const std::string& path);

}  // namespace weig
