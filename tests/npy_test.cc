// SPDX-License-Identifier: Apache-2.0
// Reading NumPy's files: one row for each refusal of docs/numpy.md.
#include "formats/npy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "bytes_input.h"
#include "formats/npy_header.h"
#include "image.h"
#include "zip_members.h"

namespace weig::test {
namespace {

// A file of this version whose header is `text` and which has `data_bytes` more.
std::string file_of(const std::string& text, std::size_t data_bytes = 0,
                    char version = 1) {
  std::string file = std::string(kNpyMark) + version + '\0';
  for (int i = 0; i < (version == 1 ? 2 : 4); ++i)
    file += static_cast<char>(text.size() >> (8 * i) & 0xFF);
  return file + text + std::string(data_bytes, 'x');
}

std::string dict(const std::string& descr, const std::string& shape,
                 const std::string& order = "False") {
  return "{'descr': " + descr + ", 'fortran_order': " + order + ", 'shape': " + shape +
         ", }\n";
}

Result<Manifest> read(const std::string& file,
                      Strictness strictness = Strictness::strict) {
  return read_npy(input_over(file), "a", strictness);
}

TEST(Npy, reads_an_array) {
  const Manifest manifest = read(file_of(dict("'<f4'", "(2, 3)"), 24)).value();
  ASSERT_EQ(manifest.entries().size(), 1u);
  const auto& entry = manifest.entries()[0];
  EXPECT_EQ(manifest.name(entry), "a");
  EXPECT_EQ(entry.dtype, Dtype::f32);
  EXPECT_EQ(manifest.shape(entry)[1], 3u);
  EXPECT_EQ(entry.begin, manifest.file_size - 24);
  EXPECT_EQ(entry.size, 24u);
  EXPECT_EQ(entry.storage, Manifest::kAsItIs);
}

TEST(Npy, reads_each_version) {
  for (const char version : {'\1', '\2', '\3'})
    EXPECT_TRUE(read(file_of(dict("'|u1'", "(3,)"), 3, version)));
}

// Other spellings of the same literal, in any order.
TEST(Npy, reads_what_other_writers_write) {
  for (const char* text : {R"({"shape":(3,),"fortran_order":True,"descr":"<u1"})",
                           "{'descr':'u1','fortran_order':False,'shape':(3L,)}",
                           " { 'shape' : ( 3 , ) , 'descr' : '>b1' ,\n"
                           "'fortran_order' : False } \r\n\t"}) {
    const auto manifest = read(file_of(text, 3));
    EXPECT_TRUE(manifest) << text << manifest.error().message();
  }
}

// C27
TEST(Npy, column_major_order_has_strides) {
  const Manifest manifest =
      read(file_of(dict("'<f4'", "(2, 3, 4)", "True"), 96)).value();
  const ElementStorage& storage = manifest.storages.at(0);
  EXPECT_EQ(storage.strides, (std::vector<std::uint64_t>{1, 2, 6}));
  EXPECT_EQ(storage.bytes, 96u);
}

TEST(Npy, column_major_order_may_be_row_major) {
  for (const auto& [shape, bytes] :
       {std::pair("()", 4), {"(3,)", 12}, {"(1, 3, 1)", 12}, {"(0, 3, 3)", 0}}) {
    const Manifest manifest =
        read(file_of(dict("'<f4'", shape, "True"), bytes)).value();
    EXPECT_TRUE(manifest.storages.empty()) << shape;
  }
}

// C21
TEST(Npy, big_endian_elements_are_swapped_but_bytes) {
  const Manifest wide = read(file_of(dict("'>c8'", "(2,)"), 16)).value();
  EXPECT_TRUE(wide.storages.at(0).big_endian);
  EXPECT_TRUE(read(file_of(dict("'>i1'", "(2,)"), 2))->storages.empty());
}

TEST(Npy, knows_all_number_types) {
  for (const std::string name : {"<f2", "<f4", "<f8", "|i1", "<i2", "<i4", "<i8", "|u1",
                                 "<u2", "<u4", "<u8", "|b1", "<c8", "<c16"}) {
    const auto manifest = read(file_of(dict("'" + name + "'", "(0,)")));
    ASSERT_TRUE(manifest) << name;
    EXPECT_EQ(npy_dtype_name(manifest->entries()[0].dtype), name);
  }
  EXPECT_FALSE(npy_dtype_name(Dtype::bf16));
}

TEST(Npy, what_is_written_is_read) {
  for (const std::vector<std::uint64_t>& shape : {std::vector<std::uint64_t>{},
                                                  {3},
                                                  {2, 0, 4},
                                                  std::vector<std::uint64_t>(64, 1)}) {
    const std::string header = make_npy_header(Dtype::u8, shape);
    EXPECT_EQ(header.size() % 64, 0u);
    EXPECT_EQ(npy_data_begin(bytes_of(header)).value(), header.size());
    EXPECT_EQ(read_npy_header(bytes_of(header))->shape, shape);
  }
}

TEST(Npy, lenient_ignores_what_follows) {
  const auto manifest =
      read(file_of(dict("'|u1'", "(3,)"), 5), Strictness::lenient).value();
  EXPECT_EQ(manifest.entries()[0].size, 3u);
  EXPECT_EQ(manifest.warnings.at(0), "2 bytes after the array");
}

struct Bad {
  const char* row;
  const char* says;
  Code code;
  std::string file;
};

std::string row_name(const testing::TestParamInfo<Bad>& info) { return info.param.row; }

std::string ones(int rank) {
  std::string shape = "(";
  for (int i = 0; i < rank; ++i) shape += "1, ";
  return shape + ")";
}

std::vector<Bad> bad_files() {
  using std::string_literals::operator""s;
  const auto corrupt = [](const char* row, const char* says, const std::string& text,
                          std::size_t data = 3, char version = 1) {
    return Bad{row, says, Code::corrupt, file_of(text, data, version)};
  };
  const auto unsupported = [](const char* row, const char* says,
                              const std::string& descr) {
    return Bad{row, says, Code::unsupported, file_of(dict(descr, "(3,)"), 48)};
  };
  const std::string good = dict("'|u1'", "(3,)");
  return {
      {"no_mark", "no mark", Code::corrupt, "NUMPY!" + std::string(100, ' ')},
      {"cut_version", "header is cut", Code::corrupt, std::string(kNpyMark) + "\1"},
      {"cut_length", "header is cut", Code::corrupt,
       std::string(kNpyMark) + "\2\0\1\0"s},
      {"version_4", "not known: found 4.0", Code::unsupported, file_of(good, 3, 4)},
      {"version_0", "not known: found 0.0", Code::unsupported, file_of(good, 3, 0)},
      {"version_1_1", "not known: found 1.1", Code::unsupported,
       file_of(good, 3).replace(7, 1, "\1")},
      {"long_header", "longer than is allowed", Code::limit,
       file_of(good + std::string(65536, ' '), 3, 2)},
      {"cut_header", "longer than the file", Code::corrupt,
       file_of(good).substr(0, 40)},
      {"cut_array", "the array is cut", Code::corrupt, file_of(good, 2)},
      {"bytes_behind", "1 bytes after the array", Code::corrupt, file_of(good, 4)},
      corrupt("no_dict", "no dict", "[1, 2]"),
      corrupt("no_brace", "expected '{'",
              "'descr': '|u1', 'fortran_order': False, 'shape': (3,)}"),
      corrupt("no_comma", "expected ','", "{'descr': '|u1' 'fortran_order': False}"),
      corrupt("no_colon", "expected ':'", "{'descr' '|u1'}"),
      corrupt("no_end", "expected '\\''", "{'descr': '|u1',"),
      corrupt("key_no_string", "expected '\\''", "{1: 2}"),
      corrupt("open_string", "has no end", "{'descr"),
      corrupt("more_behind_the_dict", "goes on after", good + "0"),
      corrupt("no_descr", "no descr", "{'fortran_order': False, 'shape': (3,)}"),
      corrupt("no_order", "no fortran_order", "{'descr': '|u1', 'shape': (3,)}"),
      corrupt("no_shape", "no shape", "{'descr': '|u1', 'fortran_order': False}"),
      corrupt("descr_twice", "descr twice", "{'descr': '|u1', 'descr': '|u1'}"),
      corrupt("order_twice", "fortran_order twice",
              "{'fortran_order': False, 'fortran_order': False}"),
      corrupt("shape_twice", "shape twice", "{'shape': (3,), 'shape': (3,)}"),
      corrupt("other_key", "must not have", "{'x': 1}"),
      corrupt("order_no_truth", "expected 'False'", "{'fortran_order': 0}"),
      corrupt("order_half_a_truth", "expected 'True'", "{'fortran_order': Tru}"),
      corrupt("descr_no_string", "expected '\\''", dict("1", "(3,)")),
      corrupt("no_byte_order", "its byte order", dict("'f4'", "(0,)"), 0),
      corrupt("native_byte_order", "its byte order", dict("'=f4'", "(0,)"), 0),
      corrupt("shape_no_tuple", "expected '('", dict("'|u1'", "3")),
      corrupt("shape_in_parentheses", "no tuple", dict("'|u1'", "(3)")),
      corrupt("shape_no_end", "expected ')'", dict("'|u1'", "(3 4)")),
      corrupt("shape_negative", "no whole number", dict("'|u1'", "(-3,)")),
      corrupt("shape_text", "no whole number", dict("'|u1'", "(x,)")),
      corrupt("shape_fraction", "expected ')'", dict("'|u1'", "(3.0,)")),
      corrupt("shape_zero_before", "begins with 0", dict("'|u1'", "(03,)")),
      corrupt("shape_commas", "no whole number", dict("'|u1'", "(,)")),
      corrupt("shape_long_in_version_3", "expected ')'", dict("'|u1'", "(3L,)"), 3, 3),
      corrupt("above_64_bits", "beyond 64 bits",
              dict("'|u1'", "(18446744073709551616,)")),
      corrupt("rank_65", "too many numbers", dict("'|u1'", ones(65)), 1),
      corrupt("product_overflow", "2^56", dict("'|u1'", "(4294967296, 4294967296)")),
      unsupported("objects", "run its pickle", "'|O'"),
      unsupported("text", "array of text", "'<U5'"),
      unsupported("byte_strings", "byte strings", "'|S3'"),
      unsupported("dates", "dates", "'<M8[ns]'"),
      unsupported("time_spans", "time spans", "'<m8[s]'"),
      unsupported("raw_bytes", "raw bytes", "'|V2'"),
      unsupported("records", "records", "[('x', '<f4')]"),
      unsupported("records_in_a_tuple", "records", "('<f4', (2,))"),
      unsupported("long_double", "does not have: found '<f16'", "'<f16'"),
      unsupported("no_type", "does not have: found ''", "''"),
  };
}

class NpyRefusal : public testing::TestWithParam<Bad> {};

TEST_P(NpyRefusal, is_refused) {
  const auto manifest = read(GetParam().file);
  ASSERT_FALSE(manifest);
  EXPECT_EQ(manifest.error().code(), GetParam().code);
  EXPECT_NE(manifest.error().message().find(GetParam().says), std::string::npos)
      << manifest.error().message();
}

INSTANTIATE_TEST_SUITE_P(Rows, NpyRefusal, testing::ValuesIn(bad_files()), row_name);

// Cut anywhere, it is an error and nothing is read outside.
TEST(Npy, cut_anywhere_is_refused) {
  const std::string file = file_of(dict("'<f4'", "(2, 3)"), 24);
  for (std::size_t size = 0; size < file.size(); ++size)
    EXPECT_FALSE(read(file.substr(0, size))) << size;
}

TEST(Npy, hands_on_what_reading_says) {
  const Input input{.size = 1000, .read = [](std::uint64_t, MutableBytes) -> Status {
                      return Error(Code::io, "no more");
                    }};
  EXPECT_EQ(read_npy(input, "a", Strictness::strict).error().code(), Code::io);
}

TEST(Npy, names_are_checked) {
  const std::string file = file_of(dict("'|u1'", "(3,)"), 3);
  const auto named = [&](const std::string& name) {
    const auto manifest = read_npy(input_over(file), name, Strictness::strict);
    return manifest ? std::string() : manifest.error().fields().what;
  };
  EXPECT_EQ(named(std::string(65535, 'n')), "");
  EXPECT_EQ(named(std::string(65536, 'n')), "the name is too long");
  EXPECT_EQ(named("\xFF"), "the name is not UTF-8");
}

struct Archive : ZipMembers<Archive> {
  Result<Manifest> read(Strictness strictness = Strictness::strict) const {
    return read_npz(input_over(bytes), members, strictness);
  }
};

std::string three() { return file_of(dict("'|u1'", "(3,)"), 3); }

TEST(Npz, reads_arrays_by_their_names) {
  Archive archive;
  archive.add("a.npy", three()).add("b/c.npy", three()).add("d", three());
  archive.add(".npy", file_of(dict("'>f4'", "(2, 2)", "True"), 16));
  const Manifest manifest = archive.read().value();
  std::vector<std::string> names;
  for (const auto& entry : manifest.entries()) names.emplace_back(manifest.name(entry));
  EXPECT_EQ(names, (std::vector<std::string>{"a", "b/c", "d", ""}));
  const ElementStorage& last = manifest.storages.back();
  EXPECT_TRUE(last.big_endian);
  EXPECT_EQ(last.strides.size(), 2u);
  EXPECT_EQ(last.first + 16, last.bytes);
}

TEST(Npz, a_long_header_is_read_in_two_steps) {
  Archive archive;
  archive.add("a.npy", file_of(dict("'|u1'", "(3,)") + std::string(1000, ' '), 3));
  EXPECT_EQ(archive.read()->entries()[0].size, 3u);
}

TEST(Npz, other_members_are_told_of) {
  Archive archive;
  archive.add("a.npy", three()).add("notes.txt", "x").add("folder/", "");
  const Manifest manifest = archive.read().value();
  EXPECT_EQ(manifest.skipped,
            std::vector<std::string>{"the archive's member 'notes.txt': no array"});
  for (int i = 0; i < 200; ++i) archive.add(std::to_string(i), "x");
  EXPECT_EQ(archive.read()->skipped.size(), 101u);
  EXPECT_EQ(archive.read()->skipped.back(), "and 101 more like these");
}

// C29
TEST(Npz, lenient_leaves_out_what_is_no_tensor) {
  Archive archive;
  archive.add("o.npy", file_of(dict("'|O'", "(3,)"), 9)).add("a.npy", three());
  EXPECT_FALSE(archive.read());
  const Manifest manifest = archive.read(Strictness::lenient).value();
  EXPECT_EQ(manifest.entries().size(), 1u);
  EXPECT_NE(manifest.skipped.at(0).find("'o.npy': an array of Python objects"),
            std::string::npos);
}

TEST(Npz, is_known_by_its_members) {
  Archive archive;
  EXPECT_TRUE(is_npz(archive.members));  // C02
  EXPECT_FALSE(is_npz(archive.add("a.txt", "").members));
  EXPECT_TRUE(is_npz(archive.add("a.npy", "").members));
}

struct BadArchive {
  const char* row;
  const char* says;
  Code code;
  std::function<void(Archive&)> add;
};

std::vector<BadArchive> bad_archives() {
  return {
      {"two_of_a_key", "called the same", Code::corrupt,
       [](Archive& archive) { archive.add("k", "x").add("k.npy", three()); }},
      {"member_no_array", "no mark", Code::corrupt,
       [](Archive& archive) { archive.add("k.npy", "no array at all"); }},
      {"member_is_cut", "the array is cut", Code::corrupt,
       [](Archive& archive) {
         archive.add("k.npy", file_of(dict("'|u1'", "(4,)"), 3));
       }},
      {"member_is_longer", "longer than its array", Code::corrupt,
       [](Archive& archive) { archive.add("k.npy", three() + "x"); }},
      {"packed_columns", "column-major order is too large", Code::limit,
       [](Archive& archive) {
         const std::string text =
             dict("'|u1'", "(65536, 65537)", "True") + std::string(300, ' ');
         const std::string front = file_of(text);
         // A deflate block of stored bytes, which is not the last.
         std::string packed(5, '\0');
         for (int i = 0; i < 2; ++i) {
           packed[static_cast<std::size_t>(1 + i)] =
               static_cast<char>(front.size() >> (8 * i) & 0xFF);
           packed[static_cast<std::size_t>(3 + i)] =
               static_cast<char>(~front.size() >> (8 * i) & 0xFF);
         }
         archive.add("k.npy", packed + front);
         archive.members[0].is_deflated = true;
         archive.members[0].bytes = front.size() + 65536ull * 65537;
       }},
      {"member_no_utf8", "not UTF-8", Code::corrupt,
       [](Archive& archive) { archive.add("k\xFF.npy", three()); }},
      {"member_name_too_long", "name is too long", Code::corrupt,
       [](Archive& archive) {
         archive.add(std::string(65536, 'k') + ".npy", three());
       }},
      {"member_object", "run its pickle", Code::unsupported,
       [](Archive& archive) {
         archive.add("k.npy", file_of(dict("'|O'", "(3,)"), 9));
       }},
  };
}

class NpzRefusal : public testing::TestWithParam<BadArchive> {};

TEST_P(NpzRefusal, is_refused) {
  Archive archive;
  GetParam().add(archive);
  const auto manifest = archive.read();
  ASSERT_FALSE(manifest);
  EXPECT_EQ(manifest.error().code(), GetParam().code);
  EXPECT_EQ(manifest.error().fields().tensor.substr(0, 1), "k");
  EXPECT_NE(manifest.error().fields().offset, Error::kNoOffset);
  EXPECT_NE(manifest.error().message().find(GetParam().says), std::string::npos)
      << manifest.error().message();
}

std::string archive_row(const testing::TestParamInfo<BadArchive>& info) {
  return info.param.row;
}

INSTANTIATE_TEST_SUITE_P(Rows, NpzRefusal, testing::ValuesIn(bad_archives()),
                         archive_row);

}  // namespace
}  // namespace weig::test
