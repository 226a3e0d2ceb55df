// SPDX-License-Identifier: Apache-2.0
// convert: from sources to one WEIG file, streaming.
#include <weig/convert.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <unordered_map>

#include <weig/metadata.h>

#include "convert/changes.h"
#include "convert/other_files.h"
#include "convert/sha256.h"
#include "convert/source_header.h"
#include "convert/source_section.h"
#include "convert/sources.h"
#include "core/byteswap.h"
#include "core/digest.h"
#include "core/progress.h"
#include "core/try.h"
#include "store/sink.h"

namespace weig {
namespace {

// Tensors that follow each other closely in the source are read in pieces of this size,
// so that a million small ones are not a million calls.
constexpr std::uint64_t kWindow = std::uint64_t{1} << 20;
constexpr std::uint64_t kSmall = std::uint64_t{64} << 10;

bool is_inside(const std::string& path, const std::string& folder) {
  const std::string parent = std::filesystem::path(path).parent_path().string();
  const auto one = os::file_id(parent.empty() ? "." : parent);
  const auto other = os::file_id(folder);
  return one && other && *one == *other;
}

std::string target_name(const std::string& source) {
  const std::filesystem::path path(source);
  if (os::is_folder(source)) return (path / "model.weig").string();
  std::filesystem::path target = path;
  if (path.extension() == ".safetensors")
    return target.replace_extension("weig").string();
  return target.string() + ".weig";
}

// Where to write, and proof that it is none of the inputs.
Result<std::string> choose_target(std::span<const std::string> sources,
                                  const std::string& given, const Sources& opened) {
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
  for (const SourceFile& source : opened.files)
    if (source.file.id() == *id) return refuse(source.file.path());
  for (const std::string& index : opened.index_files)
    if (const auto other = os::file_id(index); other && *other == *id)
      return refuse(index);
  for (const std::string& name : opened.other_files) {
    const std::string path = (std::filesystem::path(opened.folder) / name).string();
    if (const auto other = os::file_id(path); other && *other == *id)
      return refuse(path);
  }
  return target;
}

// Reads tensors of one file, small neighbours through a window.
class SourceReader {
 public:
  explicit SourceReader(const os::InputFile& file) : file_(file) {}

  Status read(std::uint64_t offset, MutableBytes out) {
    if (out.size() > kSmall) return file_.read(offset, out);
    if (offset < begin_ || !fits(offset - begin_, out.size(), bytes_.size())) {
      const bool follows = offset >= end_ && offset - end_ <= kSmall;
      end_ = offset + out.size();
      if (!follows) return file_.read(offset, out);
      begin_ = offset;
      bytes_.resize(std::min(kWindow, file_.size() - offset));
      WEIG_TRY(file_.read(offset, bytes_));
    }
    end_ = offset + out.size();
    std::memcpy(out.data(), bytes_.data() + (offset - begin_), out.size());
    return {};
  }

 private:
  const os::InputFile& file_;
  std::vector<std::byte> bytes_;
  std::uint64_t begin_ = 0;  // of the window
  std::uint64_t end_ = 0;    // of the last read
};

// One conversion, step by step.
class Conversion {
 public:
  Conversion(Sources sources, const ConvertOptions& options)
      : sources_(std::move(sources)), options_(options) {}

  Status run(const std::string& target) {
    const auto start = std::chrono::steady_clock::now();
    WEIG_TRY_ASSIGN(changes, Changes::make(sources_, options_));
    changes_ = &changes;
    auto plan = Plan::make(changes.specs());
    if (!plan) return std::move(plan).error().file(sources_.files[0].file.path());
    plan_ = *std::move(plan);
    WEIG_TRY_ASSIGN(sections, make_sections());
    // Before there is a file and before it gets its name, however little is copied.
    WEIG_TRY(tell(0, plan_.data_bytes()));
    WEIG_TRY_ASSIGN(writer, Writer::create(target, changes.specs(), plan_,
                                           {.existing = options_.existing,
                                            .sections = std::move(sections),
                                            .permissions = permissions()}));
    WEIG_TRY(copy_data(writer));
    WEIG_TRY(check_sources());
    WEIG_TRY(tell(done_, done_));
    report.file_size = writer.file_size();
    WEIG_TRY_ASSIGN(id, writer.finish());
    report.file_id = id;
    report.output = target;
    report.cast = changes.cast();
    report.quantized = changes.quantized();
    report.padding_bytes = plan_.data_bytes() - report.data_bytes;
    for (const SourceFile& source : sources_.files)
      report.sources.push_back(source.file.path());
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
    for (const SourceFile& source : sources_.files)
      all &= as_private_as(source.file.permissions());
    return all;
  }

  Status tell(std::uint64_t done, std::uint64_t total) const {
    if (goes_on(options_.progress, done, total)) return {};
    return Error(Code::cancelled, "conversion was stopped");
  }

  // The source of a tensor of the new file.
  const SourceTensor& source_of(std::uint32_t ordinal) const {
    return sources_.tensors[(*changes_)[plan_.order()[ordinal]].source];
  }

