// SPDX-License-Identifier: Apache-2.0
// What `weig verify` has found in a file, or in all files of a set, and telling it.
#pragma once

#include <weig/verify.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "output.h"

namespace weig::cli {

// What was asked to be looked at.
enum class Scope { everything, some_tensors, structure };

struct FileCheck {
  std::string file;
  std::uint64_t tensors = 0;                     // in it
  Result<VerifyReport> report = VerifyReport{};  // or why it could not be checked
};

struct ModelCheck {
  std::vector<FileCheck> files;
  bool is_set = false;
  std::optional<Error> set_error;  // what is wrong with the set, its files apart
};

// The exit status: 0 where all is sound.
int status_of(const ModelCheck& check);

// For people: what was found in one file, which could be checked; and that a set is
// whole.
void print_file(Output& output, Scope scope, const FileCheck& file);
void print_set(Output& output, const ModelCheck& check);

// For programs, all of it.
void print_json(Output& output, const std::string& file, Scope scope,
                const ModelCheck& check);

}  // namespace weig::cli
