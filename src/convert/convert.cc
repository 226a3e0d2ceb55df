// SPDX-License-Identifier: Apache-2.0
// convert: from sources to one WEIG file or a set, streaming.
#include <weig/convert.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <filesystem>
#include <unordered_map>

#include <weig/lora.h>
#include <weig/metadata.h>
#include <weig/view.h>

#include "convert/change_writer.h"
#include "convert/changes.h"
#include "convert/other_files.h"
#include "convert/partition.h"
#include "convert/quantization.h"
#include "convert/set_output.h"
#include "convert/sha256.h"
#include "convert/source_header.h"
#include "convert/source_reader.h"
#include "convert/source_section.h"
#include "convert/sources.h"
#include "core/progress.h"
#include "core/try.h"
#include "store/member_name.h"
#include "store/sink.h"

namespace weig {
namespace {

// How often progress is told.
constexpr std::uint64_t kTold = std::uint64_t{1} << 20;

bool is_inside(const std::string& path, const std::string& folder) {
  const std::string parent = std::filesystem::path(path).parent_path().string();
  const auto one = os::file_id(parent.empty() ? "." : parent);
  const auto other = os::file_id(folder);
  return one && other && *one == *other;
}

// Endings in whose place the new file's comes.
constexpr auto kReplacedEndings = std::to_array<std::string_view>(
    {".safetensors", ".gguf", ".pt", ".pth", ".bin", ".ckpt", ".npy", ".npz"});

std::string target_name(const std::string& source) {
  const std::filesystem::path path(source);
  if (os::is_folder(source)) return (path / "model.weig").string();
  const auto ending = path.extension();
  // One part of a GGUF model stands for all of it.
  if (const auto part = parse_member_name(source); part && ending == ".gguf")
    return part->stem + ".weig";
  std::filesystem::path target = path;
  if (std::ranges::find(kReplacedEndings, ending) != kReplacedEndings.end())
    return target.replace_extension("weig").string();
  return target.string() + ".weig";
}

// Where to write, and proof that it is none of the inputs.
Result<std::string> choose_target(std::span<const std::string> sources,
                                  const std::string& given, const Sources& opened,
                                  const LoraAdapter* adapter) {
  std::string target = given;
  if (target.empty()) {
    WEIG_TRY_ASSIGN(chosen, default_target(sources));
    target = std::move(chosen);
  } else if (os::is_folder(target)) {
    if (sources.size() != 1)
      return Error(Code::invalid_argument,
                   "several sources need a file's name, not a "
                   "folder's, for the output")
          .file(target);
    const auto name = std::filesystem::path(target_name(sources[0])).filename();
    target = (std::filesystem::path(target) / name).string();
  }
  const auto id = os::file_id(target);
  if (!id) return target;  // it does not exist, or the Writer will say why not
  const auto refuse = [&](const std::string& source) {
    return Error(Code::exists, "the output is one of the sources")
        .file(target)
        .found(source);
  };
  for (const SourceFile& source : opened.files) {
    if (source.file.id() == *id) return refuse(source.file.path());
    for (const DataFile& data : source.data_files)
      if (data.id == *id) return refuse(data.path);
  }
  std::vector<std::string> files = opened.index_files;
  if (adapter != nullptr) {
    files.push_back(adapter->file().path());
    if (!adapter->config_path().empty()) files.push_back(adapter->config_path());
  }
  for (const std::string& index : files)
    if (const auto other = os::file_id(index); other && *other == *id)
      return refuse(index);
  for (const std::string& name : opened.other_files) {
    const std::string path = (std::filesystem::path(opened.folder) / name).string();
    if (const auto other = os::file_id(path); other && *other == *id)
      return refuse(path);
  }
  return target;
}

// In a folder with both, the adapter's files are not left behind: they were used.
void forget_adapter(const LoraAdapter& adapter, Sources& opened) {
  const auto weights = os::file_id(adapter.file().path());
  const auto config = os::file_id(adapter.config_path());
  for (std::vector<std::string>* names : {&opened.other_files, &opened.unread})
    std::erase_if(*names, [&](const std::string& name) {
      const auto id =
          os::file_id((std::filesystem::path(opened.folder) / name).string());
      return id && ((weights && *id == *weights) || (config && *id == *config));
    });
}

// One conversion, step by step.
class Conversion {
 public:
  Conversion(Sources sources, const ConvertOptions& options)
      : sources_(std::move(sources)), options_(options) {}

