// SPDX-License-Identifier: Apache-2.0
// export_file: from a WEIG file or a set to a file of another format, streaming.
#include <weig/convert.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <filesystem>

#include <libdeflate.h>
#include <weig/model.h>
#include <weig/model_set.h>

#include "convert/export_plan.h"
#include "core/digest.h"
#include "core/progress.h"
#include "core/try.h"
#include "formats/manifest.h"
#include "os/folder_lock.h"
#include "os/os.h"
#include "store/member_name.h"
#include "store/sink.h"

namespace weig {
namespace {

// The formats: how they are called, how their files end, and who makes their plan.
struct Exporter {
  ExportFormat format;
  std::string_view name;
  std::string_view ending;
  Result<ExportPlan> (*plan)(const ModelSet& set, const ExportOptions& options);
  std::string_view other_ending = {};
};
constexpr auto kExporters = std::to_array<Exporter>({
    {ExportFormat::safetensors, "safetensors", ".safetensors", plan_safetensors},
    {ExportFormat::gguf, "gguf", ".gguf", plan_gguf},
    {ExportFormat::torch, "torch", ".pt", plan_torch, ".pth"},
    {ExportFormat::npz, "npz", ".npz", plan_npz},
    {ExportFormat::npy, "npy", ".npy", plan_npy},
});

const Exporter& exporter_for(const std::string& path, const ExportOptions& options) {
  const auto* found = std::ranges::find_if(kExporters, [&](const Exporter& exporter) {
    return options.format ? exporter.format == *options.format
                          : path.ends_with(exporter.ending) ||
                                (!exporter.other_ending.empty() &&
                                 path.ends_with(exporter.other_ending));
  });
  return found == kExporters.end() ? kExporters.front() : *found;
}

// Tied weights are written for each of their names: two or three, not thousands, by
// which a small file would fill any disk.
constexpr std::uint64_t kMostTimes = 64;
// Nor do zeros between tensors, which an alignment asks for; of small files, more.
constexpr std::uint64_t kFreeZeros = std::uint64_t{64} << 20;

// How files of a model in several are called, and their index.
constexpr std::string_view kShardEnding = ".safetensors";
constexpr std::string_view kIndexEnding = ".index.json";

// A tensor that will be written. In memory of our own, so that once there is a
// temporary file nothing is read through the mapping, where a file that was cut ends
// the process and leaves it behind.
struct Item {
  std::string name;
  std::uint32_t file = 0;  // the member
  std::uint64_t offset = 0;
  std::uint64_t size = 0;
  std::optional<Digest> digest;
  Bytes elements;          // of a big-endian file, in this machine's byte order
  std::uint32_t unit = 1;  // bytes that change places in a change of byte order
};

// Part of such a tensor, little-endian.
void copy_little(const Item& item, std::uint64_t from, MutableBytes out) {
  if (kNativeOrder == ByteOrder::little) {
    std::ranges::copy(item.elements.subspan(from, out.size()), out.begin());
    return;
  }
  // A part may begin and end inside an element.
  for (std::size_t i = 0; i < out.size(); ++i)
    out[i] = item.elements[(from + i) ^ (item.unit - 1)];
}

// By piece; those without a tensor have none.
Result<std::vector<Item>> items_of(const ModelSet& set, const ExportPlan& plan) {
  std::vector<Item> items;
  items.reserve(plan.pieces.size());
  for (const ExportPiece& piece : plan.pieces) {
    const std::uint32_t ordinal = piece.ordinal;
    if (ordinal == disk::kNone) {
      items.emplace_back();
      continue;
    }
    const std::uint32_t m = set.member_of(ordinal);
    const Model& model = *set.member(m);
    const bool big_endian = model.format() == FileFormat::weig_big_endian;
    WEIG_TRY_ASSIGN(tensor, set[ordinal]);
    WEIG_TRY_ASSIGN(digest, model.digest(tensor.ordinal()));
    items.push_back({.name = std::string(tensor.name()),
                     .file = m,
                     .offset = tensor.data_offset(),
                     .size = tensor.byte_count(),
                     .digest = digest,
                     .elements = big_endian ? tensor.bytes() : Bytes(),
                     .unit = dtype_info(tensor.dtype())->swap_unit});
  }
  return items;
}

// The files of a set, to be read from, and as they were before anything was.
struct OpenFile {
  os::InputFile file;
  os::FileStamp opened;
};

Result<std::vector<OpenFile>> open_files(const ModelSet& set) {
  std::vector<OpenFile> files;
  for (std::uint32_t m = 0; m < set.member_count(); ++m) {
    WEIG_TRY_ASSIGN(file, os::InputFile::open(set.path(m)));
    const os::FileStamp opened = file.stamp();
    file.expect_sequential();
    WEIG_TRY_ASSIGN(change, set.member(m)->changed());
    if (change == FileChange::modified)
      return Error(Code::corrupt, "the file was changed while it was read")
          .file(set.path(m));
    if (change != FileChange::none)
      return Error(Code::io, "the file was replaced while it was opened")
          .file(set.path(m));
    files.push_back({std::move(file), opened});
  }
  return files;
}

// Streams pieces, each tensor checked against its digest. What is hashed is the
// copy that is written, read from the file and not through the mapping: whatever
// somebody does to the file meanwhile is an error.
class PieceStream {
 public:
  PieceStream(const std::vector<OpenFile>& files, std::uint64_t total,
              const Progress& progress)
      : files_(files), total_(total), progress_(progress) {}

