// SPDX-License-Identifier: Apache-2.0
// From a WEIG file or a set to a checkpoint of PyTorch: a zip archive of a pickle and
// the tensors' storages.
#include <algorithm>
#include <memory>
#include <unordered_map>

#include <weig/metadata.h>
#include <weig/model.h>

#include "convert/export_plan.h"
#include "convert/source_header.h"
#include "core/try.h"
#include "formats/torch_pickle.h"
#include "formats/zip_writer.h"

namespace weig {
namespace {

constexpr std::uint64_t kAlignment = 64;
constexpr std::string_view kFolder = "archive/";

// A tensor that has its own bytes, and those that share them.
struct Storage {
  std::uint32_t owner = 0;  // an ordinal of the set
  std::uint64_t bytes = 0;
  TorchPickle::StorageClass storage_class = TorchPickle::StorageClass::typed;
};

// The archive, until its checksums are known.
struct Archive {
  ZipWriter zip{kAlignment};
  std::vector<std::size_t> members;  // of the storages
  std::string tail;                  // between the last storage and the directory
};

class TorchPlanner {
 public:
  explicit TorchPlanner(const ModelSet& set) : set_(set) {}

  Result<ExportPlan> plan() {
    WEIG_TRY(find_storages());
    WEIG_TRY_ASSIGN(pickle, make_pickle());
    plan_.warnings = sections_left_out(set_, "PyTorch");
    WEIG_TRY(warn_of_metadata());
    const auto archive = std::make_shared<Archive>();
    std::string bytes = archive->zip.member(member("data.pkl"), pickle);
    bytes += archive->zip.member(member("byteorder"), "little");
    for (std::size_t s = 0; s < storages_.size(); ++s) {
      archive->members.push_back(archive->zip.size());
      bytes += archive->zip.begin_member(member("data/" + std::to_string(s)),
                                         storages_[s].bytes);
      plan_.pieces.push_back(
          {.bytes = std::move(bytes), .ordinal = storages_[s].owner});
      bytes = archive->zip.end_member(archive->members.back());
    }
    archive->tail = archive->zip.member(member("version"), "3\n");
    plan_.pieces.push_back({.bytes = bytes + archive->tail + archive->zip.finish()});
    plan_.complete = [archive](std::size_t piece, std::span<const std::uint32_t> crcs,
                               std::string& out) {
      complete(*archive, piece, crcs, out);
    };
    return std::move(plan_);
  }

 private:
  static std::string member(const std::string& name) {
    return std::string(kFolder) + name;
  }

  // Each piece but the first begins with what comes behind the storage before.
  static void complete(Archive& archive, std::size_t piece,
                       std::span<const std::uint32_t> crcs, std::string& out) {
    if (piece == 0) return;
    const std::size_t before = archive.members[piece - 1];
    archive.zip.set_crc(before, crcs[piece - 1]);
    const std::string end = archive.zip.end_member(before);
    out.replace(0, end.size(), end);
    if (piece < archive.members.size()) return;
    const std::string directory = archive.zip.finish();
    out.replace(out.size() - directory.size(), directory.size(), directory);
  }

  Status find_storages() {
    std::unordered_map<std::uint64_t, std::uint32_t> by_owner;
    for (std::uint64_t i = 0; i < set_.size(); ++i) {
      WEIG_TRY_ASSIGN(tensor, set_[i]);
      const TorchType* type = torch_type_of(tensor.dtype());
      if (type == nullptr)
        return Error(Code::unsupported, "PyTorch cannot hold this element type")
            .tensor(tensor.name())
            .found(std::string(dtype_name(tensor.dtype())))
            .hint("'weig convert --dequantize' turns what is quantized into numbers");
      const std::uint32_t m = set_.member_of(i);
      WEIG_TRY_ASSIGN(owner, set_.member(m)->owner(tensor.ordinal()));
      const std::uint64_t owner_in_set = i - tensor.ordinal() + owner;
      const auto [found, fresh] =
          by_owner.emplace(owner_in_set, static_cast<std::uint32_t>(storages_.size()));
      if (fresh)
        storages_.push_back({.owner = static_cast<std::uint32_t>(owner_in_set),
                             .bytes = tensor.byte_count()});
      Storage& storage = storages_[found->second];
      WEIG_TRY_ASSIGN(first, set_[storage.owner]);
      if (type->storage.empty() || first.dtype() != tensor.dtype())
        storage.storage_class = TorchPickle::StorageClass::untyped;
      storage_of_.push_back(found->second);
    }
    return {};
  }

  Result<std::string> make_pickle() const {
    TorchPickle pickle;
    for (std::uint64_t i = 0; i < set_.size(); ++i) {
      WEIG_TRY_ASSIGN(tensor, set_[i]);
      const std::uint32_t s = storage_of_[i];
      pickle.add(tensor.name(), *torch_type_of(tensor.dtype()), tensor.shape(),
                 std::to_string(s), storages_[s].bytes, storages_[s].storage_class);
    }
    return std::move(pickle).finish();
  }

  Status warn_of_metadata() {
    WEIG_TRY_ASSIGN(text, set_.metadata_text());
    if (!text) return {};
    WEIG_TRY_ASSIGN(metadata, set_.metadata());
    const auto own =
        std::ranges::count_if(metadata.entries(), [](const Metadata::Entry& entry) {
          return entry.key.starts_with(kSourceKeys);
        });
    const auto lost = metadata.entries().size() - static_cast<std::size_t>(own);
    if (lost > 0)
      plan_.warnings.push_back(
          "left out, since PyTorch has no place for it: metadata of " +
          std::to_string(lost) + (lost == 1 ? " key" : " keys"));
    return {};
  }

  const ModelSet& set_;
  ExportPlan plan_;
  std::vector<Storage> storages_;
  std::vector<std::uint32_t> storage_of_;  // by ordinal
};

}  // namespace

Result<ExportPlan> plan_torch(const ModelSet& set, const ExportOptions&) {
  return TorchPlanner(set).plan();
}

}  // namespace weig