  Status run(const std::string& target) {
    const auto start = std::chrono::steady_clock::now();
    WEIG_TRY_ASSIGN(changes, Changes::make(sources_, options_));
    changes_ = std::move(changes);
    auto plan = Plan::make(changes_->specs());
    if (!plan) return std::move(plan).error().file(sources_.files[0].file.path());
    plan_ = *std::move(plan);
    WEIG_TRY(make_sections());
    // Before there is a file and before it gets its name, however little is copied.
    count_bytes();
    WEIG_TRY(tell(0, total_));
    WEIG_TRY(options_.shard_bytes ? write_set(target) : write_file(target));
    for (const SourceFile& source : sources_.files) {
      report.sources.push_back(source.file.path());
      for (const DataFile& data : source.data_files)
        report.sources.push_back(data.path);
    }
    report.seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return {};
  }

  ConvertReport report;

 private:
  const Manifest::Entry& entry(const SourceTensor& tensor) const {
    return sources_.files[tensor.file].manifest.entries()[tensor.entry];
  }

  // Weights that others may not read do not become readable.
  std::uint32_t permissions() const {
    std::uint32_t all = 0666;
    for (const SourceFile& source : sources_.files) {
      all &= as_private_as(source.file.permissions());
      for (const DataFile& data : source.data_files)
        all &= as_private_as(data.permissions);
    }
    if (options_.adapter == nullptr) return all;
    const auto adapter = os::InputFile::open(options_.adapter->file().path());
    // Of one that is gone nobody knows: private.
    return all & as_private_as(adapter ? adapter->permissions() : 0600);
  }

  Status tell(std::uint64_t done, std::uint64_t total) const {
    if (goes_on(options_.progress, done, total)) return {};
    return Error(Code::cancelled, "conversion was stopped");
  }

  // What a tensor of the new file is made of, and how.
  const SourceTensor& source_of(std::uint32_t ordinal) const {
    return sources_.tensors[(*changes_)[plan_.order()[ordinal]].source];
  }
  NewTensor::Part part_of(std::uint32_t ordinal) const {
    return (*changes_)[plan_.order()[ordinal]].part;
  }

  // Metadata and source, which the first member of a set has for all; quantization.
  Status make_sections() {
    std::optional<std::string> metadata = sources_.metadata;
    if (options_.source_hash == SourceHash::sha256) {
      WEIG_TRY_ASSIGN(text, with_hashes(metadata));
      metadata = std::move(text);
    }
    if (metadata) {
      constexpr std::uint64_t kMost = ViewOptions{}.max_metadata_bytes;
      if (metadata->size() > kMost)
        return Error(Code::limit, "the metadata is larger than readers allow")
            .found(std::to_string(metadata->size()) + " bytes")
            .expected("at most " + std::to_string(kMost));
      const Bytes bytes = bytes_of(*metadata);
      sections_.push_back(
          {disk::SectionKind::metadata, std::vector(bytes.begin(), bytes.end())});
    }
    if (const auto& origin = sources_.origin; origin && !changes_->any()) {
      // Specs of a single source, and of a set, are its entries.
      sections_.push_back(
          {disk::SectionKind::source,
           origin->format == SourceHeader::Format::gguf
               ? make_gguf_source_section(origin->header, origin->file_size)
               : make_source_section(origin->header, origin->file_size, origin->order,
                                     changes_->specs(), plan_, metadata)});
      report.exact_source = true;
    }
    WEIG_TRY_ASSIGN(entries, gather_quantization(sources_, *changes_, plan_));
    quantization_ = std::move(entries);
    return {};
  }

