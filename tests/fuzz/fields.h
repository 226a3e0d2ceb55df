// SPDX-License-Identifier: Apache-2.0
// Where the numbers of a WEIG file lie, as far as its bytes can be followed; and values
// for them that are likely to be on the edge of a rule.
#pragma once

#include <vector>

#include "core/bytes.h"
#include "target.h"

namespace weig::fuzz {

struct Field {
  std::uint64_t at = 0;
  std::uint32_t width = 0;  // bytes: 1, 4 or 8
};

// The order of a file's integers, by its magic.
ByteOrder byte_order(Bytes file);

// Fields of header, records, shapes, section table, sections and trailer; of names, one
// byte each. All lie inside `file`.
std::vector<Field> fields_of(Bytes file);

std::uint64_t get(Bytes file, Field field);
void set(MutableBytes file, Field field, std::uint64_t value);

// Boundaries: of integers, of the format, of this file.
std::vector<std::uint64_t> edges_of(Bytes file);

// Makes a file whole again after its bytes were changed: file_size, trailer, digests of
// sections and core, and as told the name index and the tensors' digests.
struct Repair {
  bool ends = true;      // file_size in the header; the trailer's copies and sentinel
  bool index = false;    // slots that lead to the names as they are
  bool digests = false;  // of tensors
};
void repair(Input& file, Repair what);

}  // namespace weig::fuzz
