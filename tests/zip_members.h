// SPDX-License-Identifier: Apache-2.0
// An archive in memory as readers of what is in it are told of it: members one after
// the other. All checksums are 0, as PyTorch leaves them where it is told to.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "formats/zip.h"

namespace weig::test {

// `Self`: what add() returns.
template <typename Self>
struct ZipMembers {
  std::string bytes = "PK";
  std::vector<ZipMember> members;

  Self& add(std::string name, const std::string& contents) {
    ZipMember member;
    member.name = std::move(name);
    member.begin = bytes.size();
    member.size = member.bytes = contents.size();
    members.push_back(std::move(member));
    bytes += contents;
    return static_cast<Self&>(*this);
  }
};

}  // namespace weig::test
