// SPDX-License-Identifier: Apache-2.0
// A model folder's other files (config.json, tokenizer, ...), copied beside the result.
#pragma once

#include <string>
#include <vector>

#include <weig/convert.h>

#include "convert/sources.h"

namespace weig {

class OtherFileCopies {
 public:
  OtherFileCopies() = default;

  // Which files go where. Fails with exists where one would be overwritten, be it by
  // another name one of the sources or the result; files that are beside the result
  // already are left alone.
  static Result<OtherFileCopies> plan(const Sources& sources, const std::string& target,
                                      Existing existing);
  // Tells of its progress by bytes, as a pass of its own.
  Status run(const Progress& progress) const;

 private:
  struct Copy {
    std::string from;
    std::string to;
    std::uint64_t size = 0;
  };
  std::vector<Copy> copies_;
  Existing existing_ = Existing::refuse;
};

}  // namespace weig
