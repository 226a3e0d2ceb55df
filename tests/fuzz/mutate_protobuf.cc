// SPDX-License-Identifier: Apache-2.0
// Protobuf messages taken apart into fields, changed, and put together again with
// lengths that are right.
#include <algorithm>
#include <optional>
#include <string>

#include "formats/protobuf.h"
#include "image.h"
#include "mutate.h"
#include "protobuf_message.h"

namespace weig::fuzz {
namespace {

using test::Message;

constexpr int kMaxDepth = 12;

struct Field {
  std::uint32_t number = 0;
  std::uint32_t wire_type = 0;
  std::uint64_t value = 0;  // of a varint
  std::string content;      // of fixed width; of bytes that are no message
  bool is_message = false;
  std::vector<Field> fields;
};
using Fields = std::vector<Field>;

std::optional<Fields> parse(std::string_view text, int depth) {
  Fields fields;
  while (!text.empty()) {
    const auto tag = load_varint(bytes_of(text));
    if (!tag || tag->value >> 3 == 0 || tag->value >> 32 != 0) return std::nullopt;
    text.remove_prefix(tag->size);
    Field field;
    field.number = static_cast<std::uint32_t>(tag->value >> 3);
    field.wire_type = tag->value & 7;
    std::uint64_t size = field.wire_type == 5 ? 4 : 8;
    if (field.wire_type == 0 || field.wire_type == 2) {
      const auto number = load_varint(bytes_of(text));
      if (!number) return std::nullopt;
      text.remove_prefix(number->size);
      field.value = number->value;
      size = field.wire_type == 0 ? 0 : number->value;
    } else if (field.wire_type != 1 && field.wire_type != 5) {
      return std::nullopt;
    }
    if (size > text.size()) return std::nullopt;
    field.content = text.substr(0, size);
    text.remove_prefix(size);
    if (field.wire_type == 2 && size > 0 && depth > 0)
      if (auto inner = parse(field.content, depth - 1)) {
        field.is_message = true;
        field.fields = *std::move(inner);
      }
    fields.push_back(std::move(field));
  }
  return fields;
}

std::string text_of_fields(const Fields& fields) {
  Message out;
  for (const Field& field : fields) {
    if (field.wire_type == 0) {
      out.number(field.number, field.value);
    } else if (field.wire_type == 2) {
      out.text(field.number,
               field.is_message ? text_of_fields(field.fields) : field.content);
    } else {
      out.tag(field.number, field.wire_type).raw(field.content);
    }
  }
  return out.bytes;
}

// Every list of fields that has some, the outermost first.
void collect(Fields& fields, std::vector<Fields*>& lists) {
  if (fields.empty()) return;
  lists.push_back(&fields);
  for (Field& field : fields) collect(field.fields, lists);
}

Input input_of(const Fields& fields) {
  const std::string text = text_of_fields(fields);
  return test::to_bytes(text);
}

std::uint64_t some_number(Random& random) {
  constexpr std::uint64_t kEdges[] = {0,
                                      1,
                                      16,
                                      128,
                                      256,
                                      std::uint64_t{1} << 31,
                                      UINT32_MAX,
                                      std::uint64_t{1} << 56,
                                      std::uint64_t{1} << 63,
                                      UINT64_MAX};
  return random.one_in(2) ? random.below(32)
                          : random.pick(kEdges) + random.below(3) - 1;
}

void change_field(Field& field, std::size_t max_size, Random& random, RawMutation raw) {
  if (random.one_in(6)) {
    field.number = 1 + static_cast<std::uint32_t>(random.below(26));
    return;
  }
  if (field.wire_type == 0) {
    field.value = some_number(random);
    return;
  }
  // A message is no message any more.
  if (field.is_message) field.content = text_of_fields(field.fields);
  field.is_message = false;
  field.fields.clear();
  if (field.wire_type != 2) {
    for (char& c : field.content)
      if (random.one_in(3)) c = static_cast<char>(random.next());
    return;
  }
  std::vector<std::uint8_t> bytes(field.content.begin(), field.content.end());
  const std::size_t size = bytes.size();
  bytes.resize(std::min(max_size, size + 16));
  bytes.resize(raw(bytes.data(), size, bytes.size()));
  field.content.assign(bytes.begin(), bytes.end());
}

}  // namespace

void mutate_protobuf(Input& input, std::size_t max_size, Random& random,
                     RawMutation raw) {
  auto fields = parse(text_of(input), kMaxDepth);
  if (!fields || fields->empty() || random.one_in(16))
    return mutate_raw(input, max_size, random, raw);
  std::vector<Fields*> lists;
  collect(*fields, lists);
  Fields& list = *random.pick(lists);
  const auto at = list.begin() + static_cast<std::ptrdiff_t>(random.below(list.size()));
  switch (random.below(6)) {
    case 0:
      list.erase(at);
      break;
    case 1: {  // one from anywhere
      const Field copy = random.pick(*random.pick(lists));
      list.insert(at, copy);
      break;
    }
    case 2:
      std::swap(*at, list[random.below(list.size())]);
      break;
    case 3: {  // one message deeper
      const Field inner = *at;
      at->wire_type = 2;
      at->is_message = true;
      at->fields = {inner};
      break;
    }
    default:
      change_field(*at, max_size, random, raw);
  }
  Input changed = input_of(*fields);
  if (changed.size() <= max_size) input = std::move(changed);
}

std::vector<Input> bent_messages(const Input& input) {
  const Fields whole = parse(text_of(input), kMaxDepth).value();
  std::vector<Input> bent;
  // In a copy, one of all fields, counted from the front.
  const auto bend = [&](std::size_t number, auto change) {
    Fields fields = whole;
    std::vector<Fields*> lists;
    collect(fields, lists);
    for (Fields* list : lists) {
      if (number >= list->size()) {
        number -= list->size();
        continue;
      }
      change(*list, list->begin() + static_cast<std::ptrdiff_t>(number));
      bent.push_back(input_of(fields));
      return true;
    }
    return false;
  };
  using At = Fields::iterator;
  for (std::size_t n = 0; bend(n, [](Fields& list, At at) { list.erase(at); }); ++n) {
    bend(n, [](Fields& list, At at) { list.insert(list.begin(), Field(*at)); });
    const auto replace = [&](std::uint32_t wire_type, std::uint64_t value,
                             const char* content) {
      bend(n, [&](Fields&, At at) {
        *at = {.number = at->number,
               .wire_type = wire_type,
               .value = value,
               .content = content,
               .fields = {}};
      });
    };
    replace(5, 0, "1234");
    for (const std::uint64_t value : {std::uint64_t{0}, std::uint64_t{2}, UINT64_MAX})
      replace(0, value, "");
    for (const char* content : {"", "\xFF", "\n\1x"}) replace(2, 0, content);
  }
  return bent;
}

}  // namespace weig::fuzz