  OrdinalRun all() const { return {0, static_cast<std::uint32_t>(plan_.size())}; }

  Status write_file(const std::string& target) {
    std::vector<SectionBytes> sections = std::move(sections_);
    WEIG_TRY(add_quantization(quantization_, all(), sections));
    WEIG_TRY_ASSIGN(writer, Writer::create(target, changes_->specs(), plan_,
                                           {.existing = options_.existing,
                                            .sections = std::move(sections),
                                            .permissions = permissions()}));
    const OrdinalRun run = all();
    WEIG_TRY(copy_data({&writer, 1}, {&run, 1}));
    WEIG_TRY(before_naming());
    WEIG_TRY_ASSIGN(id, writer.finish());
    report.output = target;
    report.file_size = writer.file_size();
    report.file_id = id;
    report.padding_bytes = plan_.data_bytes() - report.data_bytes;
    return {};
  }

  Status write_set(const std::string& target) {
    WEIG_TRY_ASSIGN(output, SetOutput::plan(target, options_.existing, sources_));
    std::uint64_t first_section_bytes = 0;
    for (const SectionBytes& section : sections_)
      first_section_bytes += section.bytes.size();
    const std::vector<OrdinalRun> together = needed_together(quantization_);
    const std::vector<OrdinalRun> members = partition(
        changes_->specs(), plan_,
        {.file_bytes = *options_.shard_bytes,
         .first_section_bytes = first_section_bytes,
         .section_bytes_a_tensor = quantization_.empty() ? 0 : sizeof(Quantization),
         .together = together});
    WEIG_TRY_ASSIGN(sections, member_sections(members));
    WEIG_TRY(output.create(changes_->specs(), plan_, members, sections, permissions()));
    WEIG_TRY(copy_data(output.writers(), members));
    WEIG_TRY(before_naming());
    WEIG_TRY_ASSIGN(set, output.publish());
    report.output = output.path(0);
    report.file_id = set;
    for (std::size_t m = 0; m < members.size(); ++m) {
      const std::uint64_t size = output.writers()[m].file_size();
      report.members.push_back(
          {output.path(m), members[m].count, size, output.file_id(m)});
      report.file_size += size;
    }
    report.padding_bytes = output.data_bytes() - report.data_bytes;
    return {};
  }

  // By member. The set's id is not known yet.
  Result<std::vector<std::vector<SectionBytes>>> member_sections(
      std::span<const OrdinalRun> members) {
    std::vector<std::vector<SectionBytes>> all(members.size());
    for (std::uint32_t m = 0; m < members.size(); ++m) {
      if (m == 0) all[m] = std::move(sections_);
      WEIG_TRY(add_quantization(quantization_, members[m], all[m]));
      all[m].push_back(
          shard_section({.set_low = 0,
                         .set_high = 0,
                         .index = m,
                         .count = static_cast<std::uint32_t>(members.size()),
                         .tensors = plan_.size()}));
    }
    return all;
  }

  // All data is written.
  Status before_naming() const {
    WEIG_TRY(check_sources());
    return tell(total_, total_);
  }

  // The metadata with the SHA-256 of each source file.
  Result<std::string> with_hashes(const std::optional<std::string>& text) {
    Metadata metadata;
    if (text) {
      WEIG_TRY_ASSIGN(parsed, Metadata::parse(*text));
      metadata = std::move(parsed);
    }
    const Metadata before = metadata;
    for (const Metadata::Entry& old : before.entries())
      if (old.key.starts_with(kSourceHashKey)) metadata.remove(old.key);
    for (const SourceFile& source : sources_.files) {
      WEIG_TRY(add_hash(source.file, metadata));
      for (const DataFile& data : source.data_files) {
        WEIG_TRY_ASSIGN(file, open_data_file(data));
        WEIG_TRY(add_hash(file, metadata));
      }
    }
    return metadata.text();
  }

