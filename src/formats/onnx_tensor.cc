// SPDX-License-Identifier: Apache-2.0
#include "formats/onnx_tensor.h"

#include <algorithm>

#include <weig/format.h>

#include "core/record.h"
#include "core/text.h"
#include "core/try.h"
#include "formats/onnx_location.h"
#include "formats/protobuf_numbers.h"

namespace weig {
namespace {

constexpr std::uint64_t kMaxPlace = 4096;  // bytes of a path or a number
constexpr std::size_t kMaxSkipped = 20;    // named, the rest is counted

// TensorProto.DataType: weig's type, and the field that holds its numbers where they
// are not raw.
struct OnnxType {
  const char* name;
  std::optional<Dtype> dtype;
  NumberField field;
};

constexpr NumberField kFloats{4, WireType::fixed32, 32};
constexpr NumberField kDoubles{10, WireType::fixed64, 64};
constexpr NumberField ints(std::uint32_t bits) { return {5, WireType::varint, bits}; }
constexpr NumberField kLongs{7, WireType::varint, 64};
constexpr NumberField unsigned_longs(std::uint32_t bits) {
  return {11, WireType::varint, bits};
}

constexpr auto kTypes = std::to_array<OnnxType>({
    {"UNDEFINED", {}, {}},
    {"FLOAT", Dtype::f32, kFloats},
    {"UINT8", Dtype::u8, ints(8)},
    {"INT8", Dtype::i8, ints(8)},
    {"UINT16", Dtype::u16, ints(16)},
    {"INT16", Dtype::i16, ints(16)},
    {"INT32", Dtype::i32, ints(32)},
    {"INT64", Dtype::i64, kLongs},
    {"STRING", {}, {}},
    {"BOOL", Dtype::boolean, ints(8)},
    {"FLOAT16", Dtype::f16, ints(16)},
    {"DOUBLE", Dtype::f64, kDoubles},
    {"UINT32", Dtype::u32, unsigned_longs(32)},
    {"UINT64", Dtype::u64, unsigned_longs(64)},
    {"COMPLEX64", Dtype::complex64, kFloats},
    {"COMPLEX128", Dtype::complex128, kDoubles},
    {"BFLOAT16", Dtype::bf16, ints(16)},
    {"FLOAT8E4M3FN", Dtype::f8_e4m3fn, ints(8)},
    {"FLOAT8E4M3FNUZ", Dtype::f8_e4m3fnuz, ints(8)},
    {"FLOAT8E5M2", Dtype::f8_e5m2, ints(8)},
    {"FLOAT8E5M2FNUZ", Dtype::f8_e5m2fnuz, ints(8)},
    {"UINT4", Dtype::u4, ints(8)},  // two or four a number
    {"INT4", Dtype::i4, ints(8)},
    {"FLOAT4E2M1", Dtype::f4_e2m1, ints(8)},
    {"FLOAT8E8M0", Dtype::f8_e8m0, ints(8)},
    {"UINT2", Dtype::u2, ints(8)},
    {"INT2", Dtype::i2, ints(8)},
    {"FLOAT6E2M3", Dtype::f6_e2m3, ints(6)},
    {"FLOAT6E3M2", Dtype::f6_e3m2, ints(6)},
});
constexpr std::uint64_t kString = 8;

Error broken(std::string_view tensor, std::string what) {
  return Error(Code::corrupt, std::move(what)).tensor(tensor);
}

std::uint64_t elements_of(std::span<const std::uint64_t> shape) {
  std::uint64_t elements = 1;
  for (const std::uint64_t dimension : shape) elements *= dimension;
  return elements;
}

// How many numbers hold the elements, which fill `size` bytes.
std::uint64_t numbers_of(std::span<const std::uint64_t> shape, std::uint64_t size,
                         std::uint32_t bits) {
  return bits < 8 ? elements_of(shape) : size / (bits / 8);
}

// --- The message -------------------------------------------------------------------

// Fields that are there once, or not at all.
template <typename T, typename Value>
Status set_once(std::optional<T>& field, Value&& value, std::uint64_t at,
                const char* what) {
  if (field) return Error(Code::corrupt, std::string(what) + " twice").at(at);
  field = std::forward<Value>(value);
  return {};
}

Status add_dimension(OnnxTensor& tensor, std::uint64_t value, std::uint64_t at) {
  if (value >> 63 != 0)
    return Error(Code::corrupt, "a tensor's dimension is negative")
        .at(at)
        .found(std::to_string(static_cast<std::int64_t>(value)));
  if (tensor.shape.size() == disk::kMaxRank)
    return Error(Code::corrupt, "a tensor has too many dimensions")
        .at(at)
        .expected("at most " + std::to_string(disk::kMaxRank));
  tensor.shape.push_back(value);
  return {};
}

Status read_dimensions(OnnxTensor& tensor, InputCursor& cursor,
                       const ProtobufField& field) {
  if (field.type == WireType::varint)
    return add_dimension(tensor, field.value, field.at);
  WEIG_TRY(expect_wire_type(field, WireType::bytes, "a tensor's dims"));
  cursor.seek(field.begin);
  while (cursor.offset() < field.end) {
    const std::uint64_t at = cursor.offset();
    WEIG_TRY_ASSIGN(bytes, cursor.peek(std::min(kMaxVarintBytes, field.end - at)));
    const auto number = load_varint(bytes);
    if (!number)
      return Error(Code::corrupt, "a tensor's dims hold a number that does not end")
          .at(at);
    WEIG_TRY(add_dimension(tensor, number->value, at));
    cursor.skip(number->size);
  }
  return {};
}

Status read_place(OnnxTensor& tensor, InputCursor& cursor, const ProtobufField& field) {
  WEIG_TRY(expect_wire_type(field, WireType::bytes, "a tensor's external_data"));
  WEIG_TRY_ASSIGN(entry,
                  read_onnx_pair(cursor, field, kMaxPlace, "a tensor's external_data"));
  const auto& [key, value] = entry;
  const auto set_number = [&](std::optional<std::uint64_t>& number) -> Status {
    WEIG_TRY_ASSIGN(parsed, onnx_place_number(key, value, field.at));
    return set_once(number, parsed, field.at, "a tensor's external_data has a key");
  };
  if (key == "location")
    return set_once(tensor.location, value, field.at,
                    "a tensor's external_data has a key");
  if (key == "offset") return set_number(tensor.offset);
  if (key == "length") return set_number(tensor.length);
  if (key == "checksum") {
    tensor.has_checksum = true;
    return {};
  }
  return Error(Code::unsupported,
               "a tensor's external_data has a key that is not known")
      .at(field.at)
      .found(in_quotes(key))
      .expected("location, offset, length or checksum");
}

Status read_field(OnnxTensor& tensor, InputCursor& cursor, const ProtobufField& field) {
  switch (field.number) {
    case 1:
      return read_dimensions(tensor, cursor, field);
    case 2:
      WEIG_TRY(expect_wire_type(field, WireType::varint, "a tensor's data_type"));
      return set_once(tensor.data_type, field.value, field.at,
                      "a tensor has its data_type");
    case 3:
      tensor.has_segment = true;
      return {};
    case 4:
      tensor.floats.add(field);
      return {};
    case 5:
      tensor.ints.add(field);
      return {};
    case 6:
      tensor.has_strings = true;
      return {};
    case 7:
      tensor.longs.add(field);
      return {};
    case 9:
      WEIG_TRY(expect_wire_type(field, WireType::bytes, "a tensor's raw_data"));
      return set_once(tensor.raw, field, field.at, "a tensor has its raw_data");
    case 10:
      tensor.doubles.add(field);
      return {};
    case 11:
      tensor.unsigned_longs.add(field);
      return {};
    case 13:
      return read_place(tensor, cursor, field);
    case 14:
      WEIG_TRY(expect_wire_type(field, WireType::varint, "a tensor's data_location"));
      return set_once(tensor.data_location, field.value, field.at,
                      "a tensor has its data_location");
    default:
      return {};
  }
}

}  // namespace

Result<OnnxTensor> OnnxTensor::read(InputCursor& cursor, const ProtobufField& message) {
  OnnxTensor tensor;
  tensor.at = message.at;
  std::optional<std::string> name;
  ProtobufMessage fields(cursor, message);
  Status status;
  for (;;) {
    WEIG_TRY_ASSIGN(more, fields.next());
    if (!more) break;
    const ProtobufField& field = fields.field();
    if (field.number != 8) {
      status = read_field(tensor, cursor, field);
      if (!status) break;
      continue;
    }
    WEIG_TRY_ASSIGN(
        text, protobuf_text(cursor, field, disk::kMaxNameBytes, "a tensor's name"));
    WEIG_TRY(set_once(name, std::move(text), field.at, "a tensor has its name"));
  }
  tensor.name = name.value_or("");
  if (status) return tensor;
  // Its name may be behind what is wrong.
  while (!name) {
    const auto more = fields.next();
    if (!more || !*more) break;
    if (fields.field().number != 8) continue;
    auto text = protobuf_text(cursor, fields.field(), disk::kMaxNameBytes, "");
    if (!text) break;
    name = *std::move(text);
  }
  if (!name) return std::move(status).error();
  return std::move(status).error().tensor(*name);
}

// --- Numbers -----------------------------------------------------------------------

void NumberFields::add(const ProtobufField& field) noexcept {
  if (field.size() == 0) return;
  if (!any_) at_ = field.at;
  single_ = any_ ? std::nullopt : std::optional(field.type);
  any_ = true;
  begin_ = field.begin;
  end_ = field.end;
}

// Nothing of what is of fixed width and in one piece has to be looked at.
bool NumberFields::is_as_it_is(NumberField field) const noexcept {
  const std::uint64_t size = end_ - begin_;
  return field.type != WireType::varint &&
         (single_ == field.type ||
          (single_ == WireType::bytes && size % (field.bits / 8) == 0));
}

Result<std::uint64_t> NumberFields::count(const Input& input, NumberField field) const {
  if (is_as_it_is(field)) return (end_ - begin_) / (field.bits / 8);
  return ProtobufNumbers(input, at_, end_, field).count();
}

void NumberFields::place(Manifest& manifest, std::string_view name, Dtype dtype,
                         std::span<const std::uint64_t> shape, std::uint64_t size,
                         NumberField field) const {
  if (size == 0 || is_as_it_is(field)) {
    manifest.add(name, dtype, shape, begin_, size);
    return;
  }
  ElementStorage storage;
  storage.packing = ElementStorage::Packing::protobuf;
  storage.numbers = field;
  storage.begin = at_;
  storage.size = end_ - at_;
  storage.bytes = size;
  manifest.add(name, dtype, shape, size, std::move(storage));
}

Status NumberFields::add_tensor(const Input& input, Manifest& manifest,
                                std::string_view name, Dtype dtype,
                                std::span<const std::uint64_t> shape,
                                NumberField field) const {
  const std::uint64_t size = implied_bytes(*dtype_info(dtype), shape).bytes;
  auto numbers = count(input, field);
  if (!numbers) return std::move(numbers).error().tensor(name);
  const std::uint64_t expected = numbers_of(shape, size, field.bits);
  if (*numbers != expected)
    return broken(name, "its data differ from what data_type and dims imply")
        .at(at_)
        .found(std::to_string(*numbers) + " numbers")
        .expected(std::to_string(expected));
  place(manifest, name, dtype, shape, size, field);
  return {};
}

Status NumberFields::add_list(const Input& input, Manifest& manifest,
                              std::string_view name, Dtype dtype,
                              NumberField field) const {
  auto numbers = any_ ? count(input, field) : std::uint64_t{0};
  if (!numbers) return std::move(numbers).error().tensor(name);
  const std::uint64_t shape[] = {*numbers};
  place(manifest, name, dtype, shape, *numbers * (field.bits / 8), field);
  return {};
}

// --- From messages to a manifest ---------------------------------------------------

Status OnnxTensors::check_name(std::string_view name) {
  if (name.size() > disk::kMaxNameBytes)
    return broken(name, "the name is too long")
        .found(std::to_string(name.size()) + " bytes")
        .expected("at most " + std::to_string(disk::kMaxNameBytes));
  if (name.find('\0') != name.npos)
    return broken(name, "the name holds a NUL character");
  if (!is_utf8(name)) return broken(name, "the name is not UTF-8");
  // Names of graphs in graphs grow with every level: a small file must not take the
  // memory of a large one.
  const std::uint64_t most = std::max(input_.size, std::uint64_t{64} << 20);
  if (name.size() > most - name_bytes_)
    return Error(Code::limit, "the names of all tensors are longer than the file")
        .expected("at most " + std::to_string(most) + " bytes");
  name_bytes_ += name.size();
  return {};
}

std::uint32_t OnnxTensors::file_number(const std::string& location) {
  const auto next = static_cast<std::uint32_t>(manifest_.files.size() + 1);
  const auto [at, fresh] = files_.emplace(location, next);
  if (fresh) manifest_.files.push_back(location);
  return at->second;
}

Status OnnxTensors::skip_strings(std::string_view name) {
  WEIG_TRY(check_name(name));
  if (++strings_ <= kMaxSkipped)
    manifest_.skipped.push_back("the strings " + in_quotes(name));
  return {};
}

void OnnxTensors::finish() {
  if (strings_ > kMaxSkipped)
    manifest_.skipped.push_back("strings of " + std::to_string(strings_ - kMaxSkipped) +
                                " more tensors");
  if (checksums_ > 0)
    manifest_.warnings.push_back("the SHA-1 that " + std::to_string(checksums_) +
                                 " tensors give of their files is not compared");
}

Status OnnxTensors::add_number(std::string_view name, Dtype dtype,
                               const NumberFields& numbers, NumberField field) {
  WEIG_TRY(check_name(name));
  if (numbers.empty()) return broken(name, "its Constant node has no value");
  return numbers.add_tensor(input_, manifest_, name, dtype, {}, field);
}

Status OnnxTensors::add_numbers(std::string_view name, Dtype dtype,
                                const NumberFields& numbers, NumberField field) {
  WEIG_TRY(check_name(name));
  return numbers.add_list(input_, manifest_, name, dtype, field);
}

Status OnnxTensors::add(std::string_view name, const OnnxTensor& tensor) {
  const std::uint64_t type = tensor.data_type.value_or(0);
  if (type == kString) return skip_strings(name);
  WEIG_TRY(check_name(name));
  if (type >= kTypes.size())
    return Error(Code::unsupported, "its data_type is not known")
        .tensor(name)
        .at(tensor.at)
        .found(type);
  if (tensor.has_segment)
    return Error(Code::unsupported, "the tensor is a segment of a larger one")
        .tensor(name)
        .at(tensor.at);
  const auto dtype = kTypes[type].dtype;
  if (!dtype) return broken(name, "it has no data_type").at(tensor.at);
  const Implied implied = implied_bytes(*dtype_info(*dtype), tensor.shape);
  if (implied.rule != Rule::none)
    return broken(name, rule_text(implied.rule)).at(tensor.at);
  switch (tensor.data_location.value_or(0)) {
    case 0:
      return add_inline(name, tensor, implied.bytes, type);
    case 1:
      return add_external(name, tensor, implied.bytes, *dtype);
    default:
      return Error(Code::unsupported, "its data_location is not known")
          .tensor(name)
          .at(tensor.at)
          .found(*tensor.data_location);
  }
}

Status OnnxTensors::add_inline(std::string_view name, const OnnxTensor& tensor,
                               std::uint64_t size, std::uint64_t type) {
  const OnnxType& known = kTypes[type];
  struct Numbers {
    std::uint32_t field;
    const char* name;
    const NumberFields& fields;
  };
  const Numbers all[] = {{4, "float_data", tensor.floats},
                         {5, "int32_data", tensor.ints},
                         {7, "int64_data", tensor.longs},
                         {10, "double_data", tensor.doubles},
                         {11, "uint64_data", tensor.unsigned_longs}};
  const bool is_raw = tensor.raw && tensor.raw->size() > 0;
  const NumberFields* data = nullptr;
  for (const Numbers& numbers : all) {
    if (numbers.fields.empty()) continue;
    if (numbers.field != known.field.number)
      return broken(name, "its data are in a field that its data_type does not have")
          .at(tensor.at)
          .found(std::string(numbers.name) + " of " + known.name);
    data = &numbers.fields;
  }
  if (tensor.has_strings)
    return broken(name, "its data are in a field that its data_type does not have")
        .at(tensor.at)
        .found(std::string("string_data of ") + known.name);
  if (data && is_raw)
    return broken(name, "its data are there twice, raw and as numbers").at(tensor.at);
  if (data)
    return data->add_tensor(input_, manifest_, name, *known.dtype, tensor.shape,
                            known.field);
  const std::uint64_t found = is_raw ? tensor.raw->size() : 0;
  if (found != size)
    return broken(name, is_raw
                            ? "its raw_data differ from what data_type and dims imply"
                            : "it has no data")
        .at(tensor.at)
        .found(std::to_string(found) + " bytes")
        .expected(std::to_string(size) + " bytes");
  manifest_.add(name, *known.dtype, tensor.shape,
                is_raw ? tensor.raw->begin : tensor.at, size);
  return {};
}

Status OnnxTensors::add_external(std::string_view name, const OnnxTensor& tensor,
                                 std::uint64_t size, Dtype dtype) {
  if (!tensor.floats.empty() || !tensor.ints.empty() || !tensor.longs.empty() ||
      !tensor.doubles.empty() || !tensor.unsigned_longs.empty() || tensor.has_strings ||
      (tensor.raw && tensor.raw->size() > 0))
    return broken(name, "its data are there twice, in the model and in another file")
        .at(tensor.at);
  if (!tensor.location)
    return broken(name, "its data are in another file that it does not name")
        .at(tensor.at);
  auto location = onnx_location(*tensor.location);
  if (!location) return std::move(location).error().tensor(name).at(tensor.at);
  if (tensor.length && *tensor.length != size)
    return broken(name, "its length differs from what data_type and dims imply")
        .at(tensor.at)
        .found(std::to_string(*tensor.length) + " bytes")
        .expected(std::to_string(size) + " bytes");
  checksums_ += tensor.has_checksum ? 1 : 0;
  ElementStorage storage;
  storage.file = file_number(*location);
  storage.begin = tensor.offset.value_or(0);
  storage.size = storage.bytes = size;
  storage.ends_file = !tensor.length;
  manifest_.add(name, dtype, tensor.shape, size, std::move(storage));
  return {};
}

}  // namespace weig