  // All pieces, to one file.
  Status write(ExportPlan& plan, const std::vector<Item>& items, PieceWriter& out) {
    for (std::size_t i = 0; i < items.size(); ++i)
      WEIG_TRY(write_piece(plan, items, i, out));
    return {};
  }

  // The next of them.
  Status write_piece(ExportPlan& plan, const std::vector<Item>& items, std::size_t i,
                     PieceWriter& out) {
    const ExportPiece& piece = plan.pieces[i];
    if (plan.complete) plan.complete(i, crcs_, plan.pieces[i].bytes);
    WEIG_TRY(out.append(bytes_of(piece.bytes)));
    WEIG_TRY(out.append_zeros(piece.zeros));
    done_ += piece.bytes.size() + piece.zeros;
    crc_ = 0;
    if (piece.ordinal != disk::kNone)
      WEIG_TRY(write_tensor(items[i], plan.complete != nullptr, out));
    if (plan.complete) crcs_.push_back(crc_);
    return {};
  }

 private:
  Status write_tensor(const Item& item, bool wants_crc, PieceWriter& out) {
    const os::InputFile& file = files_[item.file].file;
    hasher_.reset();
    for (std::uint64_t at = 0; at < item.size;) {
      WEIG_TRY_ASSIGN(room, out.space());
      const MutableBytes step =
          room.first(std::min<std::uint64_t>(room.size(), item.size - at));
      if (!item.elements.empty()) {
        copy_little(item, at, step);
      } else {
        WEIG_TRY(file.read(item.offset + at, step));
      }
      hasher_.update(step);
      if (wants_crc) crc_ = libdeflate_crc32(crc_, step.data(), step.size());
      WEIG_TRY(out.advance(step.size()));
      at += step.size();
      done_ += step.size();
      if (!goes_on(progress_, done_, total_))
        return Error(Code::cancelled, "export was stopped");
    }
    if (item.digest && *item.digest != hasher_.digest())
      return Error(Code::checksum, "the bytes differ from their digest")
          .file(file.path())
          .tensor(item.name)
          .at(item.offset)
          .found(to_hex(hasher_.digest()))
          .expected(to_hex(*item.digest));
    return {};
  }