  Result<std::vector<SectionBytes>> make_sections() {
    std::vector<SectionBytes> sections;
    std::optional<std::string> metadata = sources_.metadata;
    if (options_.source_hash == SourceHash::sha256) {
      WEIG_TRY_ASSIGN(text, with_hashes(metadata));
      metadata = std::move(text);
    }
    if (metadata) {
      const Bytes bytes = bytes_of(*metadata);
      sections.push_back(
          {disk::SectionKind::metadata, std::vector(bytes.begin(), bytes.end())});
    }
    WEIG_TRY(add_source_section(sections, metadata));
    WEIG_TRY(add_quantization_section(sections));
    return sections;
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
      WEIG_TRY_ASSIGN(hash, sha256_of(source.file, options_.progress));
      std::string key(kSourceHashKey);
      if (sources_.files.size() > 1)
        key += "." + std::filesystem::path(source.file.path()).filename().string();
      // Files of one name in several folders are told apart by number.
      std::string free = key;
      for (int n = 2; metadata.find(free); ++n) free = key + "#" + std::to_string(n);
      metadata.set(free, hash);
    }
    return metadata.text();
  }

  Status add_source_section(std::vector<SectionBytes>& sections,
                            const std::optional<std::string>& metadata) {
    if (sources_.files.size() != 1 || sources_.files[0].header.empty() ||
        changes_->any())
      return {};
    const SourceFile& source = sources_.files[0];
    // Specs of a single source, nothing of which is changed, are its entries.
    sections.push_back(
        {disk::SectionKind::source,
         make_source_section(source.header, source.header_file_size,
                             source.header_order, changes_->specs(), plan_, metadata)});
    report.exact_source = true;
    return {};
  }

  // Where entries of the sources' manifests are in the new table.
  std::vector<std::vector<std::uint32_t>> new_ordinals() const {
    std::vector<std::vector<std::uint32_t>> ordinals;
    ordinals.reserve(sources_.files.size());
    for (const SourceFile& source : sources_.files)
      ordinals.emplace_back(source.manifest.entries().size(), disk::kNone);
    for (std::uint32_t ordinal = 0; ordinal < plan_.size(); ++ordinal) {
      const auto part = (*changes_)[plan_.order()[ordinal]].part;
      if (part != NewTensor::Part::copy && part != NewTensor::Part::cast) continue;
      const SourceTensor& tensor = source_of(ordinal);
      ordinals[tensor.file][tensor.entry] = ordinal;
    }
    return ordinals;
  }

  // Makes the entry's ordinals those of the new table; `ordinals` are of its file.
  static Status move(Quantization& q, std::span<const std::uint32_t> ordinals) {
    for (std::uint32_t* field : {&q.scale, &q.zero_point, &q.scale2}) {
      const std::uint32_t old = *field;
      if (old >= ordinals.size()) continue;  // none
      *field = ordinals[old];
      if (*field == disk::kNone)
        return Error(Code::unsupported, "its quantization needs a tensor left out");
      // What other schemes mean by their numbers is not known.
      if (q.scheme != 1 && *field != old)
        return Error(Code::unsupported,
                     "its quantization scheme is not known, and its table changes")
            .found("scheme " + std::to_string(q.scheme));
    }
    return {};
  }

  Status add_quantization_section(std::vector<SectionBytes>& sections) {
    std::vector<Quantization> entries = changes_->entries(plan_);
    WEIG_TRY(add_source_entries(entries));
    if (entries.empty()) return {};
    std::ranges::sort(entries, {}, &Quantization::tensor);
    std::vector<std::byte> bytes(8 + entries.size() * sizeof(Quantization));
    store(bytes.data(), static_cast<std::uint32_t>(entries.size()));
    std::byte* at = bytes.data() + 8;
    for (const Quantization& q : entries)
      for (const std::uint32_t field : {q.tensor, q.scheme, q.axis, q.block, q.scale,
                                        q.zero_point, q.scale2, q.zero}) {
        store(at, field);
        at += sizeof field;
      }
    sections.push_back({disk::SectionKind::quantization, std::move(bytes)});
    return {};
  }

  // What the sources say of their own quantized tensors, which are kept.
  Status add_source_entries(std::vector<Quantization>& entries) const {
    if (std::ranges::all_of(sources_.files, [](const SourceFile& source) {
          return source.quantization.empty();
        }))
      return {};
    const auto ordinals = new_ordinals();
    for (std::size_t f = 0; f < sources_.files.size(); ++f)
      for (Quantization q : sources_.files[f].quantization) {
        if (q.tensor >= ordinals[f].size()) continue;  // the file changed meanwhile
        q.tensor = ordinals[f][q.tensor];
        if (q.tensor == disk::kNone) continue;  // an index leaves it out
        if (auto status = move(q, ordinals[f]); !status)
          return std::move(status)
              .error()
              .file(sources_.files[f].file.path())
              .tensor(changes_->specs()[plan_.order()[q.tensor]].name);
        entries.push_back(q);
      }
    return {};
  }

