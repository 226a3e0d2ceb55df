// SPDX-License-Identifier: Apache-2.0
// Text from files: JSON against another parser of the same library (its DOM, which
// looks at a whole document before it answers), metadata that is read and written
// again, UTF-8, escapes and the natural order of names.
#include <weig/metadata.h>

#include <array>
#include <set>

#include "check.h"
#include "core/text.h"
#include "formats/json.h"
#include "target.h"

namespace weig::fuzz {
namespace {

namespace ondemand = simdjson::ondemand;

// The text in a heap block with simdjson's padding and no more.
struct Padded {
  explicit Padded(std::string_view text)
      : block(std::vector<std::byte>(text.size() + simdjson::SIMDJSON_PADDING)),
        view(text_of(block.bytes()).data(), text.size(), block.bytes().size()) {
    std::ranges::copy(bytes_of(text), block.writable().begin());
  }
  Block block;
  simdjson::padded_string_view view;
};

// What the DOM makes of it: the text of its own writer, or nothing.
std::optional<std::string> by_dom(std::string_view text) {
  simdjson::dom::parser parser;
  simdjson::dom::element root;
  const simdjson::padded_string padded(text);
  if (parser.parse(padded).get(root)) return std::nullopt;
  return simdjson::to_string(root);
}

Result<std::string> canonical(std::string_view text, std::uint32_t depth) {
  const Padded padded(text);
  ondemand::parser parser;
  ondemand::document document;
  if (auto error = parser.iterate(padded.view).get(document))
    return json_error(error, "text");
  ondemand::value value;
  if (auto error = document.get_value().get(value)) return json_error(error, "text");
  std::string out;
  if (auto status = append_canonical_json(out, value, depth); !status)
    return std::move(status).error();
  if (document.current_location().error() != simdjson::OUT_OF_BOUNDS)
    return Error(Code::corrupt, "text goes on after its value");
  return out;
}

void run_json(std::string_view text) {
  const auto once = canonical(text, 64);
  if (!once) {
    failure(once.error());
    promise(!canonical(text, 3), "less depth accepts no more");
    return;
  }
  promise(is_utf8(*once), "canonical JSON is UTF-8");
  const auto dom = by_dom(text);
  promise(dom.has_value(), "what is accepted is JSON", *once);
  promise_equal(by_dom(*once).value_or("nothing"), *dom,
                "canonical JSON says what the text says");
  const auto twice = canonical(*once, 64);
  promise_equal(twice ? *twice : failure(twice.error()), *once,
                "canonical JSON is canonical");
  if (const auto flat = canonical(text, 3)) promise_equal(*flat, *once, "depth");
}

void run_parse(std::string_view text) {
  const auto metadata = Metadata::parse(text);
  promise(Metadata::parse(text, {.max_depth = 2}) ||
              !Metadata::parse(text, {.max_depth = 0}),
          "less depth accepts no more");
  for (const MetadataLimits limits :
       {MetadataLimits{.max_bytes = 20}, MetadataLimits{.max_depth = 3},
        MetadataLimits{.max_depth = 0}}) {
    const auto limited = Metadata::parse(text, limits);
    promise(!limited || metadata, "limits accept no more");
    if (limited) promise_equal(limited->text(), metadata->text(), "limits");
  }
  if (!metadata) {
    failure(metadata.error());
    return;
  }
  const std::string again = metadata->text();
  promise(is_utf8(again) && by_dom(again).has_value(), "metadata is written as JSON",
          again);
  promise(by_dom(text).has_value(), "what is accepted is JSON", again);
  const auto read = Metadata::parse(again);
  promise(read.has_value(), "what is written is read",
          read ? "" : failure(read.error()));
  promise_equal(read->text(), again, "metadata is canonical");
  std::set<std::string_view> keys;
  for (const Metadata::Entry& entry : metadata->entries()) {
    promise(keys.insert(entry.key).second, "keys are unique", entry.key);
    promise(metadata->find(entry.key) == &entry, "a key is found", entry.key);
    const Metadata::Entry* other = read->find(entry.key);
    promise(other && other->type == entry.type && other->value == entry.value &&
                other->element_type == entry.element_type && other->hex == entry.hex,
            "an entry is read again as it was", entry.key);
  }
  Metadata changed = *metadata;
  for (const Metadata::Entry& entry : metadata->entries()) {
    changed.set(entry.key, "s");
    promise(changed.find(entry.key)->value == "s", "a key is set", entry.key);
    promise(changed.remove(entry.key) && !changed.find(entry.key), "a key is removed");
  }
  promise(changed.text() == "{}", "nothing is left");
}

// A string of any bytes, as file names and tensor names are.
void run_text(std::string_view text) {
  const bool utf8 = is_utf8(text);
  promise(utf8 == is_utf8_slow(text), "fast and slow UTF-8 agree");
  promise(utf8 == simdjson::validate_utf8(text.data(), text.size()),
          "UTF-8 is what simdjson takes for it", in_quotes(text));
  for (const char quote : {'\'', '\0'}) {
    const std::string shown = escaped(text, quote, 100);
    promise(is_utf8(shown) &&
                std::ranges::none_of(
                    shown, [](unsigned char c) { return c < 0x20 || c == 0x7F; }),
            "escaped text is safe to print", shown);
  }
  if (!utf8) return;
  std::string json;
  append_json_string(json, text);
  simdjson::dom::parser parser;
  const simdjson::padded_string padded("[" + json + "]");
  std::string_view back;
  promise(!parser.parse(padded).at(0).get_string().get(back) && back == text,
          "a JSON string is read as it was", json);
}

int sign(int value) { return value > 0 ? 1 : value < 0 ? -1 : 0; }

void run_order(std::string_view text) {
  const std::size_t third = text.size() / 3;
  const std::array<std::string_view, 3> s = {
      text.substr(0, third), text.substr(third, third), text.substr(2 * third)};
  for (const auto a : s)
    for (const auto b : s) {
      const int order = natural_compare(a, b);
      promise((order == 0) == (a == b), "only equal names are equal in order");
      promise(sign(order) == -sign(natural_compare(b, a)), "order has two sides");
      for (const auto c : s)
        promise(order > 0 || natural_compare(b, c) > 0 || natural_compare(a, c) <= 0,
                "order is transitive");
    }
}

}  // namespace

void run_metadata(Bytes input) {
  const Block block(input);
  const std::string_view text = text_of(block.bytes());
  run_json(text);
  run_parse(text);
  run_text(text);
  run_order(text);
}

}  // namespace weig::fuzz