  const std::vector<OpenFile>& files_;
  std::uint64_t total_;
  const Progress& progress_;
  Hasher hasher_;
  std::uint64_t done_ = 0;           // bytes
  std::uint32_t crc_ = 0;            // of the tensor
  std::vector<std::uint32_t> crcs_;  // of the pieces before
};

// The files together, and what all of them let others do.
std::uint64_t bytes_in(const std::vector<OpenFile>& files) {
  std::uint64_t bytes = 0;
  for (const OpenFile& one : files) bytes += one.file.size();
  return bytes;
}
std::uint32_t permissions_of(const std::vector<OpenFile>& files) {
  std::uint32_t all = 0666;
  for (const OpenFile& one : files) all &= as_private_as(one.file.permissions());
  return all;
}

Status check_unchanged(const std::vector<OpenFile>& files) {
  for (const OpenFile& one : files)
    if (one.file.stamp().differs_from(one.opened))
      return Error(Code::corrupt, "the file was changed while it was read")
          .file(one.file.path());
  return {};
}

// A file that is to be written.
struct Job {
  std::string path;
  ExportPlan plan = {};
  std::vector<Item> items = {};  // of its pieces
  std::uint64_t total = 0;       // bytes
};

// The target and files beside it that belong to a model in several files of its name:
// whoever finds one of another model among them would read that, or both.
Result<std::vector<std::string>> shards_called(const std::string& target) {
  const std::filesystem::path parent = std::filesystem::path(target).parent_path();
  const std::string stem = target.substr(0, target.size() - kShardEnding.size());
  WEIG_TRY_ASSIGN(names, os::names_in(parent.empty() ? "." : parent.string()));
  std::vector<std::string> found;
  for (const std::string& name : names) {
    const std::string path = (parent / name).string();
    const auto member = parse_member_name(path);
    if (path == target || path == target + std::string(kIndexEnding) ||
        (member && member->stem == stem && member->ending == kShardEnding))
      found.push_back(path);
  }
  return found;
}

// Of those, the ones that are to be replaced.
Result<std::vector<std::string>> replaceable(const std::string& target,
                                             const std::vector<OpenFile>& files,
                                             Existing existing) {
  WEIG_TRY_ASSIGN(found, shards_called(target));
  for (const std::string& path : found) {
    if (existing == Existing::refuse)
      return Error(Code::exists, "the output exists already").file(path);
    const auto id = os::file_id(path);
    for (const OpenFile& one : files)
      if (id && *id == one.file.id())
        return Error(Code::exists, "the output is the source").file(path);
  }
  return std::move(found);
}

// The index last: whoever sees it sees all.
Status publish_shards(std::span<const std::unique_ptr<Sink>> sinks,
                      const std::string& target, const std::vector<OpenFile>& files,
                      Existing existing) {
  const auto lock = os::FolderLock::take(target);
  if (!lock) return lock.error();
  WEIG_TRY_ASSIGN(old, replaceable(target, files, existing));
  WEIG_TRY_ASSIGN(aside, os::SetAside::take(old));
  for (std::size_t i = 0; i < sinks.size(); ++i) {
    auto named = sinks[i]->publish();
    if (named) continue;
    for (std::size_t done = 0; done <= i; ++done) sinks[done]->retract();
    return named;
  }
  aside.remove();
  return {};
}

// One file, or those of a model in several, the index last.
Status write_files(std::span<Job> jobs, const std::vector<OpenFile>& files,
                   const std::string& target, const ExportOptions& options) {
  std::uint64_t total = 0;
  std::vector<std::unique_ptr<Sink>> sinks;
  for (const Job& job : jobs) {
    WEIG_TRY_ASSIGN(sink, file_sink(job.path, options.existing, permissions_of(files)));
    WEIG_TRY(sink->reserve(job.total));
    sinks.push_back(std::move(sink));
    total += job.total;
  }
  PieceStream stream(files, total, options.progress);
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    PieceWriter out(*sinks[i], 0);
    WEIG_TRY(stream.write(jobs[i].plan, jobs[i].items, out));
    WEIG_TRY(out.finish());
  }
  WEIG_TRY(check_unchanged(files));
  for (const std::unique_ptr<Sink>& sink : sinks) WEIG_TRY(sink->sync());
  if (!options.shard_bytes) return sinks.front()->publish();
  return publish_shards(sinks, target, files, options.existing);
}

// Each piece is a file.
Status write_folder(Job& job, const std::vector<OpenFile>& files,
                    const ExportOptions& options) {
  WEIG_TRY_ASSIGN(folder, os::OutputFolder::create(job.path));
  PieceStream stream(files, job.total, options.progress);
  for (std::size_t i = 0; i < job.items.size(); ++i) {
    WEIG_TRY_ASSIGN(sink, file_sink(folder.path() + "/" + job.plan.file_names[i],
                                    Existing::refuse, permissions_of(files)));
    const ExportPiece& piece = job.plan.pieces[i];
    WEIG_TRY(sink->reserve(piece.bytes.size() + job.items[i].size));
    PieceWriter out(*sink, 0);
    WEIG_TRY(stream.write_piece(job.plan, job.items, i, out));
    WEIG_TRY(out.finish());
    WEIG_TRY(sink->sync());
    WEIG_TRY(sink->publish());
  }
  WEIG_TRY(check_unchanged(files));
  return folder.publish();
}

// Whether the target is a folder. A name that ends like a file's is one file's, and can
// then hold but one tensor.
Result<bool> is_folder_of_files(const Exporter& exporter, const ExportPlan& plan,
                                const std::string& path) {
  if (exporter.format != ExportFormat::npy) return false;
  if (!path.ends_with(exporter.ending)) return true;
  if (plan.pieces.size() == 1) return false;
  return Error(Code::invalid_argument, "a .npy file holds one tensor")
      .file(path)
      .found(std::to_string(plan.pieces.size()))
      .hint("name an .npz file, or a folder with --to npy");
}

// The file, or files, that are to be written, but for their items.
Result<std::vector<Job>> plan_jobs(const ModelSet& set, const Exporter& exporter,
                                   const std::vector<OpenFile>& files,
                                   const std::string& path,
                                   const ExportOptions& options) {
  std::vector<Job> jobs;
  if (!options.shard_bytes) {
    WEIG_TRY_ASSIGN(plan, exporter.plan(set, options));
    jobs.push_back({path, std::move(plan)});
    return jobs;
  }
  if (exporter.format != ExportFormat::safetensors)
    return Error(Code::invalid_argument, "only safetensors is written in several files")
        .file(path)
        .found(std::string(exporter.name));
  if (!path.ends_with(kShardEnding) || os::is_folder(path))
    return Error(Code::invalid_argument,
                 "several files need a name that ends in .safetensors")
        .file(path);
  WEIG_TRY(replaceable(path, files, options.existing));
  WEIG_TRY_ASSIGN(plans, plan_safetensors_shards(set, *options.shard_bytes));
  if (plans.size() == 1) {
    WEIG_TRY_ASSIGN(plan, exporter.plan(set, options));
    jobs.push_back({path, std::move(plan)});
    return jobs;
  }
  MemberName name{.stem = path.substr(0, path.size() - kShardEnding.size()),
                  .count = plans.size(),
                  .ending = std::string(kShardEnding)};
  std::vector<std::string> file_names;
  for (std::size_t i = 0; i < plans.size(); ++i) {
    name.number = i + 1;
    file_names.push_back(std::filesystem::path(name.text()).filename().string());
  }
  WEIG_TRY_ASSIGN(index, safetensors_index(set, plans, file_names));
  for (std::size_t i = 0; i < plans.size(); ++i) {
    name.number = i + 1;
    jobs.push_back({name.text(), std::move(plans[i])});
  }
  Job last{.path = path + std::string(kIndexEnding)};
  last.plan.pieces.push_back({.bytes = std::move(index)});
  jobs.push_back(std::move(last));
  return jobs;
}

// Fills in what is to be read, and how much is written. Returns the bytes of all.
Result<std::uint64_t> count(const ModelSet& set, std::span<Job> jobs,
                            std::uint64_t bytes_there) {
  std::uint64_t all = 0;
  std::uint64_t zeros = 0;
  for (Job& job : jobs) {
    WEIG_TRY_ASSIGN(items, items_of(set, job.plan));
    job.items = std::move(items);
    for (const ExportPiece& piece : job.plan.pieces) {
      job.total += piece.bytes.size() + piece.zeros;
      zeros += piece.zeros;
    }
    for (const Item& item : job.items) job.total += item.size;
    all += job.total;
  }
  if ((all - zeros) / kMostTimes > bytes_there)
    return Error(Code::limit,
                 "tensors that share bytes would be written again and again")
        .found(std::to_string(all - zeros) + " bytes")
        .expected("at most " + std::to_string(kMostTimes) + " times the file's " +
                  std::to_string(bytes_there));
  if (zeros / kMostTimes > bytes_there + kFreeZeros)
    return Error(Code::limit, "the file would be little but padding")
        .found(std::to_string(zeros) + " zeros")
        .expected("at most " + std::to_string(kMostTimes) + " times the file's " +
                  std::to_string(bytes_there));
  return all;
}

Result<ExportReport> export_set(const ModelSet& set, const std::vector<OpenFile>& files,
                                const std::string& path, const ExportOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  for (std::uint32_t m = 0; m < set.member_count(); ++m)
    WEIG_TRY(check_name_bytes(set.member(m)->view()));
  const Exporter& exporter = exporter_for(path, options);
  WEIG_TRY_ASSIGN(jobs, plan_jobs(set, exporter, files, path, options));
  WEIG_TRY_ASSIGN(to_folder, is_folder_of_files(exporter, jobs.front().plan, path));
  WEIG_TRY_ASSIGN(total, count(set, jobs, bytes_in(files)));
  ExportReport report;
  report.output = jobs.back().path;
  report.tensors = set.size();
  report.warnings = jobs.front().plan.warnings;
  report.exact = jobs.front().plan.exact;
  report.file_size = total;
  for (std::size_t i = 0; i + 1 < jobs.size(); ++i)
    report.members.push_back(jobs[i].path);
  // Before there is a file.
  if (!goes_on(options.progress, 0, total))
    return Error(Code::cancelled, "export was stopped");
  WEIG_TRY(to_folder ? write_folder(jobs.front(), files, options)
                     : write_files(jobs, files, path, options));
  report.seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return report;
}

}  // namespace

