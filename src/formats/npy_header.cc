// SPDX-License-Identifier: Apache-2.0
#include "formats/npy_header.h"

#include <algorithm>
#include <array>
#include <charconv>

#include <weig/format.h>

#include "core/record.h"
#include "core/text.h"
#include "core/try.h"

namespace weig {
namespace {

// The element types that weig has as well, without their byte order.
struct Type {
  std::string_view name;
  std::string_view written;
  Dtype dtype;
};
constexpr auto kTypes = std::to_array<Type>({
    {"f4", "<f4", Dtype::f32},
    {"f2", "<f2", Dtype::f16},
    {"f8", "<f8", Dtype::f64},
    {"i1", "|i1", Dtype::i8},
    {"i2", "<i2", Dtype::i16},
    {"i4", "<i4", Dtype::i32},
    {"i8", "<i8", Dtype::i64},
    {"u1", "|u1", Dtype::u8},
    {"u2", "<u2", Dtype::u16},
    {"u4", "<u4", Dtype::u32},
    {"u8", "<u8", Dtype::u64},
    {"b1", "|b1", Dtype::boolean},
    {"c8", "<c8", Dtype::complex64},
    {"c16", "<c16", Dtype::complex128},
});

// Those that it has not, by their letter.
struct OtherKind {
  char letter;
  const char* what;
  const char* hint;
};
constexpr auto kOtherKinds = std::to_array<OtherKind>({
    {'O', "an array of Python objects: to read it is to run its pickle",
     "save its numbers as arrays of a number type"},
    {'U', "an array of text, which is no tensor", ""},
    {'S', "an array of byte strings, which is no tensor", ""},
    {'a', "an array of byte strings, which is no tensor", ""},
    {'T', "an array of text, which is no tensor", ""},
    {'M', "an array of dates, which is no tensor", ""},
    {'m', "an array of time spans, which is no tensor", ""},
    {'V', "an array of raw bytes: which type they are, the file does not say",
     "if they are bfloat16 or float8, save them as float32, or as safetensors"},
});

constexpr std::string_view kSpaces = " \t\r\n";

constexpr std::uint64_t kVersionAt = kNpyMark.size();
constexpr std::uint64_t kLengthAt = kVersionAt + 2;

// How many bytes the length of a version's header takes; 0 for unknown versions.
std::uint64_t length_bytes(unsigned major, unsigned minor) {
  if (minor != 0 || major < 1 || major > 3) return 0;
  return major == 1 ? 2 : 4;
}

// Reads the text of one header.
class HeaderText {
 public:
  HeaderText(std::string_view text, unsigned version)
      : text_(text), rest_(text), version_(version) {}

  Result<NpyHeader> read() {
    WEIG_TRY(expect("{"));
    while (!next_is('}')) {
      WEIG_TRY_ASSIGN(key, read_string());
      WEIG_TRY(expect(":"));
      WEIG_TRY(read_value(key));
      if (!next_is('}')) WEIG_TRY(expect(","));
    }
    rest_.remove_prefix(1);
    skip_spaces();
    if (!rest_.empty()) return broken("the header goes on after its dict");
    if (!has_descr_) return broken("the header has no descr");
    if (!has_order_) return broken("the header has no fortran_order");
    if (!has_shape_) return broken("the header has no shape");
    const Implied implied = implied_bytes(*dtype_info(header_.dtype), header_.shape);
    if (implied.rule != Rule::none)
      return Error(Code::corrupt, rule_text(implied.rule))
          .found("shape " + shape_text(header_.shape));
    header_.bytes = implied.bytes;
    return std::move(header_);
  }

 private:
  Error broken(std::string what) const {
    return Error(Code::corrupt, std::move(what))
        .at(kLengthAt + length_bytes(version_, 0) + text_.size() - rest_.size());
  }

  void skip_spaces() {
    rest_.remove_prefix(std::min(rest_.find_first_not_of(kSpaces), rest_.size()));
  }