  // Reads a part of a source's tensor, little-endian, and adds it to its digest, which
  // begins with the tensor.
  Status read(SourceReader& reader, const SourceTensor& tensor, std::uint64_t offset,
              MutableBytes out) {
    const SourceFile& source = sources_.files[tensor.file];
    const Manifest::Entry& e = entry(tensor);
    WEIG_TRY(reader.read(e.begin + offset, out));
    if (source.manifest.big_endian) swap_in_place(out, dtype_info(e.dtype)->swap_unit);
    if (source.digests.empty()) return {};
    if (offset == 0) hasher_.reset();
    hasher_.update(out);
    return {};
  }

  // `bytes` more of the sources are done.
  Status tell_of(std::uint64_t bytes) {
    done_ += bytes;
    if (done_ - told_ < kWindow && done_ < total_) return {};
    told_ = done_;
    return tell(done_, total_);
  }

  // Counts what there is to do, and what there will be.
  void count_bytes() {
    report.tensors = plan_.size();
    for (std::uint32_t ordinal = 0; ordinal < plan_.size(); ++ordinal) {
      report.aliases += plan_.is_alias(ordinal) ? 1 : 0;
      if (plan_.is_alias(ordinal)) continue;
      report.data_bytes += plan_.byte_count(ordinal);
      if ((*changes_)[plan_.order()[ordinal]].part <= NewTensor::Part::codes)
        total_ += entry(source_of(ordinal)).size;
    }
  }

  Status copy_data(Writer& writer) {
    std::vector<SourceReader> readers;
    readers.reserve(sources_.files.size());
    for (const SourceFile& source : sources_.files) readers.emplace_back(source.file);
    count_bytes();
    ChangeWriter change_writer(
        *changes_,
        [&](std::uint32_t source, std::uint64_t offset, MutableBytes out) {
          const SourceTensor& tensor = sources_.tensors[source];
          return read(readers[tensor.file], tensor, offset, out);
        },
        [&](std::uint64_t bytes) { return tell_of(bytes); });
    for (std::uint32_t ordinal = 0; ordinal < plan_.size(); ++ordinal) {
      if (plan_.is_alias(ordinal)) continue;
      const std::uint32_t spec = plan_.order()[ordinal];
      const SourceTensor& tensor = source_of(ordinal);
      const NewTensor::Part part = (*changes_)[spec].part;
      if (part == NewTensor::Part::copy)
        WEIG_TRY(copy_tensor(writer, readers[tensor.file], tensor));
      else
        WEIG_TRY(
            change_writer.write(writer, spec, entry(tensor).dtype, entry(tensor).size));
      if (part <= NewTensor::Part::codes)
        WEIG_TRY(check_digest(sources_.files[tensor.file], tensor.entry, hasher_));
    }
    return {};
  }

  Status copy_tensor(Writer& writer, SourceReader& reader, const SourceTensor& tensor) {
    for (std::uint64_t at = 0; at < entry(tensor).size;) {
      WEIG_TRY_ASSIGN(room, writer.space());
      const MutableBytes bytes = room;  // ends on a multiple of 64 or with the tensor
      WEIG_TRY(read(reader, tensor, at, bytes));
      WEIG_TRY(writer.advance(bytes.size()));
      at += bytes.size();
      WEIG_TRY(tell_of(bytes.size()));
    }
    return {};
  }

  // Half of a file and half of what somebody wrote over it are no model.
  Status check_sources() const {
    for (const SourceFile& source : sources_.files)
      if (source.file.stamp().differs_from(source.opened))
        return Error(Code::corrupt, "the file was changed while it was read")
            .file(source.file.path());
    return {};
  }

  // Damage of a sealed source is not sealed anew.
  static Status check_digest(const SourceFile& source, std::uint32_t entry,
                             Hasher& hasher) {
    if (source.digests.empty()) return {};
    const Digest digest = hasher.digest();
    hasher.reset();
    if (digest == source.digests[entry]) return {};
    const Manifest::Entry& e = source.manifest.entries()[entry];
    return Error(Code::checksum, "the bytes differ from their digest")
        .file(source.file.path())
        .tensor(source.manifest.name(e))
        .at(e.begin)
        .found(to_hex(digest))
        .expected(to_hex(source.digests[entry]));
  }

  Sources sources_;
  const ConvertOptions& options_;
  const Changes* changes_ = nullptr;  // while run() does
  Plan plan_;
  Hasher hasher_;
  std::uint64_t total_ = 0;  // bytes of the sources
  std::uint64_t done_ = 0;
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
  WEIG_TRY_ASSIGN(path, choose_target(sources, target, opened));
  if (options.existing == Existing::refuse && os::is_file(path))
    return Error(Code::exists, "the output exists already").file(path);
  std::vector<std::string> warnings = opened.warnings;
  for (const SourceFile& source : opened.files)
    for (const std::string& warning : source.manifest.warnings)
      warnings.push_back(source.file.path() + ": " + warning);
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