std::vector<std::string> sections_left_out(const ModelSet& set,
                                           std::string_view format) {
  std::vector<disk::SectionKind> kinds;
  for (std::uint32_t m = 0; m < set.member_count(); ++m)
    for (const disk::SectionKind kind : set.member(m)->section_kinds())
      // Which member a file is, no other format need know.
      if (kind >= disk::SectionKind::quantization && kind != disk::SectionKind::shard)
        kinds.push_back(kind);
  std::ranges::sort(kinds);
  kinds.erase(std::ranges::unique(kinds).begin(), kinds.end());
  std::vector<std::string> words;
  words.reserve(kinds.size());
  for (const disk::SectionKind kind : kinds)
    words.push_back("left out, since " + std::string(format) +
                    " has no place for it: section " +
                    std::to_string(static_cast<std::uint32_t>(kind)) +
                    (kind == disk::SectionKind::quantization ? ", quantization" : ""));
  return words;
}

std::string_view export_format_name(ExportFormat format) noexcept {
  return std::ranges::find(kExporters, format, &Exporter::format)->name;
}

std::optional<ExportFormat> export_format_named(std::string_view name) noexcept {
  const auto* found = std::ranges::find(kExporters, name, &Exporter::name);
  if (found == kExporters.end()) return std::nullopt;
  return found->format;
}

std::vector<std::string_view> export_format_names() {
  std::vector<std::string_view> names;
  names.reserve(kExporters.size());
  for (const Exporter& exporter : kExporters) names.push_back(exporter.name);
  return names;
}

Result<ExportReport> export_file(const std::string& source, const std::string& target,
                                 const ExportOptions& options) {
  WEIG_TRY_ASSIGN(set, ModelSet::open(source, {.unsealed = Unsealed::accept}));
  WEIG_TRY_ASSIGN(files, open_files(set));
  if (const auto id = os::file_id(target))
    for (const OpenFile& one : files)
      if (*id == one.file.id())
        return Error(Code::exists, "the output is the source").file(target);
  auto report = export_set(set, files, target, options);
  if (!report && report.error().fields().file.empty())
    return std::move(report).error().file(set.path(0));
  return report;
}

}  // namespace weig