  bool next_is(char c) {
    skip_spaces();
    return rest_.starts_with(c);
  }

  Status expect(std::string_view word) {
    skip_spaces();
    if (!rest_.starts_with(word))
      return broken("the header is no dict of descr, fortran_order and shape")
          .found(in_quotes(rest_.substr(0, 40)))
          .expected(in_quotes(word));
    rest_.remove_prefix(word.size());
    return {};
  }

  // Without escapes, which no array needs.
  Result<std::string_view> read_string() {
    skip_spaces();
    const char quote = rest_.starts_with('"') ? '"' : '\'';
    WEIG_TRY(expect({&quote, 1}));
    const std::size_t end = rest_.find(quote);
    if (end == rest_.npos) return broken("a string in the header has no end");
    const std::string_view string = rest_.substr(0, end);
    rest_.remove_prefix(end + 1);
    return string;
  }

  Status read_value(std::string_view key) {
    if (key == "descr") {
      if (has_descr_) return broken("the header has descr twice");
      has_descr_ = true;
      return read_type();
    }
    if (key == "fortran_order") {
      if (has_order_) return broken("the header has fortran_order twice");
      has_order_ = true;
      if (next_is('T')) {
        header_.order = ElementOrder::column_major;
        return expect("True");
      }
      return expect("False");
    }
    if (key != "shape")
      return broken("the header has a key that it must not have")
          .found(in_quotes(key.substr(0, 40)));
    if (has_shape_) return broken("the header has shape twice");
    has_shape_ = true;
    return read_shape();
  }

  Status read_type() {
    if (next_is('[') || next_is('('))
      return Error(Code::unsupported,
                   "an array of records, whose fields are no one tensor")
          .found(in_quotes(rest_.substr(0, 40)))
          .hint("save each field as an array of its own");
    WEIG_TRY_ASSIGN(descr, read_string());
    const bool has_order =
        !descr.empty() && std::string_view("<>|=").find(descr[0]) != descr.npos;
    const std::string_view name = descr.substr(has_order ? 1 : 0);
    const auto* type = std::ranges::find(kTypes, name, &Type::name);
    if (type == kTypes.end()) return unknown_type(descr, name);
    const bool one_byte = dtype_info(type->dtype)->swap_unit == 1;
    if (!one_byte && descr[0] != '<' && descr[0] != '>')
      return broken("the element type does not say its byte order")
          .found(in_quotes(descr))
          .expected("one that begins with < or >");
    header_.dtype = type->dtype;
    header_.is_big_endian = !one_byte && descr[0] == '>';
    return {};
  }

  static Error unknown_type(std::string_view descr, std::string_view name) {
    const char letter = name.empty() ? '\0' : name[0];
    const auto* kind = std::ranges::find(kOtherKinds, letter, &OtherKind::letter);
    if (kind == kOtherKinds.end())
      return Error(Code::unsupported, "an element type that weig does not have")
          .found(in_quotes(descr.substr(0, 40)));
    return Error(Code::unsupported, kind->what)
        .found(in_quotes(descr.substr(0, 40)))
        .hint(kind->hint);
  }

  // A tuple of whole numbers, which Python 2 wrote with an L behind them.
  Status read_shape() {
    WEIG_TRY(expect("("));
    bool has_comma = false;
    while (!next_is(')')) {
      std::uint64_t dimension = 0;
      const auto [behind, code] =
          std::from_chars(rest_.data(), rest_.data() + rest_.size(), dimension);
      if (code == std::errc::result_out_of_range)
        return broken("the shape holds a number beyond 64 bits");
      if (code != std::errc())
        return broken("the shape holds what is no whole number")
            .found(in_quotes(rest_.substr(0, 20)));
      if (behind - rest_.data() > 1 && rest_.starts_with('0'))
        return broken("the shape holds a number that begins with 0")
            .found(in_quotes(rest_.substr(0, 20)));
      if (header_.shape.size() == disk::kMaxRank)
        return broken("the shape has too many numbers").expected("at most 64");
      header_.shape.push_back(dimension);
      rest_.remove_prefix(static_cast<std::size_t>(behind - rest_.data()));
      if (version_ < 3 && rest_.starts_with('L')) rest_.remove_prefix(1);
      has_comma = next_is(',');
      if (has_comma) rest_.remove_prefix(1);
      if (!has_comma && !next_is(')')) return expect(")");
    }
    if (header_.shape.size() == 1 && !has_comma)
      return broken("the shape is no tuple").hint("one of one number has a comma");
    rest_.remove_prefix(1);
    return {};
  }