  Status add_hash(const os::InputFile& file, Metadata& metadata) const {
    WEIG_TRY_ASSIGN(hash, sha256_of(file, options_.progress));
    std::string key(kSourceHashKey);
    if (sources_.files.size() > 1 || !sources_.files[0].data_files.empty())
      key += "." + std::filesystem::path(file.path()).filename().string();
    // Files of one name in several folders are told apart by number.
    std::string free = key;
    for (int n = 2; metadata.find(free); ++n) free = key + "#" + std::to_string(n);
    metadata.set(free, hash);
    return {};
  }

  // Counts what there is to do, and what there will be.
  void count_bytes() {
    report.tensors = plan_.size();
    report.left_out = sources_.left_out;
    report.renamed = sources_.new_names.size();
    report.cast = changes_->cast();
    report.quantized = changes_->quantized();
    report.dequantized = changes_->dequantized();
    report.adapted = changes_->adapted();
    for (std::uint32_t ordinal = 0; ordinal < plan_.size(); ++ordinal) {
      report.aliases += plan_.is_alias(ordinal) ? 1 : 0;
      if (plan_.is_alias(ordinal)) continue;
      report.data_bytes += plan_.byte_count(ordinal);
      if (part_of(ordinal) <= NewTensor::Part::codes)
        total_ += entry(source_of(ordinal)).size;
    }
  }

  // Each writer gets the tensors of its run; the runs are all of the plan, in order.
  Status copy_data(std::span<Writer> writers, std::span<const OrdinalRun> runs) {
    for (const SourceFile& source : sources_.files) readers_.emplace_back(source);
    ChangeWriter changing(
        *changes_,
        [this](std::uint32_t source, std::uint64_t offset, MutableBytes out) {
          return read(sources_.tensors[source], offset, out);
        },
        [this](std::uint64_t bytes) { return tell_of(bytes); });
    for (std::size_t w = 0; w < writers.size(); ++w) {
      for (std::uint32_t ordinal = runs[w].first; ordinal < runs[w].end(); ++ordinal)
        if (!plan_.is_alias(ordinal))
          WEIG_TRY(write_tensor(ordinal, writers[w], changing));
      // Nothing more comes: its buffers are free for the next.
      WEIG_TRY(writers[w].digests());
    }
    return {};
  }

  Status write_tensor(std::uint32_t ordinal, Writer& writer, ChangeWriter& changing) {
    const SourceTensor& tensor = source_of(ordinal);
    const Manifest::Entry& e = entry(tensor);
    if (part_of(ordinal) == NewTensor::Part::copy) return copy_tensor(tensor, writer);
    return changing.write(writer, plan_.order()[ordinal], e.dtype, e.size);
  }

  Status copy_tensor(const SourceTensor& tensor, Writer& writer) {
    const std::uint64_t size = entry(tensor).size;
    if (size == 0) return read(tensor, 0, {});
    for (std::uint64_t at = 0; at < size;) {
      WEIG_TRY_ASSIGN(room, writer.space());
      const MutableBytes bytes = room;  // ends on a multiple of 64 or with the tensor
      WEIG_TRY(read(tensor, at, bytes));
      WEIG_TRY(writer.advance(bytes.size()));
      at += bytes.size();
      WEIG_TRY(tell_of(bytes.size()));
    }
    return {};
  }

  // Parts follow each other from the tensor's begin to its end.
  Status read(const SourceTensor& tensor, std::uint64_t offset, MutableBytes out) {
    return readers_[tensor.file].read(tensor.entry, offset, out);
  }

