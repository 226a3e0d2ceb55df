// SPDX-License-Identifier: Apache-2.0
// A checkpoint's archive in memory, for tests: its members one after the other, as the
// reader is told of them. All checksums are 0, as PyTorch leaves them where it is told
// to.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "formats/torch_archive.h"

namespace weig::test {

// Borrows the bytes.
inline Input input_over(const std::string& bytes) {
  return {.size = bytes.size(), .read = [&bytes](std::uint64_t at, MutableBytes out) {
            std::ranges::copy(bytes_of(bytes).subspan(at, out.size()), out.begin());
            return Status();
          }};
}

// Whatever read of the bytes fails, so does what is done with them.
template <typename Do>
void fail_each_read(const std::string& bytes, Do act) {
  for (int failing = 0;; ++failing) {
    int reads = 0;
    Input input = input_over(bytes);
    input.read = [&, read = input.read](std::uint64_t at, MutableBytes out) -> Status {
      if (reads++ == failing) return Error(Code::io, "a read that fails");
      return read(at, out);
    };
    const auto done = act(input);
    if (reads <= failing) return;
    ASSERT_FALSE(done) << failing;
    EXPECT_EQ(done.error().code(), Code::io) << failing;
  }
}

struct TorchArchive {
  std::string bytes = "PK";
  std::vector<ZipMember> members;

  TorchArchive& add(std::string name, const std::string& contents) {
    ZipMember member;
    member.name = std::move(name);
    member.begin = bytes.size();
    member.size = member.bytes = contents.size();
    members.push_back(std::move(member));
    bytes += contents;
    return *this;
  }
  Result<Manifest> read(const TorchOptions& options = {}) const {
    return read_torch_archive(input_over(bytes), members, options);
  }
};

// Of one pickle, and a storage of 8 bytes.
inline TorchArchive archive_of(const std::string& pickle,
                               const std::string& storage = "12345678") {
  TorchArchive archive;
  archive.add("archive/data.pkl", pickle).add("archive/data/0", storage);
  return archive;
}

}  // namespace weig::test
