// SPDX-License-Identifier: Apache-2.0
#include "group_patterns.h"

#include <fmt/format.h>

#include <utility>

#include "glob.h"
#include "near_names.h"
#include "terminal.h"

namespace weig::cli {

Result<std::vector<FileRange>> group_ranges(const std::vector<FilePart>& parts,
                                            const std::vector<std::string>& patterns) {
  std::vector<FileRange> ranges;
  std::vector<std::string> known;
  for (const FilePart& part : parts)
    if (part.is_group) known.push_back(part.name);
  if (known.empty())
    return Error(Code::not_found, "this file has no groups")
        .hint("'weig convert' makes a file that has");
  for (const std::string& pattern : patterns) {
    bool found = false;
    for (const FilePart& part : parts) {
      if (!part.is_group || !glob_matches(pattern, part.name)) continue;
      ranges.insert(ranges.end(), part.ranges.begin(), part.ranges.end());
      found = true;
    }
    if (found) continue;
    const auto near = nearest(known, pattern);
    return Error(Code::not_found, "no group is called " + in_quotes(pattern))
        .hint(near ? fmt::format("did you mean {}?", in_quotes(*near))
                   : "'weig residency' lists them, between metadata and the rest of "
                     "the file");
  }
  return joined(std::move(ranges));
}

}  // namespace weig::cli
