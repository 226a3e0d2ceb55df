// SPDX-License-Identifier: Apache-2.0
#include "formats/safetensors.h"

#include <algorithm>

#include "core/record.h"
#include "core/text.h"
#include "core/try.h"
#include "formats/json.h"
#include "formats/safetensors_header.h"

namespace weig {
namespace {

namespace ondemand = simdjson::ondemand;
static_assert(kJsonPadding >= simdjson::SIMDJSON_PADDING);

constexpr std::uint64_t kLengthBytes = kSafetensorsLengthBytes;
constexpr std::uint32_t kMaxMetadataDepth = 63;  // below the object itself

Error broken(std::string_view tensor, std::string what) {
  return Error(Code::corrupt, std::move(what)).tensor(tensor);
}

// Reads one header; holds what all of its tensors share.
class HeaderReader {
 public:
  HeaderReader(const SafetensorsOptions& options, std::uint64_t data_begin,
               std::uint64_t file_size)
      : options_(options) {
    manifest_.file_size = file_size;
    manifest_.data_begin = data_begin;
  }

  Result<Manifest> read(Bytes padded, std::uint64_t json_bytes) {
    ondemand::parser parser;
    ondemand::document document;
    const simdjson::padded_string_view text(text_of(padded.first(json_bytes)),
                                            padded.size());
    if (auto error = parser.iterate(text).get(document))
      return json_error(error, "the header's JSON");
    ondemand::object object;
    if (auto error = document.get_object().get(object))
      return json_error(error, "the header's JSON is no object");
    for (auto field : object) {
      std::string_view key;
      if (auto error = field.unescaped_key().get(key))
        return json_error(error, "a name in the header");
      ondemand::value value;
      if (auto error = field.value().get(value))
        return json_error(error, "the header's JSON").tensor(key);
      if (key == "__metadata__") {
        WEIG_TRY(read_metadata(value));
      } else {
        WEIG_TRY(read_tensor(key, value));
      }
    }
    if (document.current_location().error() != simdjson::OUT_OF_BOUNDS)
      return Error(Code::corrupt, "the header's JSON goes on after its object");
    WEIG_TRY(check_distinct_names(manifest_));
    WEIG_TRY(order_and_check_ranges(manifest_));
    WEIG_TRY(check_cover());
    if (warnings_ > kMaxWarnings)
      manifest_.warnings.push_back("and " + std::to_string(warnings_ - kMaxWarnings) +
                                   " more like these");
    return std::move(manifest_);
  }

 private:
  Status read_metadata(ondemand::value value) {
    if (std::exchange(has_metadata_, true))
      return Error(Code::corrupt, "the header has __metadata__ twice");
    bool is_null = false;  // none, as the reference reads it
    if (!value.is_null().get(is_null) && is_null) return {};
    ondemand::object object;
    if (auto error = value.get_object().get(object))
      return json_error(error, "__metadata__ is no object");
    KeySet keys;
    std::string out = "{";
    for (auto field : object) {
      std::string_view key;
      if (auto error = field.unescaped_key().get(key))
        return json_error(error, "a key in __metadata__");
      if (!keys.add(key))
        return Error(Code::corrupt, "__metadata__ has a key twice")
            .found(in_quotes(key));
      if (out.size() > 1) out += ',';
      const std::string shown = in_quotes(key);
      append_json_string(out, key);
      out += ':';
      ondemand::value entry;
      if (auto error = field.value().get(entry))
        return json_error(error, "__metadata__ " + shown);
      WEIG_TRY(append_metadata_value(out, shown, entry));
    }
    manifest_.metadata = out + "}";
    return {};
  }

  Status append_metadata_value(std::string& out, const std::string& key,
                               ondemand::value value) {
    ondemand::json_type type{};
    if (auto error = value.type().get(type))
      return json_error(error, "__metadata__ " + key);
    if (type == ondemand::json_type::string)
      return append_canonical_json(out, value, kMaxMetadataDepth);
    if (options_.strictness == Strictness::strict)
      return Error(Code::corrupt, "__metadata__ " + key + " is not a string")
          .hint("'weig convert --lenient' keeps such values as JSON");
    warn("__metadata__ " + key + " is not a string; kept as JSON");
    out += R"({"type":"json","value":)";
    WEIG_TRY(append_canonical_json(out, value, kMaxMetadataDepth - 1));
    out += '}';
    return {};
  }