  std::string_view text_;
  std::string_view rest_;  // what is still to be read
  unsigned version_;
  NpyHeader header_;
  bool has_descr_ = false;
  bool has_order_ = false;
  bool has_shape_ = false;
};

Error cut_header(Bytes front) {
  return Error(Code::corrupt, "the .npy header is cut").at(front.size());
}

}  // namespace

Result<std::uint64_t> npy_data_begin(Bytes front) {
  if (!text_of(front).starts_with(kNpyMark))
    return Error(Code::corrupt, "no mark of a .npy file").at(0);
  if (front.size() < kLengthAt) return cut_header(front);
  const auto major = std::to_integer<unsigned>(front[kVersionAt]);
  const auto minor = std::to_integer<unsigned>(front[kVersionAt + 1]);
  const std::uint64_t width = length_bytes(major, minor);
  if (width == 0)
    return Error(Code::unsupported, "a version of .npy files that is not known")
        .at(kVersionAt)
        .found(std::to_string(major) + "." + std::to_string(minor))
        .expected("1.0, 2.0 or 3.0");
  if (front.size() < kLengthAt + width) return cut_header(front);
  const std::uint64_t length =
      width == 2 ? std::uint64_t{load<std::uint16_t>(front.data() + kLengthAt)}
                 : std::uint64_t{load<std::uint32_t>(front.data() + kLengthAt)};
  if (length > kMaxNpyTextBytes)
    return Error(Code::limit, "the .npy header is longer than is allowed")
        .at(kLengthAt)
        .found(length)
        .expected("at most " + std::to_string(kMaxNpyTextBytes));
  return kLengthAt + width + length;
}

Result<NpyHeader> read_npy_header(Bytes header) {
  const auto version = std::to_integer<unsigned>(header[kVersionAt]);
  return HeaderText(text_of(header).substr(kLengthAt + length_bytes(version, 0)),
                    version)
      .read();
}

std::optional<std::string_view> npy_dtype_name(Dtype dtype) noexcept {
  const auto* type = std::ranges::find(kTypes, dtype, &Type::dtype);
  if (type == kTypes.end()) return std::nullopt;
  return type->written;
}

std::string make_npy_header(Dtype dtype, std::span<const std::uint64_t> shape) {
  std::string text = "{'descr': '" + std::string(npy_dtype_name(dtype).value_or("")) +
                     "', 'fortran_order': False, 'shape': (";
  for (const std::uint64_t dimension : shape) {
    if (text.back() == ',') text += ' ';
    text += std::to_string(dimension) + ',';
  }
  if (shape.size() > 1) text.pop_back();
  text += "), }";
  constexpr std::uint64_t kAlignment = 64;
  const std::uint64_t front = kLengthAt + length_bytes(1, 0);
  const std::uint64_t all = align_up(front + text.size() + 1, kAlignment);
  text.resize(all - front - 1, ' ');
  text += '\n';
  std::string out(kNpyMark);
  out += '\1';
  out += '\0';
  // At most 64 numbers of 20 digits: below 65,536.
  out += static_cast<char>(text.size() % 256);
  out += static_cast<char>(text.size() / 256);
  return out + text;
}

}  // namespace weig
