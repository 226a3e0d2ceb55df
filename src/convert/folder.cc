// SPDX-License-Identifier: Apache-2.0
// A model's folder: which of its files hold the weights, and which tensors count. The
// index decides, where there is one.
#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <unordered_map>

#include "convert/sources.h"
#include "core/digest.h"
#include "core/text.h"
#include "core/try.h"
#include "formats/json.h"
#include "store/member_name.h"

namespace weig {
namespace {

namespace ondemand = simdjson::ondemand;

// The first that a folder has is the one that counts.
constexpr auto kIndexSuffixes =
    std::to_array<std::string_view>({".safetensors.index.json", ".bin.index.json"});
constexpr std::string_view kWeightsSuffix = ".safetensors";
// Other formats of which a folder may hold one model, by how files end, and what the
// file is called that counts where there are several.
struct OtherFormat {
  std::vector<std::string_view> suffixes;
  std::string_view preferred = {};
};
const std::vector<OtherFormat>& other_formats() {
  static const std::vector<OtherFormat> all = {
      {{".gguf"}},
      {{".bin", ".pt", ".pth", ".ckpt"}, "pytorch_model.bin"},
      {{".onnx"}, "model.onnx"},
      {{".npz"}},
      {{".npy"}},
  };
  return all;
}
// Files that hold weights in some format: never "other files".
constexpr auto kWeightSuffixes = std::to_array<std::string_view>(
    {".safetensors", ".weig", ".bin", ".pt", ".pth", ".ckpt", ".gguf", ".onnx", ".npz",
     ".npy", ".h5", ".msgpack", ".part"});
constexpr std::uint64_t kMaxIndexBytes = std::uint64_t{1} << 30;
constexpr std::size_t kNamesShown = 5;

// What the index says: from tensor to file, both as it spells them.
struct Index {
  std::string path;
  std::vector<std::string> shards;  // in order of first use
  std::vector<std::pair<std::string, std::uint32_t>> tensors;
};

std::string join(const std::string& folder, const std::string& name) {
  return (std::filesystem::path(folder) / name).string();
}

// A few of many names, for a message.
std::string some_of(const std::vector<std::string>& names) {
  std::string out;
  for (std::size_t i = 0; i < names.size() && i < kNamesShown; ++i) {
    if (i > 0) out += ", ";
    out += in_quotes(names[i]);
  }
  if (names.size() > kNamesShown)
    out += " and " + std::to_string(names.size() - kNamesShown) + " more";
  return out;
}

std::vector<std::string> ending_in(const std::vector<std::string>& names,
                                   std::string_view suffix) {
  std::vector<std::string> found;
  std::ranges::copy_if(names, std::back_inserter(found), [&](const std::string& name) {
    return name.ends_with(suffix) && !name.starts_with('.');
  });
  return found;
}

bool is_shard(const std::string& name) {
  const auto member = parse_member_name(name);
  return member && member->count > 1;
}

// Shards lie in the folder or below it, whatever the index says. Links are followed:
// caches of model hubs are made of them.
Status check_confined(const std::string& shard, const std::string& index) {
  const auto refuse = [&](const char* what) {
    return Error(Code::corrupt, std::string("the index names a file ") + what)
        .file(index)
        .found(in_quotes(shard));
  };
  if (shard.empty()) return refuse("without a name");
  if (shard.find('\0') != shard.npos) return refuse("with a NUL character");
  if (std::filesystem::path(shard).is_absolute()) return refuse("by an absolute path");
  for (const auto& part : std::filesystem::path(shard))
    if (part == "..") return refuse("outside the folder");
  return {};
}

Status read_weight_map(ondemand::object map, Index& index) {
  std::unordered_map<std::string, std::uint32_t, SeededHash> shard_number;
  KeySet names;
  for (auto field : map) {
    std::string_view name;
    std::string_view shard;
    if (auto error = field.unescaped_key().get(name))
      return json_error(error, "the index's weight_map").file(index.path);
    std::string tensor(name);
    if (!names.add(tensor))
      return Error(Code::corrupt, "the index has the tensor twice")
          .file(index.path)
          .tensor(tensor);
    if (auto error = field.value().get_string().get(shard))
      return json_error(error, "the index's weight_map")
          .file(index.path)
          .tensor(tensor);
    const auto next = static_cast<std::uint32_t>(index.shards.size());
    const auto [at, fresh] = shard_number.emplace(shard, next);
    std::uint32_t& number = at->second;
    if (fresh) {
      const std::string spelt(shard);
      WEIG_TRY(check_confined(spelt, index.path));
      // One file is read once, in however many ways it is spelt.
      const std::string normal = std::filesystem::path(spelt).lexically_normal();
      number = shard_number.emplace(normal, next).first->second;
      if (number == next) index.shards.push_back(spelt);
    }
    index.tensors.emplace_back(std::move(tensor), number);
  }
  return {};
}

Result<Index> read_index(const std::string& path) {
  WEIG_TRY_ASSIGN(file, os::InputFile::open(path));
  if (file.size() > kMaxIndexBytes)
    return Error(Code::limit, "the index is larger than allowed")
        .file(path)
        .found(file.size())
        .expected("at most " + std::to_string(kMaxIndexBytes));
  std::vector<std::byte> text(file.size() + simdjson::SIMDJSON_PADDING);
  WEIG_TRY(file.read(0, MutableBytes(text).first(file.size())));
  Index index;
  index.path = path;
  ondemand::parser parser;
  ondemand::document document;
  ondemand::object object;
  if (auto error = parser
                       .iterate(simdjson::padded_string_view(
                           text_of(Bytes(text).first(file.size())), text.size()))
                       .get(document))
    return json_error(error, "the index").file(path);
  if (auto error = document.get_object().get(object))
    return json_error(error, "the index is no JSON object").file(path);
  bool found = false;
  for (auto field : object) {
    std::string_view key;
    ondemand::value value;
    if (auto error = field.unescaped_key().get(key))
      return json_error(error, "the index").file(path);
    const bool is_map = key == "weight_map";
    if (auto error = field.value().get(value))
      return json_error(error, "the index").file(path);
    if (!is_map) {
      std::string ignored;  // must be JSON all the same
      if (auto status = append_canonical_json(ignored, value, 64); !status)
        return std::move(status).error().file(path);
      continue;
    }
    if (found) return Error(Code::corrupt, "the index has weight_map twice").file(path);
    found = true;
    ondemand::object map;
    if (auto error = value.get_object().get(map))
      return json_error(error, "the index's weight_map is no object").file(path);
    WEIG_TRY(read_weight_map(map, index));
  }
  if (document.current_location().error() != simdjson::OUT_OF_BOUNDS)
    return Error(Code::corrupt, "the index goes on after its object").file(path);
  if (!found) return Error(Code::corrupt, "the index has no weight_map").file(path);
  if (index.tensors.empty())
    return Error(Code::corrupt, "the index lists no tensors").file(path);
  return index;
}

// All shards that are not there, with what they should hold, in one error.
Status check_present(const std::string& folder, const Index& index) {
  std::vector<std::string> missing;
  std::vector<bool> is_missing(index.shards.size());
  for (std::size_t i = 0; i < index.shards.size(); ++i) {
    std::error_code error;
    const auto status = std::filesystem::status(join(folder, index.shards[i]), error);
    if (status.type() == std::filesystem::file_type::regular) continue;
    is_missing[i] = true;
    missing.push_back(index.shards[i]);
  }
  if (missing.empty()) return {};
  std::vector<std::string> tensors;
  for (const auto& [name, shard] : index.tensors)
    if (is_missing[shard]) tensors.push_back(name);
  return Error(Code::cannot_open,
               "the index names files that are not there: " + some_of(missing) +
                   ", with " + std::to_string(tensors.size()) +
                   (tensors.size() == 1 ? " tensor: " : " tensors: ") +
                   some_of(tensors))
      .file(index.path)
      .found(std::to_string(index.shards.size() - missing.size()) + " of " +
             std::to_string(index.shards.size()) + " files");
}

// Takes the tensors that the index lists, each from the file it names.
Status choose_tensors(const Index& index, Sources& sources) {
  using ByName = std::unordered_map<std::string_view, std::uint32_t, SeededHash>;
  std::vector<ByName> entries(sources.files.size());
  for (std::size_t f = 0; f < sources.files.size(); ++f) {
    const Manifest& manifest = sources.files[f].manifest;
    for (std::uint32_t e = 0; e < manifest.entries().size(); ++e)
      entries[f].emplace(manifest.name(manifest.entries()[e]), e);
  }
  ByName chosen;
  for (const auto& [name, shard] : index.tensors) {
    const auto found = entries[shard].find(name);
    if (found == entries[shard].end())
      return Error(Code::corrupt, "the index says that " +
                                      in_quotes(index.shards[shard]) +
                                      " holds this tensor, and it does not")
          .file(index.path)
          .tensor(name);
    sources.tensors.push_back({shard, found->second});
    chosen.emplace(name, shard);
  }
  std::vector<std::string> superseded;
  std::vector<std::string> unlisted;
  for (const SourceFile& source : sources.files)
    for (const auto& entry : source.manifest.entries()) {
      const auto name = source.manifest.name(entry);
      const auto found = chosen.find(name);
      if (found == chosen.end()) {
        unlisted.emplace_back(name);
      } else if (&sources.files[found->second] != &source) {
        superseded.emplace_back(name);
      }
    }
  if (!superseded.empty())
    sources.warnings.push_back("copies that the index supersedes, left out: " +
                               some_of(superseded));
  if (!unlisted.empty())
    sources.warnings.push_back("tensors that the index does not list, left out: " +
                               some_of(unlisted));
  return {};
}

Result<Sources> open_indexed(const std::string& folder, const std::string& index_name,
                             const ConvertOptions& options) {
  WEIG_TRY_ASSIGN(index, read_index(join(folder, index_name)));
  WEIG_TRY(check_present(folder, index));
  Sources sources;
  sources.index_files.push_back(index.path);
  for (const std::string& shard : index.shards) {
    WEIG_TRY_ASSIGN(source, open_source(join(folder, shard), options));
    sources.files.push_back(std::move(source));
  }
  WEIG_TRY(choose_tensors(index, sources));
  WEIG_TRY(merge_metadata(sources));
  // One file, or a choice of several: in no case the one file that could be given back,
  // so that there is no origin.
  return sources;
}

Error several(const std::string& folder, const std::vector<std::string>& weights) {
  return Error(Code::invalid_argument,
               "the folder has several weights files: " + some_of(weights))
      .file(folder)
      .hint("give the files themselves");
}

// Of weights files without an index, the one that counts.
Result<std::string> only_file(const std::string& folder,
                              const std::vector<std::string>& weights,
                              std::string_view preferred,
                              std::string_view index_suffix) {
  if (std::ranges::find(weights, preferred) != weights.end())
    return std::string(preferred);
  if (std::ranges::any_of(weights, is_shard))
    return Error(Code::corrupt,
                 "the folder has shards of a model but no index: " + some_of(weights))
        .file(folder)
        .expected("a file whose name ends in " + std::string(index_suffix))
        .hint("without it nothing tells whether the set is complete");
  if (weights.size() == 1) return weights[0];
  return several(folder, weights);
}

// The parts of one GGUF model, which say themselves whether all are there.
bool are_parts_of_one(const std::vector<std::string>& names) {
  const auto first = parse_member_name(names[0]);
  return first && std::ranges::all_of(names, [&](const std::string& name) {
           const auto part = parse_member_name(name);
           return part && part->stem == first->stem && part->count == first->count;
         });
}

// The files of a folder without an index that hold its one model.
Result<std::vector<std::string>> weights_files(const std::string& folder,
                                               const std::vector<std::string>& names) {
  if (const auto found = ending_in(names, kWeightsSuffix); !found.empty()) {
    WEIG_TRY_ASSIGN(
        name, only_file(folder, found, "model.safetensors", kIndexSuffixes.front()));
    return std::vector{name};
  }
  std::vector<std::string> found;
  std::string_view preferred;
  for (const OtherFormat& format : other_formats()) {
    std::vector<std::string> files;
    for (const std::string_view suffix : format.suffixes)
      for (std::string& name : ending_in(names, suffix))
        files.push_back(std::move(name));
    if (files.empty()) continue;
    if (!found.empty()) {
      found.insert(found.end(), files.begin(), files.end());
      return several(folder, found);
    }
    found = std::move(files);
    preferred = format.preferred;
  }
  if (found.empty())
    return Error(Code::cannot_open, "the folder has no weights file")
        .file(folder)
        .expected(
            "one that ends in .safetensors, .gguf, .bin, .pt, .pth, .ckpt, "
            ".onnx, .npz or .npy");
  // A folder of arrays is a model whose tensors they are.
  if (found[0].ends_with(".npy")) return found;
  if (found[0].ends_with(".gguf") && are_parts_of_one(found))
    return std::vector{found[0]};
  WEIG_TRY_ASSIGN(name, only_file(folder, found, preferred, kIndexSuffixes.back()));
  return std::vector{name};
}

std::string normal(const std::string& path) {
  return std::filesystem::path(path).lexically_normal().string();
}

// The paths of all sources, in order.
std::vector<std::string> paths_of(const Sources& sources) {
  std::vector<std::string> paths;
  paths.reserve(sources.files.size());
  for (const SourceFile& source : sources.files)
    paths.push_back(normal(source.file.path()));
  std::ranges::sort(paths);
  return paths;
}

// Whether one of them is this file, or lies in this folder ("FOLDER/").
bool is_read(const std::string& path, const std::vector<std::string>& sources) {
  const auto found = std::ranges::lower_bound(sources, path);
  return found != sources.end() &&
         (path.ends_with('/') ? found->starts_with(path) : *found == path);
}

}  // namespace

Result<Sources> open_folder(const std::string& folder, const ConvertOptions& options) {
  WEIG_TRY_ASSIGN(names, os::names_in(folder));
  std::vector<std::string> indexes;
  for (const std::string_view suffix : kIndexSuffixes) {
    // Shards of an older format beside a whole model, or its shards, are of no
    // interest.
    if (suffix != kIndexSuffixes.front() && !ending_in(names, kWeightsSuffix).empty())
      break;
    indexes = ending_in(names, suffix);
    if (!indexes.empty()) break;
  }
  Sources sources;
  if (indexes.size() > 1)
    return Error(Code::invalid_argument,
                 "the folder has several indexes: " + some_of(indexes))
        .file(folder)
        .hint("give the files themselves");
  if (indexes.size() == 1) {
    WEIG_TRY_ASSIGN(indexed, open_indexed(folder, indexes[0], options));
    sources = std::move(indexed);
  } else {
    WEIG_TRY_ASSIGN(files, weights_files(folder, names));
    for (std::string& file : files) file = join(folder, file);
    WEIG_TRY_ASSIGN(opened, open_files(files, options));
    sources = std::move(opened);
  }
  sources.folder = folder;
  const std::vector<std::string> read = paths_of(sources);
  for (const std::string& name : names) {
    if (name.starts_with('.')) continue;
    const auto ends_in = [&](std::string_view suffix) {
      return name.ends_with(suffix);
    };
    const std::string path = join(folder, name);
    if (std::ranges::any_of(kIndexSuffixes, ends_in)) {
      if (std::ranges::find(sources.index_files, path) == sources.index_files.end())
        sources.unread.push_back(name);
    } else if (!std::ranges::any_of(kWeightSuffixes, ends_in) && !name.ends_with('/')) {
      sources.other_files.push_back(name);
    } else if (!is_read(normal(path), read)) {
      sources.unread.push_back(name);
    }
  }
  return sources;
}

}  // namespace weig
