// SPDX-License-Identifier: Apache-2.0
// From a WEIG file or a set to GGUF: the file that it was converted from, or one of
// version 3 with the metadata as its keys.
#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <optional>

#include <weig/metadata.h>
#include <weig/model.h>

#include "convert/export_plan.h"
#include "convert/source_header.h"
#include "core/bytes.h"
#include "core/text.h"
#include "core/try.h"
#include "formats/gguf.h"
#include "formats/gguf_values.h"
#include "formats/json.h"

namespace weig {
namespace {

namespace ondemand = simdjson::ondemand;

constexpr std::string_view kArchitectureKey = "general.architecture";
constexpr std::uint32_t kVersion = 3;
constexpr std::size_t kNameLimit = 64;  // GGML's, its NUL included

template <typename T>
void put(std::string& out, T value) {
  std::array<std::byte, sizeof(T)> bytes{};
  store(bytes.data(), value);
  out += text_of(bytes);
}
void put_string(std::string& out, std::string_view text) {
  put(out, std::uint64_t{text.size()});
  out += text;
}
void put_type(std::string& out, GgufType type) {
  put(out, static_cast<std::uint32_t>(type));
}

std::optional<GgufType> type_named(std::string_view name) {
  for (std::uint32_t i = 0; i < kGgufTypes; ++i)
    if (gguf_type_name(static_cast<GgufType>(i)) == name)
      return static_cast<GgufType>(i);
  return std::nullopt;
}

// A number's bytes, from the text of one that Metadata has proven to be of its type.
template <typename T>
void put_number(std::string& out, std::string_view json) {
  T value{};
  if (json == R"("nan")" || json == R"("inf")" || json == R"("-inf")")
    json = json.substr(1, json.size() - 2);  // as from_chars() reads them
  std::from_chars(json.data(), json.data() + json.size(), value);
  std::array<std::byte, sizeof(T)> bytes{};
  std::memcpy(bytes.data(), &value, sizeof value);
  if (kNativeOrder == ByteOrder::big) std::ranges::reverse(bytes);
  out += text_of(bytes);
}

std::string from_hex(std::string_view digits) {
  std::string out;
  for (std::size_t i = 0; i + 1 < digits.size(); i += 2) {
    unsigned byte = 0;
    std::from_chars(digits.data() + i, digits.data() + i + 2, byte, 16);
    out += static_cast<char>(byte);
  }
  return out;
}

// Of a value without structure; `json` is its canonical text.
void put_scalar(std::string& out, GgufType type, std::string_view json) {
  switch (type) {
    case GgufType::u8:
      return put_number<std::uint8_t>(out, json);
    case GgufType::i8:
      return put_number<std::int8_t>(out, json);
    case GgufType::u16:
      return put_number<std::uint16_t>(out, json);
    case GgufType::i16:
      return put_number<std::int16_t>(out, json);
    case GgufType::u32:
      return put_number<std::uint32_t>(out, json);
    case GgufType::i32:
      return put_number<std::int32_t>(out, json);
    case GgufType::f32:
      return put_number<float>(out, json);
    case GgufType::u64:
      return put_number<std::uint64_t>(out, json);
    case GgufType::i64:
      return put_number<std::int64_t>(out, json);
    case GgufType::f64:
      return put_number<double>(out, json);
    case GgufType::boolean:
      return put(out, static_cast<std::uint8_t>(json == "true" ? 1 : 0));
    case GgufType::string:
    case GgufType::array:
      break;  // not without structure
  }
}

Error unheld(const Metadata::Entry& entry, const char* what) {
  return Error(Code::unsupported, what)
      .found(in_quotes(entry.key) + " of type " + entry.type);
}

// A string among others: as it is, or {"hex":".."}.
Status put_element_string(std::string& out, ondemand::value value) {
  std::string_view text;
  if (!value.get_string().get(text)) {
    put_string(out, text);
    return {};
  }
  ondemand::object object;
  std::string_view digits;
  if (auto error = value.get_object().get(object))
    return json_error(error, "the metadata");
  if (auto error = object["hex"].get_string().get(digits))
    return json_error(error, "the metadata");
  put_string(out, from_hex(digits));
  return {};
}

Status put_array(std::string& out, const Metadata::Entry& entry) {
  const auto of = type_named(entry.element_type);
  if (!of || *of == GgufType::array)
    return unheld(entry, "GGUF cannot hold an array of these");
  put_type(out, *of);
  const std::size_t count_at = out.size();
  put(out, std::uint64_t{0});
  const simdjson::padded_string padded(entry.value);
  ondemand::parser parser;
  ondemand::document document;
  ondemand::array array;
  if (auto error = parser.iterate(padded).get(document))
    return json_error(error, "the metadata");
  if (auto error = document.get_array().get(array))
    return json_error(error, "the metadata");
  std::uint64_t count = 0;
  for (auto element : array) {
    ondemand::value value;
    if (auto error = element.get(value)) return json_error(error, "the metadata");
    if (*of == GgufType::string) {
      WEIG_TRY(put_element_string(out, value));
    } else {
      std::string_view token = value.raw_json_token();
      while (!token.empty() && token.back() == ' ') token.remove_suffix(1);
      put_scalar(out, *of, token);
    }
    ++count;
  }
  store(reinterpret_cast<std::byte*>(out.data() + count_at), count);
  return {};
}

Status put_entry(std::string& out, const Metadata::Entry& entry) {
  const auto type = type_named(entry.type);
  if (!type) return unheld(entry, "GGUF cannot hold metadata of this type");
  put_string(out, entry.key);
  put_type(out, *type);
  if (*type == GgufType::array) return put_array(out, entry);
  if (*type == GgufType::string) {
    put_string(out, entry.hex ? from_hex(entry.value) : entry.value);
  } else {
    put_scalar(out, *type, entry.value);
  }
  return {};
}

// The keys: the metadata, without what convert() added, and with an architecture.
Result<Metadata> keys_of(const ModelSet& set, const ExportOptions& options) {
  WEIG_TRY_ASSIGN(metadata, set.metadata());
  Metadata keys;
  if (options.architecture) keys.set(kArchitectureKey, *options.architecture);
  for (const Metadata::Entry& entry : metadata.entries()) {
    if (entry.key.starts_with(kSourceKeys)) continue;
    if (options.architecture && entry.key == kArchitectureKey) continue;
    keys.add(entry);
  }
  const Metadata::Entry* architecture = keys.find(kArchitectureKey);
  if (!architecture || architecture->type != "string" || architecture->value.empty())
    return Error(Code::unsupported,
                 "a GGUF file names the architecture of its model, and the metadata "
                 "does not")
        .expected("the key general.architecture, a string")
        .hint("--architecture NAME sets it");
  return keys;
}

Result<std::uint64_t> alignment_of(const Metadata& keys) {
  const Metadata::Entry* entry = keys.find(kGgufAlignmentKey);
  if (!entry) return kGgufAlignment;
  std::uint32_t value = 0;
  std::from_chars(entry->value.data(), entry->value.data() + entry->value.size(),
                  value);
  if (entry->type != "u32" || !std::has_single_bit(value))
    return unheld(*entry, "general.alignment is no power of two");
  return std::uint64_t{value};
}

Status check_representable(const Tensor& tensor) {
  const auto refuse = [&](const char* what) {
    return Error(Code::unsupported, what).tensor(tensor.name());
  };
  if (!ggml_type_number(tensor.dtype()))
    return refuse("GGUF cannot hold this element type")
        .found(std::string(dtype_name(tensor.dtype())))
        .hint(
            "'weig convert --cast' makes others of floating types, and --dequantize "
            "of what is quantized");
  if (tensor.shape().size() > kGgufMaxRank)
    return refuse("GGUF cannot hold so many dimensions")
        .found(shape_text(tensor.shape()))
        .expected("at most 4");
  if (tensor.name().size() >= kNameLimit)
    return refuse("GGML cannot hold a name that is so long")
        .found(std::to_string(tensor.name().size()) + " bytes")
        .expected("at most 63");
  return {};
}

// The file that was converted, where it was a GGUF file.
Result<std::optional<ExportPlan>> original(const ModelSet& set) {
  WEIG_TRY_ASSIGN(source, set.source());
  if (!source || source->format != SourceHeader::Format::gguf)
    return std::optional<ExportPlan>();
  WEIG_TRY_ASSIGN(header, restore_source_header(set));
  WEIG_TRY_ASSIGN(order, source_order(set, *header));
  ExportPlan plan;
  plan.exact = true;
  std::uint64_t end = header->size();
  plan.pieces.push_back({.bytes = *std::move(header)});
  for (std::size_t i = 0; i < order.ordinals.size(); ++i) {
    WEIG_TRY_ASSIGN(tensor, set[order.ordinals[i]]);
    // An empty one may lie before what was written already.
    const std::uint64_t begin = std::max(order.begins[i], end);
    plan.pieces.push_back(
        {.bytes = {}, .zeros = begin - end, .ordinal = order.ordinals[i]});
    end = begin + tensor.byte_count();
  }
  plan.pieces.push_back({.bytes = {}, .zeros = source->file_size - end});
  return std::optional(std::move(plan));
}

Result<ExportPlan> canonical(const ModelSet& set, const ExportOptions& options) {
  WEIG_TRY_ASSIGN(keys, keys_of(set, options));
  WEIG_TRY_ASSIGN(alignment, alignment_of(keys));
  std::string header(kGgufMark);
  put(header, kVersion);
  put(header, set.size());
  put(header, std::uint64_t{keys.entries().size()});
  for (const Metadata::Entry& entry : keys.entries())
    WEIG_TRY(put_entry(header, entry));
  ExportPlan plan;
  plan.warnings = sections_left_out(set, "GGUF");
  plan.pieces.emplace_back();
  std::uint64_t offset = 0;
  std::uint64_t copies = 0;
  for (std::uint32_t i = 0; i < set.size(); ++i) {
    WEIG_TRY_ASSIGN(tensor, set[i]);
    WEIG_TRY(check_representable(tensor));
    WEIG_TRY_ASSIGN(owner, set.member(set.member_of(i))->owner(tensor.ordinal()));
    copies += owner != tensor.ordinal() ? 1 : 0;
    put_string(header, tensor.name());
    put(header, static_cast<std::uint32_t>(tensor.shape().size()));
    for (std::size_t d = tensor.shape().size(); d-- > 0;)
      put(header, tensor.shape()[d]);
    put(header, *ggml_type_number(tensor.dtype()));
    put(header, offset);
    const std::uint64_t end = offset + tensor.byte_count();
    plan.pieces.push_back({.bytes = {}, .ordinal = i});
    offset = align_up(end, alignment);
    plan.pieces.push_back({.bytes = {}, .zeros = offset - end});
  }
  plan.pieces.front().zeros = align_up(header.size(), alignment) - header.size();
  plan.pieces.front().bytes = std::move(header);
  if (copies > 0)
    plan.warnings.push_back(
        "written again, since GGUF cannot share bytes: " + std::to_string(copies) +
        (copies == 1 ? " tensor" : " tensors"));
  return plan;
}

}  // namespace

Result<ExportPlan> plan_gguf(const ModelSet& set, const ExportOptions& options) {
  WEIG_TRY_ASSIGN(plan, original(set));
  if (plan) return *std::move(plan);
  return canonical(set, options);
}

}  // namespace weig
