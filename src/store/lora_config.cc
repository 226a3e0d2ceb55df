// SPDX-License-Identifier: Apache-2.0
#include "store/lora_config.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "core/text.h"
#include "core/try.h"
#include "formats/json.h"
#include "os/os.h"

namespace weig {
namespace {

namespace ondemand = simdjson::ondemand;

constexpr std::uint64_t kMaxBytes = std::uint64_t{16} << 20;
constexpr std::uint32_t kMaxDepth = 64;

// Settings that change what is added, or to what; off is null, false or empty.
constexpr auto kMustBeOff = std::to_array<std::string_view>(
    {"use_dora", "lora_bias", "use_qalora", "modules_to_save", "target_parameters",
     "layer_replication", "trainable_token_indices", "alora_invocation_tokens"});

// Ways to initialize that leave the base as it is.
constexpr auto kHarmlessStarts = std::to_array<std::string_view>(
    {"true", "false", "null", R"("gaussian")", R"("orthogonal")", R"("eva")"});

// One setting; `text` is its value as canonical JSON.
struct Setting {
  std::string_view key;
  std::string_view text;
};

Error bad_value(const Setting& setting, std::string expected) {
  return Error(Code::corrupt, "the adapter's config has a value of another kind")
      .found(in_quotes(setting.key) + ": " + escaped(setting.text, 0, 64))
      .expected(std::move(expected));
}

Error unsupported(const Setting& setting) {
  return Error(Code::unsupported,
               "the adapter is more than factors that are multiplied and added")
      .found(in_quotes(setting.key) + ": " + escaped(setting.text, 0, 64));
}

Status read_bool(const Setting& setting, bool& out) {
  out = setting.text == "true";
  if (out || setting.text == "false" || setting.text == "null") return {};
  return bad_value(setting, "true or false");
}

Status read_number(const Setting& setting, std::optional<double>& out) {
  double number = 0;
  const char* begin = setting.text.data();
  const char* end = begin + setting.text.size();
  const auto read = std::from_chars(begin, end, number);
  if (read.ec != std::errc() || read.ptr != end) return bad_value(setting, "a number");
  out = number;
  return {};
}

Status read_pattern(const Setting& setting, LoraPattern& pattern) {
  if (setting.text == "null") return {};
  ondemand::parser parser;
  ondemand::document document;
  ondemand::object object;
  const simdjson::padded_string text(setting.text);
  if (parser.iterate(text).get(document) || document.get_object().get(object))
    return bad_value(setting, "an object");
  for (auto field : object) {
    std::string_view key;
    double number = 0;
    if (field.unescaped_key().get(key)) return bad_value(setting, "an object");
    std::string module(key);
    if (field.value().get_double().get(number)) return bad_value(setting, "numbers");
    if (module.find_first_of("\\^$*+?{}[]|()") != module.npos)
      return Error(Code::unsupported,
                   "a key of the adapter's config is a regular expression")
          .found(in_quotes(module) + " in " + in_quotes(setting.key))
          .expected("the end of modules' names");
    pattern.emplace_back(std::move(module), number);
  }
  return {};
}

// What is not named here says how it was trained, or what the tensors say themselves.
Status read_setting(const Setting& setting, LoraConfig& config) {
  if (setting.key == "r") return read_number(setting, config.rank);
  if (setting.key == "lora_alpha") return read_number(setting, config.alpha);
  if (setting.key == "rank_pattern") return read_pattern(setting, config.ranks);
  if (setting.key == "alpha_pattern") return read_pattern(setting, config.alphas);
  if (setting.key == "use_rslora") return read_bool(setting, config.rank_stabilized);
  if (setting.key == "fan_in_fan_out") return read_bool(setting, config.fan_in_fan_out);
  const bool must_be_off =
      std::ranges::find(kMustBeOff, setting.key) != kMustBeOff.end();
  const bool is_off = setting.text == "false" || setting.text == "null" ||
                      setting.text == "[]" || setting.text == "{}";
  if (must_be_off && !is_off) return unsupported(setting);
  if (setting.key == "peft_type" && setting.text != R"("LORA")")
    return unsupported(setting);
  if (setting.key == "init_lora_weights" &&
      std::ranges::find(kHarmlessStarts, setting.text) == kHarmlessStarts.end())
    return unsupported(setting).hint("it is for a base that was changed");
  return {};
}

Status read_settings(ondemand::object object, LoraConfig& config) {
  KeySet keys;
  std::string text;
  for (auto field : object) {
    std::string_view unescaped;
    ondemand::value value;
    if (auto error = field.unescaped_key().get(unescaped))
      return json_error(error, "the adapter's config");
    const std::string key(unescaped);
    if (!keys.add(key))
      return Error(Code::corrupt, "the adapter's config has a key twice")
          .found(in_quotes(key));
    if (auto error = field.value().get(value))
      return json_error(error, "the adapter's config");
    text.clear();
    WEIG_TRY(append_canonical_json(text, value, kMaxDepth));
    WEIG_TRY(read_setting({key, text}, config));
  }
  return {};
}

Status parse(std::vector<std::byte>& text, std::uint64_t size, LoraConfig& config) {
  ondemand::parser parser;
  ondemand::document document;
  ondemand::object object;
  const simdjson::padded_string_view view(text_of(Bytes(text).first(size)),
                                          text.size());
  if (auto error = parser.iterate(view).get(document))
    return json_error(error, "the adapter's config");
  if (auto error = document.get_object().get(object))
    return json_error(error, "the adapter's config is no JSON object");
  WEIG_TRY(read_settings(object, config));
  if (document.current_location().error() != simdjson::OUT_OF_BOUNDS)
    return Error(Code::corrupt, "the adapter's config goes on after its object");
  return {};
}

}  // namespace

Result<LoraConfig> read_lora_config(const std::string& path) {
  WEIG_TRY_ASSIGN(file, os::InputFile::open(path));
  if (file.size() > kMaxBytes)
    return Error(Code::limit, "the adapter's config is larger than allowed")
        .file(path)
        .found(file.size())
        .expected("at most " + std::to_string(kMaxBytes));
  std::vector<std::byte> text(file.size() + simdjson::SIMDJSON_PADDING);
  WEIG_TRY(file.read(0, MutableBytes(text).first(file.size())));
  LoraConfig config;
  config.path = path;
  if (auto status = parse(text, file.size(), config); !status)
    return std::move(status).error().file(path);
  return config;
}

namespace {

// Whether the end of `text` is what the pattern says, '.' being any character but a
// line break; where that end begins.
std::optional<std::size_t> match_end(std::string_view pattern, std::string_view text) {
  std::size_t at = text.size();
  for (std::size_t i = pattern.size(); i-- > 0;) {
    if (at == 0) return std::nullopt;
    const char found = text[--at];
    if (pattern[i] != '.') {
      if (pattern[i] != found) return std::nullopt;
      continue;
    }
    if (found == '\n') return std::nullopt;
    while (at > 0 && (text[at] & 0xC0) == 0x80) --at;  // the rest of the character
  }
  return at;
}

}  // namespace

std::optional<double> pattern_value(const LoraPattern& pattern,
                                    std::string_view module) {
  const auto matches = [module](const auto& entry) {
    const auto begin = match_end(entry.first, module);
    if (!begin) return false;
    const std::string_view before = module.substr(0, *begin);
    return before.empty() ||
           (before.ends_with('.') && before.find('\n') == before.npos);
  };
  const auto found = std::ranges::find_if(pattern, matches);
  if (found == pattern.end()) return std::nullopt;
  return found->second;
}

}  // namespace weig
