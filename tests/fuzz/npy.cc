// SPDX-License-Identifier: Apache-2.0
// The readers of NumPy's files: single arrays, and archives of them.
#include "formats/npy.h"

#include "check.h"
#include "core/try.h"
#include "formats/npy_header.h"
#include "formats/zip_writer.h"
#include "image.h"
#include "manifest_promises.h"
#include "seeds.h"
#include "target.h"

namespace weig::fuzz {
namespace {

using std::string_literals::operator""s;

Result<Manifest> read(const weig::Input& input, Bytes bytes, Strictness strictness) {
  if (!text_of(bytes).starts_with("PK")) return read_npy(input, "array", strictness);
  WEIG_TRY_ASSIGN(members, read_zip(input));
  return read_npz(input, members, strictness);
}

// The header that is written of a tensor says the same.
void promise_header(Dtype dtype, std::span<const std::uint64_t> shape) {
  const std::string header = make_npy_header(dtype, shape);
  promise(header.size() % 64 == 0, "data is aligned");
  const auto begin = npy_data_begin(bytes_of(header).first(kNpyFrontBytes));
  promise(begin && *begin == header.size(), "the header has its length");
  const auto read = read_npy_header(bytes_of(header));
  promise(read && read->dtype == dtype && std::ranges::equal(read->shape, shape) &&
              !read->is_big_endian && read->order == ElementOrder::row_major,
          "a header that is written says what it was made of");
}

std::string npy_of(const std::string& dict, const std::string& data) {
  std::string file(kNpyMark);
  file += "\1\0"s;
  file += static_cast<char>(dict.size() % 256);
  file += static_cast<char>(dict.size() / 256);
  return file + dict + data;
}

std::string npz_of(const std::vector<std::pair<std::string, std::string>>& members) {
  ZipWriter zip(1);
  std::string file;
  for (const auto& [name, contents] : members) file += zip.member(name, contents);
  return file + zip.finish();
}

}  // namespace

void run_npy(Bytes input) {
  const Block file(input);
  const weig::Input in = input_over(file.bytes());
  const auto strict = read(in, file.bytes(), Strictness::strict);
  const auto lenient = read(in, file.bytes(), Strictness::lenient);
  promise_manifest(strict, in.size);
  promise_manifest(lenient, in.size);
  promise(lenient || !strict, "lenient reads what strict does");
  if (!lenient) return;
  if (strict)
    promise(lenient->entries().size() == strict->entries().size(),
            "lenient leaves out nothing that strict reads");
  for (const Manifest::Entry& entry : lenient->entries())
    promise_header(entry.dtype, lenient->shape(entry));
}

std::vector<Input> npy_seeds() {
  const std::string columns = npy_of(
      "{'descr': '>f2', 'fortran_order': True, 'shape': (2, 3), }\n", "abcdefghijkl");
  const std::string zeros = "{'descr': '|u1', 'fortran_order': False, 'shape': (";
  std::vector<Input> seeds;
  for (const std::string& file :
       {columns, npy_of(zeros + "), }\n", "x"), npy_of(zeros + "0, 7), }\n", ""),
        npy_of(zeros + "3L,)}", "abc"),
        npy_of("{\"shape\":(1,),\"fortran_order\":False,\"descr\":\"<c16\"}",
               "0123456789abcdef"),
        npy_of("{'descr': [('x', '<f4')], 'fortran_order': False, 'shape': (1,)}", ""),
        npy_of("{'descr': '|O', 'fortran_order': False, 'shape': (1,), }", "."),
        npz_of({}), npz_of({{"a.npy", columns}, {"b", columns}, {"c.txt", "c"}}),
        npz_of({{"a.npy", columns}, {"a", columns}})})
    seeds.push_back(test::to_bytes(file));
  return seeds;
}

}  // namespace weig::fuzz
