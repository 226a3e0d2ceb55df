// SPDX-License-Identifier: Apache-2.0
// The pickle machine: each instruction, and one row for each refusal of
// docs/pytorch.md.
#include "formats/pickle.h"

#include <gtest/gtest.h>

#include "bytes_input.h"
#include "image.h"
#include "pickle_bytes.h"

namespace weig::test {
namespace {

using namespace pickled;
using std::string_literals::operator""s;
using Kind = PickleKind;

Result<Pickle> read(const std::string& stream, const PickleOptions& options = {}) {
  const Input input = input_over(stream);
  InputCursor cursor(input, 0, stream.size());
  return Pickle::read(cursor, options);
}

// A value as text, for comparisons.
std::string shown(const Pickle& pickle, PickleValue value) {
  std::string items;
  switch (pickle.kind(value)) {
    case Kind::none:
      return "None";
    case Kind::boolean:
      return pickle.boolean(value) ? "True" : "False";
    case Kind::integer:
      return std::to_string(pickle.integer(value));
    case Kind::number:
      return "number" + std::to_string(pickle.text(value).size());
    case Kind::text:
      return "'" + std::string(pickle.text(value)) + "'";
    case Kind::bytes:
      return "b'" + std::string(pickle.text(value)) + "'";
    case Kind::global:
      return std::string(pickle.global(value).module) + "." +
             std::string(pickle.global(value).name);
    case Kind::persistent:
      return "at " + shown(pickle, pickle.identity(value));
    case Kind::object: {
      const PickleObject& object = pickle.object(value);
      std::string out =
          shown(pickle, object.callable) + shown(pickle, object.arguments);
      for (const PickleValue part :
           {object.keywords, object.state, object.listed, object.pairs})
        if (part != kNoPickleValue) out += "+" + shown(pickle, part);
      return out;
    }
    default:
      for (const PickleValue item : pickle.items(value))
        items += (items.empty() ? "" : ",") + shown(pickle, item);
  }
  const char* brackets = pickle.kind(value) == Kind::tuple  ? "()"
                         : pickle.kind(value) == Kind::list ? "[]"
                         : pickle.kind(value) == Kind::set  ? "<>"
                                                            : "{}";
  return brackets[0] + items + brackets[1];
}

std::string shown(const std::string& stream) {
  const auto pickle = read(stream);
  return pickle ? shown(*pickle, pickle->root()) : pickle.error().message();
}

// The bytes are what the values take, as PickleOptions counts them, behind values that
// leave the stack room for more, and behind one that does not.
struct Legal {
  const char* name;
  std::string stream;
  const char* shows;
  std::uint64_t with_room;
  std::uint64_t without_room;
};

const std::vector<Legal>& legal_streams() {
  static const std::vector<Legal> all = {
      {"INT", "I12\n.", "12", 44, 36},
      {"INT of True", "I01\n.", "True", 44, 36},
      {"INT of False", "I00\n.", "False", 44, 36},
      {"INT of a bool", "(I01\nI00\nt.", "(True,False)", 84, 84},
      {"INT of many digits", "I123456789012345678901\n.", "number21", 65, 57},
      {"LONG", "(L-5L\nL7\nt.", "(-5,7)", 84, 84},
      {"BININT", "J\xFE\xFF\xFF\xFF.", "-2", 44, 36},
      {"BININT1", "K\xC8.", "200", 44, 36},
      {"BININT2", "M\x01\x02.", "513", 44, 36},
      {"LONG1", "\x8A\x02\x00\xFF."s, "-256", 44, 36},
      {"LONG1 of none", "\x8A\x00."s, "0", 44, 36},
      {"LONG1 of 10", "\x8A\x0A" + std::string(10, 'x') + ".", "number10", 54, 46},
      {"LONG4", "\x8B\x01\x00\x00\x00\x07."s, "7", 44, 36},
      {"LONG4 of many", "\x8B\x64\x00\x00\x00"s + std::string(100, 'x') + ".",
       "number0", 44, 36},
      {"FLOAT", "F1.5\n.", "number0", 44, 36},
      {"BINFLOAT", "G12345678.", "number0", 44, 36},
      {"NONE", "N.", "None", 28, 20},
      {"NEWTRUE", "\x88.", "True", 44, 36},
      {"NEWFALSE", "\x89.", "False", 44, 36},
      {"STRING", "S'a\\n\\x41\\\\\\''\n.", "'a\nA\\''", 49, 41},
      {"STRING in double quotes", "S\"it's\"\n.", "'it's'", 48, 40},
      {"UNICODE", "Va\\u00e9\xE9\\U0001F600\n.", "'a\u00e9\u00e9\U0001F600'", 53, 45},
      {"BINSTRING", "T\x02\x00\x00\x00"s + "ab.", "'ab'", 46, 38},
      {"SHORT_BINSTRING", "U\x02"s + "ab.", "'ab'", 46, 38},
      {"BINUNICODE", text("ab") + ".", "'ab'", 46, 38},
      {"BINUNICODE of many", text(std::string(65'537, 'x')) + ".", "''", 44, 36},
      {"SHORT_BINUNICODE", "\x8C\x02"s + "ab.", "'ab'", 46, 38},
      {"BINUNICODE8", "\x8D" + number(2, 8) + "ab.", "'ab'", 46, 38},
      {"BINBYTES", "B" + number(2, 4) + "ab.", "b'ab'", 46, 38},
      {"SHORT_BINBYTES", "C\x02"s + "ab.", "b'ab'", 46, 38},
      {"BINBYTES8", "\x8E" + number(2, 8) + "ab.", "b'ab'", 46, 38},
      {"BYTEARRAY8", "\x96" + number(2, 8) + "ab.", "b'ab'", 46, 38},
      {"READONLY_BUFFER", "C\x01"s + "a\x98.", "b'a'", 45, 37},
      {"EMPTY_TUPLE", ").", "()", 44, 36},
      {"TUPLE1", "K\x01\x85.", "(1)", 64, 56},
      {"TUPLE2", "K\x01K\x02\x86.", "(1,2)", 84, 84},
      {"TUPLE3", "K\x01K\x02K\x03\x87.", "(1,2,3)", 104, 104},
      {"TUPLE of none", "(t.", "()", 44, 36},
      {"TUPLE", "(K\x01Nt.", "(1,None)", 68, 68},
      {"LIST of none", "(l.", "[]", 44, 36},
      {"LIST", "(K\x01Nl.", "[1,None]", 92, 92},
      {"EMPTY_LIST, APPEND",
       "]K\x01"
       "a.",
       "[1]", 88, 88},
      {"APPENDS",
       "](K\x01K\x02"
       "e.",
       "[1,2]", 108, 108},
      {"DICT", "(K\x01Nd.", "{1,None}", 92, 92},
      {"EMPTY_DICT, SETITEM", "}K\x01Ns.", "{1,None}", 92, 92},
      {"SETITEMS", "}(K\x01NK\x02Nu.", "{1,None,2,None}", 132, 132},
      {"EMPTY_SET, ADDITEMS", "\x8F(K\x01K\x02\x90.", "<1,2>", 108, 108},
      {"FROZENSET", "(K\x01\x91.", "<1>", 88, 80},
      {"POP",
       "NK\x01"
       "0.",
       "None", 44, 44},
      {"POP of a mark", "N(0.", "None", 28, 20},
      {"POP_MARK",
       "N(K\x01K\x02"
       "1.",
       "None", 60, 60},
      {"DUP alone", "N2.", "None", 28, 28},
      {"GET alone",
       "Nq\0"
       "h\0."s,
       "None", 32, 32},
      {"MARKs", "N((00.", "None", 36, 28},
      {"DUP",
       "K\x01"
       "2\x86.",
       "(1,1)", 68, 68},
      {"PUT, GET", "Np3\n0g3\n.", "None", 44, 36},
      {"BINPUT, BINGET",
       "Nq\xFF"
       "0h\xFF.",
       "None", 1052, 1044},
      {"LONG_BINPUT, LONG_BINGET", "Nr" + number(300, 4) + "0j" + number(300, 4) + ".",
       "None", 1232, 1224},
      {"MEMOIZE",
       "N\x94K\x01\x94"
       "00h\x01.",
       "1", 52, 52},
      {"PROTO, FRAME", "\x80\x04\x95" + number(2, 8) + "N.", "None", 28, 20},
      {"GLOBAL", global("a.b", "C") + ".", "a.b.C", 155, 147},
      {"STACK_GLOBAL", text("a.b") + text("C") + "\x93.", "a.b.C", 191, 191},
      {"REDUCE", call(global("m", "f"), {"N"}) + ".", "m.f(None)", 209, 209},
      {"INST of none", "(im\nf\n.", "m.f()", 205, 197},
      {"INST", "(K\x01im\nf\n.", "m.f(1)", 225, 217},
      {"OBJ", "(" + global("m", "f") + "K\x01o.", "m.f(1)", 225, 225},
      {"NEWOBJ", global("m", "f") + "K\x01\x85\x81.", "m.f(1)", 225, 225},
      {"NEWOBJ_EX", global("m", "f") + ")}K\x01Ns\x92.", "m.f()+{1,None}", 285, 285},
      {"BUILD", global("m", "f") + ")R}K\x01Nsb.", "m.f()+{1,None}", 269, 285},
      {"appended to an object", global("m", "f") + ")RNaK\x01Ns.",
       "m.f()+[None]+{1,None}", 313, 313},
      {"added to an object", global("m", "f") + ")R(N\x90.", "m.f()+[None]", 249, 249},
      {"PERSID", "Pkey\n.", "at 'key'", 67, 59},
      {"BINPERSID", "K\x07Q.", "at 7", 64, 56},
      {"EXT1", "\x82\x07.", "extension.7", 173, 165},
      {"EXT2", "\x83\x07\x01.", "extension.263", 179, 171},
      {"EXT4", "\x84\x07\x00\x00\x01."s, "extension.16777223", 194, 186},
  };
  return all;
}

TEST(Pickle, knows_every_instruction) {
  for (const Legal& one : legal_streams()) {
    const std::string shows = shown(one.stream);
    EXPECT_NE(shows.find(one.shows), shows.npos) << one.name << ": " << shows;
  }
}

TEST(Pickle, pays_for_every_value) {
  for (const Legal& one : legal_streams())
    for (const auto& [before, bytes] :
         {std::pair("NNNN0000", one.with_room), std::pair("N", one.without_room)}) {
      const std::string stream = before + one.stream;
      EXPECT_TRUE(read(stream, {.max_memory_bytes = bytes})) << one.name;
      const auto less = read(stream, {.max_memory_bytes = bytes - 1});
      ASSERT_FALSE(less) << one.name;
      EXPECT_EQ(less.error().code(), Code::limit) << one.name;
    }
}

std::string many(const std::string& one, std::size_t count) {
  std::string all;
  for (std::size_t i = 0; i < count; ++i) all += one;
  return all;
}

struct Bad {
  const char* name;
  std::string stream;
  Code code;
  const char* says;
};

const std::vector<Bad>& bad_streams() {
  static const std::vector<Bad> all = {
      {"no_instruction", "\xFF.", Code::corrupt, "no such instruction"},
      {"zero", "\0."s, Code::corrupt, "no such instruction"},
      {"empty", "", Code::corrupt, "ends before it is complete"},
      {"no_stop", "N", Code::corrupt, "ends before it is complete"},
      {"cut_number", "J\x01", Code::corrupt, "ends before it is complete"},
      {"cut_line", "Sabc", Code::corrupt, "ends before it is complete"},
      {"cut_text", text("abc").substr(0, 6), Code::corrupt,
       "ends before it is complete"},
      {"cut_long_text", "\x8D" + number(1ull << 63, 8) + "ab.", Code::corrupt,
       "ends before it is complete"},
      {"cut_long", "\x8B\xFF\xFF\xFF\xFF."s, Code::corrupt,
       "ends before it is complete"},
      {"protocol_6", "\x80\x06N.", Code::unsupported, "later protocol"},
      {"frame", "\x80\x04\x95" + number(3, 8) + "N.", Code::corrupt,
       "frame beyond its end"},
      {"nothing_to_stop_at", ".", Code::corrupt, "more from its stack"},
      {"below_the_mark", "N(\x85.", Code::corrupt, "more from its stack"},
      {"pop_of_nothing", "0N.", Code::corrupt, "more from its stack"},
      {"nothing_to_protect", "\x98N.", Code::corrupt, "more from its stack"},
      {"no_mark", "Nt.", Code::corrupt, "a mark that it lacks"},
      {"no_mark_to_pop", "N1.", Code::corrupt, "a mark that it lacks"},
      {"not_decimal", "Iabc\n.", Code::corrupt, "whole number that is none"},
      {"cut_float", "G123", Code::corrupt, "ends before it is complete"},
      {"no_float", "F\n.", Code::corrupt, "a number that is none"},
      {"not_decimal_long", "L-L\n.", Code::corrupt, "whole number that is none"},
      {"unquoted", "Saba\n.", Code::corrupt, "spelled wrongly"},
      {"two_quotes", "S'ab\"\n.", Code::corrupt, "spelled wrongly"},
      {"one_quote", "S'\n.", Code::corrupt, "spelled wrongly"},
      {"bad_escape", "S'\\q'\n.", Code::corrupt, "spelled wrongly"},
      {"cut_escape", "S'\\'\n.", Code::corrupt, "spelled wrongly"},
      {"bad_hex", "S'\\x4'\n.", Code::corrupt, "spelled wrongly"},
      {"bad_unicode", "V\\u12g4\n.", Code::corrupt, "spelled wrongly"},
      {"key_without_value", "}(Nu.", Code::corrupt, "key without a value"},
      {"key_without_value_in_dict", "(Nd.", Code::corrupt, "key without a value"},
      {"append_to_a_tuple", ")Na.", Code::corrupt, "no container for them"},
      {"append_to_a_dict", "}Na.", Code::corrupt, "no container for them"},
      {"set_in_a_list", "]NNs.", Code::corrupt, "no container for them"},
      {"add_to_a_list", "](N\x90.", Code::corrupt, "no container for them"},
      {"get_of_nothing", "h\x01.", Code::corrupt, "a value that it lacks"},
      {"get_of_a_gap",
       "Nq\x05"
       "0h\x01.",
       Code::corrupt, "a value that it lacks"},
      {"get_of_nothing_in_text", "g1\n.", Code::corrupt, "a value that it lacks"},
      {"get_of_no_number", "Np1\ng1x\n.", Code::corrupt, "no number"},
      {"put_at_no_number", "Np99999999999\n.", Code::corrupt, "no number"},
      {"put_of_nothing", "q\x01N.", Code::corrupt, "more from its stack"},
      {"put_of_nothing_in_text", "p1\nN.", Code::corrupt, "more from its stack"},
      {"named_by_no_text", text("m") + "N\x93.", Code::corrupt, "by what is no text"},
      {"called_with_no_tuple", global("m", "f") + "]R.", Code::corrupt, "no tuple"},
      {"made_with_no_tuple", global("m", "f") + "N\x81.", Code::corrupt, "no tuple"},
      {"nothing_is_called", "(o.", Code::corrupt, "calls nothing"},
      {"items_of_an_object_of_two_kinds",
       global("m", "f") + ")RNaK\x01NsN(N\x90"
                          "0.",
       Code::corrupt, "no container for them"},
      {"state_of_no_object", "}}b.", Code::corrupt, "no object"},
      {"state_of_a_global", global("m", "f") + "}b.", Code::corrupt, "no object"},
      {"state_twice", global("m", "f") + ")R}b}b.", Code::corrupt, "a state twice"},
      {"buffer_outside", "\x97.", Code::unsupported, "kept outside it"},
      {"far_memo", "Nr\xFF\xFF\xFF\xFF.", Code::limit, "more than is allowed"},
      {"many_values", std::string(1 << 17, ']') + ".", Code::limit,
       "more than is allowed"},
      {"many_marks", std::string(1 << 17, '(') + "N.", Code::limit,
       "more than is allowed"},
      {"much_text",
       text(std::string(60'000, 'x')) + text(std::string(60'000, 'x')) +
           text(std::string(60'000, 'x')) + text(std::string(60'000, 'x')) +
           text(std::string(60'000, 'x')) + ".",
       Code::limit, "more than is allowed"},
      {"long_stream", many("N0", 1 << 19) + "N.", Code::limit, "longer than is"},
  };
  return all;
}

class PickleRefuses : public testing::TestWithParam<Bad> {};

TEST_P(PickleRefuses, with_its_own_words) {
  const Bad& bad = GetParam();
  const auto pickle =
      read(bad.stream, {.max_bytes = 500'000, .max_memory_bytes = 250'000});
  ASSERT_FALSE(pickle);
  EXPECT_EQ(pickle.error().code(), bad.code) << pickle.error().message();
  EXPECT_NE(pickle.error().message().find(bad.says), std::string::npos)
      << pickle.error().message();
}

INSTANTIATE_TEST_SUITE_P(All, PickleRefuses, testing::ValuesIn(bad_streams()),
                         [](const auto& row) { return row.param.name; });

TEST(Pickle, keeps_no_long_texts_but_their_length) {
  const Pickle pickle =
      read("C\x03"s + "abc" + text(std::string(65'537, 'x')) + "\x86.").value();
  const auto items = pickle.items(pickle.root());
  EXPECT_EQ(pickle.text(items[0]), "abc");
  EXPECT_EQ(pickle.text(items[1]), "");
  EXPECT_EQ(pickle.length(items[1]), 65'537u);
}

TEST(Pickle, ends_where_its_stream_ends) {
  const std::string two = "N.K\x01.";
  const Input input = input_over(two);
  InputCursor cursor(input, 0, two.size());
  EXPECT_EQ(Pickle::read(cursor)->kind(0), Kind::none);
  EXPECT_EQ(cursor.offset(), 2u);
  EXPECT_EQ(Pickle::read(cursor)->integer(0), 1);
  EXPECT_EQ(cursor.left(), 0u);
}

TEST(Pickle, tells_everything_that_it_names) {
  const Pickle pickle = read(global("os", "system") + "0" + global("a", "b") +
                             global("os", "system") + "0N.")
                            .value();
  ASSERT_EQ(pickle.globals().size(), 2u);
  EXPECT_EQ(pickle.globals()[0].module, "os");
  EXPECT_EQ(pickle.globals()[1].name, "b");
}

}  // namespace
}  // namespace weig::test
