// SPDX-License-Identifier: Apache-2.0
// Facts about one file: where it lies, what of it is in memory, how it is made.
#include <sys/stat.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>

#include "doctor_facts.h"
#include "file_owner.h"
#include "options.h"

namespace weig::cli {
namespace {

constexpr std::uint64_t kPiece = PageCache::kPieceBytes;

// The file that sets a device's read-ahead. Of a partition, its disk has it.
std::string read_ahead_file(const std::string& device) {
  const std::string block = "/sys/dev/block/" + device;
  for (const std::string& path :
       {block + "/queue/read_ahead_kb", block + "/../queue/read_ahead_kb",
        "/sys/class/bdi/" + device + "/read_ahead_kb"})
    if (std::ifstream(path).good()) return path;
  return {};
}

// The folder where the file system of a file is mounted: above it, another begins. (A
// folder mounted from the same file system is not told apart.)
std::string mount_point_of(const std::string& path) {
  std::error_code failed;
  std::filesystem::path at = std::filesystem::canonical(path, failed);
  const auto device = [](const std::filesystem::path& folder) -> dev_t {
    struct stat status{};
    return ::stat(folder.c_str(), &status) == 0 ? status.st_dev : dev_t{};
  };
  const dev_t here = device(at);
  at = at.parent_path();
  while (at.has_relative_path() && device(at.parent_path()) == here)
    at = at.parent_path();
  return at.string();
}

// What is known of file systems by their kernels; see docs/loading.md.
std::optional<bool> large_folios_by_version(const std::string& file_system,
                                            std::pair<unsigned, unsigned> kernel) {
  if (file_system == "ext4") return kernel >= std::pair(6U, 16U);
  if (file_system == "xfs") return kernel >= std::pair(5U, 18U);
  return {};
}

// A whole piece behind the front that is not in memory.
std::optional<FileRange> piece_to_try(const Residency& residency, std::uint64_t size) {
  const auto& pieces = residency.cache.pieces;
  for (std::uint64_t i = pieces.size() / 2; i < pieces.size(); ++i)
    if (i > 0 && pieces[i].resident == 0 && (i + 1) * kPiece <= size)
      return FileRange{i * kPiece, (i + 1) * kPiece};
  return {};
}

// Loads a piece, and looks whether it is mapped huge. Afterwards it is as it was.
std::optional<bool> try_piece(const std::string& path, const OpenOptions& options,
                              FileRange piece) {
  std::optional<bool> huge;
  {
    OpenOptions one = options;
    one.load = {.way = LoadWay::populate,
                .threads = 1,
                .fallback = Fallback::refuse,
                .ranges = {piece},
                .progress = {}};
    const auto model = Model::open(path, one);
    if (!model || !model->load_report().huge_mapped) return {};
    huge = *model->load_report().huge_mapped >= kPiece;
  }
  [[maybe_unused]] const Status ignored = evict(path, std::vector{piece});
  return huge;
}

void add_large_folios(FileFacts& facts, const OpenOptions& options,
                      const SystemFacts& system) {
  const auto& pieces = facts.residency.cache.pieces;
  const auto is_huge = [](const PageCache::Piece& piece) {
    return piece.folio == PageCache::Folio::huge;
  };
  facts.measured = true;
  if (std::ranges::any_of(pieces, is_huge)) {
    facts.large_folios = true;
    return;
  }
  if (facts.storage.in_memory && facts.size >= 2 * kPiece) {
    facts.large_folios = false;  // all of it is there, and none of it huge
    return;
  }
  if (const auto piece = piece_to_try(facts.residency, facts.size))
    facts.large_folios = try_piece(facts.path, options, *piece);
  if (facts.large_folios) return;
  facts.measured = false;
  facts.large_folios =
      large_folios_by_version(facts.storage.file_system, system.version);
}

Status add_contents(FileFacts& facts, const Model& model) {
  facts.format = model.format();
  facts.sealed = model.sealed();
  auto summary = summarize(model);
  if (!summary) return std::move(summary).error();
  facts.summary = *std::move(summary);
  for (const auto& tensor : model.tensors()) {
    if (!tensor) return tensor.error();
    const DtypeInfo* info = dtype_info(tensor->dtype());
    if (info && tensor->byte_count() > 0 &&
        tensor->data_offset() % info->alignment != 0)
      ++facts.misaligned;
  }
  return {};
}

}  // namespace

Result<FileFacts> file_facts(const std::string& path, const SystemFacts& system) {
  FileFacts facts;
  facts.path = path;
  auto residency = residency_of(path);
  if (!residency) return std::move(residency).error();
  facts.residency = *std::move(residency);
  facts.size = facts.residency.cache.file_size;
  if (!facts.residency.cache.known) facts.why_unknown = why_unknown(path);
  auto storage = storage_of(path);
  if (!storage) return std::move(storage).error();
  facts.storage = *std::move(storage);
  facts.read_ahead_file = read_ahead_file(facts.storage.device);
  facts.mount_point = mount_point_of(path);
  struct statvfs mount{};
  facts.read_only_mount =
      ::statvfs(path.c_str(), &mount) == 0 && (mount.f_flag & ST_RDONLY) != 0;

  OpenOptions options;
  options.unsealed = Unsealed::accept;
  options.unknown_dtypes = UnknownDtypes::accept;
  options.part = Part::metadata;
  const auto model = Model::open(path, options);
  if (model) tell_if_member(*model);
  Status status = model ? add_contents(facts, *model) : Status(model.error());
  if (!status) facts.refusal = std::move(status).error();
  options.part = Part::everything;
  add_large_folios(facts, options, system);
  return facts;
}

}  // namespace weig::cli