  Status read_tensor(std::string_view name, ondemand::value value) {
    name_ = name;
    if (name.size() > disk::kMaxNameBytes)
      return broken(name, "the name is too long")
          .found(std::to_string(name.size()) + " bytes")
          .expected("at most 65535");
    if (name.find('\0') != name.npos)
      return broken(name, "the name holds a NUL character");
    ondemand::object object;
    if (auto error = value.get_object().get(object))
      return json_error(error, "its header entry is no object").tensor(name);
    dtype_.reset();
    have_shape_ = have_offsets_ = false;
    for (auto field : object) {
      std::string_view key;
      if (auto error = field.unescaped_key().get(key))
        return json_error(error, "a key of its header entry").tensor(name_);
      ondemand::value entry;
      if (auto error = field.value().get(entry))
        return json_error(error, "its header entry").tensor(name_);
      WEIG_TRY(read_field(key, entry));
    }
    if (!dtype_) return broken(name_, "its header entry has no dtype");
    if (!have_shape_) return broken(name_, "its header entry has no shape");
    if (!have_offsets_) return broken(name_, "its header entry has no data_offsets");
    return add_tensor();
  }

  Status read_field(std::string_view key, ondemand::value value) {
    if (key == "dtype") {
      if (dtype_) return broken(name_, "its header entry has dtype twice");
      std::string_view text;
      if (auto error = value.get_string().get(text))
        return json_error(error, "its dtype").tensor(name_);
      dtype_ = safetensors_dtype_named(text);
      if (!dtype_)
        return Error(Code::unsupported,
                     "an element type that safetensors does not have")
            .tensor(name_)
            .found(in_quotes(text));
      return {};
    }
    if (key == "shape") {
      if (have_shape_) return broken(name_, "its header entry has shape twice");
      have_shape_ = true;
      return read_numbers(value, "its shape", disk::kMaxRank, shape_);
    }
    if (key == "data_offsets") {
      if (have_offsets_)
        return broken(name_, "its header entry has data_offsets twice");
      have_offsets_ = true;
      WEIG_TRY(read_numbers(value, "its data_offsets", 2, offsets_));
      if (offsets_.size() != 2)
        return broken(name_, "its data_offsets")
            .found(std::to_string(offsets_.size()) + " numbers")
            .expected("2");
      return {};
    }
    // The reference passes over what it does not know; what is there must be JSON.
    std::string ignored;
    if (auto status = append_canonical_json(ignored, value, kMaxMetadataDepth); !status)
      return std::move(status).error().tensor(name_);
    warn("tensor " + in_quotes(name_) + ": passed over " + in_quotes(key) +
         " in its header entry");
    return {};
  }

  Status read_numbers(ondemand::value value, const char* what, std::uint64_t most,
                      std::vector<std::uint64_t>& out) {
    out.clear();
    ondemand::array array;
    if (auto error = value.get_array().get(array))
      return json_error(error, std::string(what) + " is no list").tensor(name_);
    for (auto element : array) {
      std::uint64_t number = 0;
      if (auto error = element.get_uint64().get(number))
        return json_error(error, std::string(what) + " holds no whole number")
            .tensor(name_);
      if (out.size() == most)
        return broken(name_, std::string(what) + " has too many numbers")
            .expected("at most " + std::to_string(most));
      out.push_back(number);
    }
    return {};
  }

  Status add_tensor() {
    const DtypeInfo& info = *dtype_info(*dtype_);
    const Implied implied = implied_bytes(info, shape_);
    if (implied.rule != Rule::none) return broken(name_, rule_text(implied.rule));
    std::uint64_t elements = 1;
    for (const std::uint64_t dimension : shape_) elements *= dimension;
    if (info.block_elements > 1 &&
        elements * info.block_bytes % info.block_elements != 0)
      return broken(name_, "its elements do not fill whole bytes")
          .found(std::to_string(elements) + " of " + std::string(info.name));
    const std::uint64_t room = manifest_.file_size - manifest_.data_begin;
    const auto [begin, end] = std::pair(offsets_[0], offsets_[1]);
    if (begin > end)
      return broken(name_, "its data_offsets end before they begin")
          .found("[" + std::to_string(begin) + ", " + std::to_string(end) + "]");
    if (end > room)
      return broken(name_, "its data lies outside the file")
          .found("an end at " + std::to_string(end))
          .expected("at most " + std::to_string(room))
          .hint("the file was cut, or its header is damaged");
    if (end - begin != implied.bytes)
      return broken(name_, "its data_offsets differ from what dtype and shape imply")
          .found(std::to_string(end - begin) + " bytes")
          .expected(std::to_string(implied.bytes) + " bytes");
    manifest_.add(name_, *dtype_, shape_, manifest_.data_begin + begin, implied.bytes);
    return {};
  }

