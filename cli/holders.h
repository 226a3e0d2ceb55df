// SPDX-License-Identifier: Apache-2.0
// Who keeps a file's pages in memory: the processes that map it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace weig::cli {

struct Holder {
  int process = 0;
  std::string name;          // of the program
  std::uint64_t mapped = 0;  // bytes of the file that it maps
  std::uint64_t locked = 0;  // bytes of those that it has locked (mlock)
};

struct Holders {
  std::vector<Holder> found;
  unsigned hidden = 0;  // processes that may not be looked at
};

// All processes but this one.
Holders holders_of(const std::string& path);

// "process 123 (server) maps it", and more of them; or that none was found.
std::string holders_text(const Holders& holders);

}  // namespace weig::cli
