// SPDX-License-Identifier: Apache-2.0
// The index of a model in shards (*.safetensors.index.json): any text beside shards
// that are sound. What is converted is what the index says, as another parser reads it
// (simdjson's DOM), and comes from inside the folder.
#include <weig/convert.h>
#include <weig/model.h>

#include <simdjson.h>

#include <filesystem>
#include <map>

#include "check.h"
#include "core/text.h"
#include "image.h"
#include "target.h"

namespace weig::fuzz {
namespace {

constexpr std::string_view kIndex = "m/model.safetensors.index.json";

// Every shard holds t0, t1, t2, with bytes that tell the shard; one lies outside.
const std::map<std::string, char, std::less<>> kShards = {
    {"a.safetensors", 'a'}, {"b.safetensors", 'b'}, {"c/d.safetensors", 'd'}};
constexpr std::string_view kOutside = "outside.safetensors";

std::vector<std::byte> shard(char mark) {
  return test::safetensors(R"({"t0":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},)"
                           R"("t1":{"dtype":"U8","shape":[],"data_offsets":[2,3]},)"
                           R"("t2":{"dtype":"U8","shape":[1],"data_offsets":[3,4]}})",
                           test::to_bytes(std::string(4, mark)));
}

// The one folder of this process: the model in m/, its output beside it.
const test::Folder& folder() {
  static const test::Folder* made = [] {
    memory_for_files();
    static const test::Folder one;
    std::filesystem::create_directories(one.path("m/c"));
    for (const auto& [name, mark] : kShards)
      test::write_file(one.path("m/" + name), shard(mark));
    test::write_file(one.path(kOutside), shard('!'));
    return &one;
  }();
  return *made;
}

// Which shard each tensor is in, as the DOM has it; nothing where it is no JSON, or has
// a key twice.
std::optional<std::map<std::string, std::string>> by_dom(std::string_view text) {
  simdjson::dom::parser parser;
  simdjson::dom::object map;
  const simdjson::padded_string padded(text);
  if (parser.parse(padded)["weight_map"].get(map)) return std::nullopt;
  std::map<std::string, std::string> shards;
  for (const auto field : map) {
    std::string_view name;
    if (field.value.get(name)) return std::nullopt;
    if (!shards.emplace(field.key, name).second) return std::nullopt;
  }
  return shards;
}

void promise_as_told(std::string_view text, const Model& model) {
  const auto told = by_dom(text);
  promise(told.has_value(), "an index that is followed is JSON");
  promise(told->size() == model.size(), "the index's tensors and no others");
  for (const auto& [name, file] : *told) {
    const auto tensor = model.tensor(name);
    promise(tensor.has_value(), "no tensor of the index is lost", name);
    const auto path = std::filesystem::path(file).lexically_normal().string();
    const auto from = kShards.find(path);
    promise(from != kShards.end(), "shards lie in the folder", file);
    promise(tensor->byte_count() > 0 &&
                tensor->bytes()[0] == static_cast<std::byte>(from->second),
            "a tensor comes from the shard that the index names", name);
  }
}

}  // namespace

void run_index(Bytes input) {
  test::write_file(folder().path(kIndex), input);
  const std::string from = folder().path("m");
  const std::string to = folder().path("out.weig");
  const auto report = convert({&from, 1}, to, {.progress = {}});
  if (!report) {
    failure(report.error());
    const Code code = report.error().code();
    promise(code == Code::corrupt || code == Code::limit || code == Code::cannot_open,
            "an index is refused for what it says", report.error().message());
    promise(!std::filesystem::exists(to), "nothing is left behind");
    return;
  }
  {
    const auto model = Model::open(to);
    promise(model.has_value(), "a file that we wrote opens",
            model ? "" : failure(model.error()));
    promise_as_told(text_of(input), *model);
  }
  std::filesystem::remove(to);
  promise(folder().names().size() == 2, "nothing is left behind");
}

}  // namespace weig::fuzz