  // The data region is covered from end to end, each byte by one tensor.
  Status check_cover() {
    std::uint64_t end = manifest_.data_begin;
    const Manifest::Entry* last = nullptr;
    for (const auto& entry : manifest_.entries()) {
      if (entry.shares != TensorSpec::kOwn && last && last->shares == entry.shares)
        WEIG_TRY(lenient("tensor " + in_quotes(manifest_.name(entry)) +
                         " has the same bytes as tensor " +
                         in_quotes(manifest_.name(*last))));
      if (entry.begin > end)
        WEIG_TRY(lenient("a hole of " + std::to_string(entry.begin - end) +
                         " bytes before tensor " + in_quotes(manifest_.name(entry))));
      if (entry.begin < end && entry.size == 0)
        return broken(manifest_.name(entry), "an empty tensor inside another's data");
      end = std::max(end, entry.begin + entry.size);
      last = &entry;
    }
    if (end < manifest_.file_size)
      WEIG_TRY(lenient(std::to_string(manifest_.file_size - end) +
                           (manifest_.file_size - end == 1 ? " byte" : " bytes") +
                           " after the last tensor",
                       "safetensors forbids it; if parts were joined into one file, "
                       "convert the parts; else 'weig convert --lenient' ignores "
                       "what is behind"));
    return {};
  }

  Status lenient(std::string what,
                 std::string hint =
                     "safetensors forbids it; 'weig convert --lenient' accepts it") {
    if (options_.strictness == Strictness::strict)
      return Error(Code::corrupt, std::move(what)).hint(std::move(hint));
    manifest_.covers_file = false;
    warn(std::move(what));
    return {};
  }

  // The first of many; the rest is counted.
  void warn(std::string what) {
    if (++warnings_ <= kMaxWarnings) manifest_.warnings.push_back(std::move(what));
  }

  static constexpr std::size_t kMaxWarnings = 20;

  const SafetensorsOptions& options_;
  bool has_metadata_ = false;
  Manifest manifest_;
  std::string name_;  // of the tensor being read
  std::optional<Dtype> dtype_;
  std::vector<std::uint64_t> shape_;
  std::vector<std::uint64_t> offsets_;
  bool have_shape_ = false;
  bool have_offsets_ = false;
  std::size_t warnings_ = 0;
};

}  // namespace

Result<std::uint64_t> safetensors_json_bytes(Bytes first, std::uint64_t file_size,
                                             const SafetensorsOptions& options) {
  if (std::min<std::uint64_t>(file_size, first.size()) < kLengthBytes)
    return Error(Code::corrupt, "the file is shorter than a safetensors header")
        .found(std::to_string(file_size) + " bytes");
  const auto length = load<std::uint64_t>(first.data());
  if (length > file_size - kLengthBytes)
    return Error(Code::corrupt, "the header is longer than the file")
        .at(0)
        .found(std::to_string(length) + " bytes")
        .expected("at most " + std::to_string(file_size - kLengthBytes))
        .hint("the file was cut, or is not a safetensors file");
  if (length < 2)
    return Error(Code::corrupt, "the header is too short to hold {}")
        .at(0)
        .found(length);
  if (length > options.max_header_bytes)
    return Error(Code::limit, "the header is longer than allowed")
        .at(0)
        .found(std::to_string(length) + " bytes")
        .expected("at most " + std::to_string(options.max_header_bytes))
        .hint("max_header_bytes, --max-header-bytes, raises it");
  return length;
}

Result<Manifest> read_safetensors(Bytes padded, std::uint64_t json_bytes,
                                  std::uint64_t file_size,
                                  const SafetensorsOptions& options) {
  if (padded[0] != std::byte{'{'})
    return Error(Code::corrupt, "the header does not start with {").at(kLengthBytes);
  return HeaderReader(options, kLengthBytes + json_bytes, file_size)
      .read(padded, json_bytes);
}

}  // namespace weig
