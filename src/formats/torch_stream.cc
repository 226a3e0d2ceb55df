// SPDX-License-Identifier: Apache-2.0
#include "formats/torch_stream.h"

#include <algorithm>
#include <array>

#include "core/text.h"
#include "core/try.h"
#include "formats/torch_mark.h"
#include "formats/torch_places.h"
#include "formats/torch_walk.h"

namespace weig {
namespace {

using std::string_view_literals::operator""sv;

constexpr std::int64_t kStreamProtocol = 1001;

// One stream, read step by step.
class StreamReader {
 public:
  StreamReader(const Input& input, const TorchOptions& options)
      : input_(input), options_(options), cursor_(input, 0, input.size) {
    manifest_.file_size = input.size;
    manifest_.covers_file = false;
  }

  Result<Manifest> read() {
    WEIG_TRY_ASSIGN(magic, next());
    const std::string_view number =
        magic.kind(magic.root()) == PickleKind::number ? magic.text(magic.root()) : "";
    if (number != kTorchMark && number != kTorchMarkInDecimal)
      return Error(Code::corrupt, "the stream does not begin with PyTorch's number");
    WEIG_TRY_ASSIGN(protocol, next());
    const bool is_number = protocol.kind(protocol.root()) == PickleKind::integer;
    if ((is_number ? protocol.integer(protocol.root()) : 0) != kStreamProtocol)
      return Error(Code::unsupported,
                   "a stream of another protocol than PyTorch's 1001");
    // About the machine that wrote it. Storages are little-endian all the same.
    WEIG_TRY_ASSIGN(system, next());
    static_cast<void>(system);
    WEIG_TRY_ASSIGN(pickle, next());
    WEIG_TRY_ASSIGN(list, next());
    WEIG_TRY(find_storages(pickle, list));
    TorchPlaces places(manifest_, storages_, options_.max_expansion);
    WEIG_TRY(TorchWalk(pickle, keys_, places, skipped_, options_.select).run(""));
    WEIG_TRY(check_distinct_names(manifest_));
    places.finish();
    std::move(skipped_).finish(manifest_.skipped);
    return std::move(manifest_);
  }

 private:
  Result<Pickle> next() {
    WEIG_TRY_ASSIGN(pickle, Pickle::read(cursor_, options_.for_pickles()));
    WEIG_TRY(check_harmless(pickle));
    return std::move(pickle);
  }

  // Behind the pickles lie the storages, each after its number of elements.
  Status find_storages(const Pickle& pickle, const Pickle& list) {
    std::unordered_map<std::string_view, PickleValue, SeededHash> mentions;
    for (const PickleValue persistent : pickle.persistents())
      if (const auto key = key_of(pickle, persistent))
        mentions.emplace(*key, persistent);
    if (list.kind(list.root()) != PickleKind::list)
      return Error(Code::corrupt, "the stream has no list of its storages");
    std::uint64_t at = cursor_.offset();
    for (const PickleValue item : list.items(list.root())) {
      if (list.kind(item) != PickleKind::text)
        return Error(Code::corrupt, "the stream names a storage by what is no text");
      const auto mention = mentions.find(list.text(item));
      if (mention == mentions.end())
        return Error(Code::corrupt, "the stream has a storage that nothing describes")
            .at(at)
            .found(in_quotes(list.text(item)));
      WEIG_TRY_ASSIGN(id, torch_storage_id(pickle, mention->second));
      WEIG_TRY(add_storage(id, at));
    }
    if (at == input_.size) return {};
    const std::string what =
        std::to_string(input_.size - at) + " bytes after the last storage";
    if (options_.strictness == Strictness::strict)
      return Error(Code::corrupt, what)
          .at(at)
          .hint(
              "if files were joined into one, convert the parts; else 'weig convert "
              "--lenient' ignores what is behind");
    manifest_.warnings.push_back(what);
    return {};
  }

  // What a storage is called, however much else of it is wrong.
  static std::optional<std::string_view> key_of(const Pickle& pickle,
                                                PickleValue persistent) {
    const PickleValue identity = pickle.identity(persistent);
    if (pickle.kind(identity) != PickleKind::tuple) return std::nullopt;
    const auto parts = pickle.items(identity);
    if (parts.size() < 5 || pickle.kind(parts[2]) != PickleKind::text)
      return std::nullopt;
    return pickle.text(parts[2]);
  }

  Status add_storage(const TorchStorageId& id, std::uint64_t& at) {
    std::array<std::byte, 8> count{};
    if (!fits(at, count.size(), input_.size)) return cut(id, at);
    WEIG_TRY(input_.read(at, count));
    const auto elements = load<std::uint64_t>(count.data());
    if (elements != id.elements)
      return Error(Code::corrupt, "a storage has another size than the pickle says")
          .at(at)
          .found(in_quotes(id.key) + " of " + std::to_string(elements) + " elements")
          .expected(id.elements);
    at += count.size();
    const std::uint64_t bytes = elements * id.width;  // at most 2^60
    if (!fits(at, bytes, input_.size)) return cut(id, at);
    if (!keys_.emplace(id.key, static_cast<std::uint32_t>(storages_.size())).second)
      return Error(Code::corrupt, "the stream has a storage twice")
          .at(at)
          .found(in_quotes(id.key));
    TorchStorage storage;
    storage.lies.begin = at;
    storage.lies.size = storage.lies.bytes = bytes;
    storages_.push_back(std::move(storage));
    at += bytes;
    return {};
  }

  Error cut(const TorchStorageId& id, std::uint64_t at) const {
    return Error(Code::corrupt, "a storage lies outside the file")
        .at(at)
        .found(in_quotes(id.key) + " of " + std::to_string(id.elements * id.width) +
               " bytes, and " + std::to_string(input_.size - at) + " left")
        .hint("the file was cut, or is damaged");
  }

  const Input& input_;
  const TorchOptions& options_;
  InputCursor cursor_;
  TorchStorageKeys keys_;
  std::vector<TorchStorage> storages_;
  SkippedList skipped_;
  Manifest manifest_;
};

}  // namespace

Result<Manifest> read_torch_stream(const Input& input, const TorchOptions& options) {
  return StreamReader(input, options).read();
}

}  // namespace weig