  // `bytes` more of the sources are done.
  Status tell_of(std::uint64_t bytes) {
    done_ += bytes;
    if (done_ - told_ < kTold && done_ < total_) return {};
    told_ = done_;
    return tell(done_, total_);
  }

  // Half of a file and half of what somebody wrote over it are no model.
  Status check_sources() const {
    for (const SourceFile& source : sources_.files) {
      if (source.file.stamp().differs_from(source.opened))
        return Error(Code::corrupt, "the file was changed while it was read")
            .file(source.file.path());
      WEIG_TRY(check_unchanged(source.data_files));
    }
    return {};
  }

  Sources sources_;
  const ConvertOptions& options_;
  std::optional<Changes> changes_;
  Plan plan_;
  std::vector<SectionBytes> sections_;
  std::vector<Quantization> quantization_;
  std::vector<SourceReader> readers_;  // by file
  std::uint64_t total_ = 0;            // bytes of the sources that become something
  std::uint64_t done_ = 0;             // of them, and how many of those were told
  std::uint64_t told_ = 0;
};

}  // namespace

Result<std::string> default_target(std::span<const std::string> sources) {
  if (sources.size() != 1)
    return Error(Code::invalid_argument, "several sources need a name for the output");
  if (std::filesystem::path(sources[0]).extension() == ".weig")
    return Error(Code::invalid_argument, "a WEIG file needs a name for the output")
        .file(sources[0])
        .hint("-o OUTPUT");
  return target_name(sources[0]);
}

Result<ConvertReport> convert(std::span<const std::string> sources,
                              const std::string& target,
                              const ConvertOptions& options) {
  WEIG_TRY_ASSIGN(opened, open_sources(sources, options));
  WEIG_TRY_ASSIGN(path, choose_target(sources, target, opened, options.adapter));
  if (options.shard_bytes) {
    if (*options.shard_bytes == 0)
      return Error(Code::invalid_argument, "members of a set cannot have 0 bytes");
    WEIG_TRY(SetOutput::plan(path, options.existing, opened));  // before all is hashed
  } else if (options.existing == Existing::refuse && os::is_file(path)) {
    return Error(Code::exists, "the output exists already").file(path);
  }
  std::vector<std::string> warnings = opened.warnings;
  for (const SourceFile& source : opened.files)
    for (const std::string& warning : source.manifest.warnings)
      warnings.push_back(source.file.path() + ": " + warning);
  if (options.adapter != nullptr) forget_adapter(*options.adapter, opened);
  for (const SourceFile& source : opened.files)
    for (const std::string& what : source.manifest.skipped)
      warnings.push_back(source.file.path() + ": left behind: " + what);
  OtherFileCopies copies;
  if (options.other_files == OtherFiles::copy) {
    WEIG_TRY_ASSIGN(planned, OtherFileCopies::plan(opened, path, options.existing));
    copies = std::move(planned);
  }
  // Beside the folder's own files, nothing is left behind and nothing to copy.
  if (is_inside(path, opened.folder)) {
    opened.other_files.clear();
    opened.unread.clear();
  }
  std::vector<std::string> other_files = opened.other_files;
  std::vector<std::string> left_behind = opened.unread;
  if (options.other_files == OtherFiles::leave)
    left_behind.insert(left_behind.end(), other_files.begin(), other_files.end());
  std::ranges::sort(left_behind);
  Conversion conversion(std::move(opened), options);
  if (auto status = conversion.run(path); !status) {
    Error error = std::move(status).error();
    // Memory and threads are no file's; what was to be written needed them.
    return error.fields().file.empty() ? std::move(error).file(path) : error;
  }
  if (auto status = copies.run(options.progress); !status)
    return std::move(status).error().hint("the model is complete: " + path +
                                          "; not all other files were copied");
  conversion.report.warnings = std::move(warnings);
  conversion.report.other_files = std::move(other_files);
  conversion.report.left_behind = std::move(left_behind);
  return std::move(conversion.report);
}

}  // namespace weig
