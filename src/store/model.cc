// SPDX-License-Identifier: Apache-2.0
// Model: from a path to a claimed mapping.
#include <weig/model.h>
#include <weig/verify.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <mutex>
#include <vector>

#include "core/byteswap.h"
#include "core/claim.h"
#include "core/progress.h"
#include "core/try.h"
#include "formats/big_endian.h"
#include "formats/manifest.h"
#include "formats/safetensors.h"
#include "formats/sniff.h"
#include "os/os.h"
#include "os/residency.h"
#include "store/guard.h"
#include "store/loader.h"
#include "store/memory_claim.h"
#include "store/parallel.h"

namespace weig {
namespace {

// Fronts up to this are read exactly, so that opening leaves no more than the front
// resident; longer ones are worth 2 MiB pages of their own.
constexpr std::uint64_t kSmallFront = os::kHugePage;

// Whether a file whose elements have this order opens by a copy of them.
bool needs_swap(ByteOrder order, const OpenOptions& options) {
  return order != kNativeOrder && options.part == Part::everything;
}

// Changes the byte order of all elements in `image`, the file's bytes.
Status swap_elements(const View& view, MutableBytes image) {
  const auto unit = [](const Tensor& tensor) {
    const DtypeInfo* info = dtype_info(tensor.dtype());
    return info ? info->swap_unit : 1;  // of unknown types, bytes are all there is
  };
  for (const Result<Tensor>& tensor : view.tensors()) {
    if (!tensor) return tensor.error();
    WEIG_TRY_ASSIGN(owner, view.owner(tensor->ordinal()));
    if (owner == tensor->ordinal()) {
      swap_in_place(image.subspan(tensor->data_offset(), tensor->byte_count()),
                    unit(*tensor));
      continue;
    }
    WEIG_TRY_ASSIGN(first, view[owner]);
    if (unit(first) != unit(*tensor))
      return Error(Code::unsupported,
                   "tensors share bytes in the other byte order as elements of "
                   "different widths")
          .tensor(tensor->name());
  }
  return {};
}

}  // namespace

std::string_view file_format_name(FileFormat format) noexcept {
  switch (format) {
    case FileFormat::weig:
      return "WEIG";
    case FileFormat::weig_minimal:
      return "WEIG, minimal";
    case FileFormat::weig_big_endian:
      return "WEIG, big-endian";
    case FileFormat::safetensors:
      return "safetensors";
  }
  return "unknown";
}

// What a Model owns: the View's Claim points into it, and never moves with it.
struct Model::Backing {
  std::string path;
  FileFormat format = FileFormat::weig;
  os::Mapping mapping;                   // of the file, or memory of our own
  std::atomic<bool> own_memory = false;  // the latter, read up to `front`
  MemoryClaim claim;                     // on what is yet to be read into it
  std::uint64_t front = 0;               // where data begins
  os::Mapping swapped;          // data in our byte order, where the file's is not
  std::vector<std::byte> core;  // a foreign file's table
  std::optional<std::string> metadata;  // a foreign file's
  Decision decision{.choice = {.way = LoadWay::map, .reason = {}}};
  std::vector<std::string> warnings;  // of claiming
  Guard wish = Guard::off;
  std::mutex mutex;       // guards what follows against reports and the guard's thread
  os::Descriptor anchor;  // the file, for later loads, until all is in memory
  LoadReport report;      // where there is no loader
  std::string why_no_guard;
  FileGuard::Pointer guard;        // goes before what it copies
  std::shared_ptr<Loader> loader;  // the last load; goes before what it works on
  os::FileStamp stamp;             // of the file, when it was opened

  // One function a kind of file: maps, and proves.
  Result<View> claim_weig(const os::InputFile& file, Bytes first,
                          const OpenOptions& options);
  Result<View> claim_big_endian(const os::InputFile& file, const OpenOptions& options);
  Result<View> claim_safetensors(const os::InputFile& file, Bytes first,
                                 const OpenOptions& options);
  Result<View> claim_foreign(const Manifest& manifest, const OpenOptions& options);
  Status map(const os::InputFile& file, std::uint64_t front_bytes,
             const OpenOptions& options);
  Status swap(const os::InputFile& file, const Progress& progress, View& view);
  Status map_or_read(const os::InputFile& file, std::uint64_t length,
                     const OpenOptions& options);
  // Whether the table or the data is read in `mapping`; else both were copied.
  bool uses_mapping() const { return swapped.size() == 0 || core.empty(); }

  // Brings what was claimed into memory.
  enum class Fill { mapping, own_memory };
  enum class Return { when_loaded, at_once };  // filling own memory: when loaded
  Status load(os::InputFile file, const LoadOptions& options, Fill fill, Return when);
  Status load_in_place_of_mapping(os::InputFile file, const LoadOptions& options);
  Decision choose(const os::InputFile& file, const OpenOptions& options) const;
  // Of the file, after all was read. Fails with corrupt where a guard was wished for
  // and the file may have been written to meanwhile.
  Status let_go();
  bool is_as_opened();  // as far as size and times tell
  void drop_anchor();
  // To load from; nothing where all is in memory.
  Result<std::optional<os::InputFile>> open_again();
  void set_report(LoadReport done);
  void report_nothing_done(const LoadOptions& options, LoadWay way, std::string reason);
};

namespace {

// Memory to read into, if there is so much. `hint`: what takes less.
Result<os::Mapping> memory_for(std::uint64_t bytes, MemoryClaim& claim,
                               const char* hint = "mapped, it needs none of it") {
  claim = MemoryClaim(bytes);
  if (!claim.fits())
    return Error(Code::limit, "the file does not fit into memory")
        .found(std::to_string(bytes) + " bytes")
        .expected("at most " + std::to_string(claim.memory().available) + ", which " +
                  claim.memory().source + " has available")
        .hint(hint);
  return os::Mapping::anonymous(bytes);
}

// How much of a front of `begin` bytes is likely not padding. Not proven yet: a hint.
std::uint64_t used_bytes(const disk::Header& header, std::uint64_t begin) {
  constexpr std::uint64_t kSections = 4096;  // room for any number of known ones
  const bool in_front = header.section_offset > 0 && header.section_offset < begin;
  return in_front ? std::min(begin, header.section_offset + kSections) : begin;
}

ViewOptions view_options(const OpenOptions& options) {
  return {.validation = options.validation,
          .unsealed = options.unsealed,
          .unknown_dtypes = options.unknown_dtypes,
          .max_metadata_bytes = options.max_metadata_bytes};
}

}  // namespace

Status Model::Backing::map(const os::InputFile& file, std::uint64_t front_bytes,
                           const OpenOptions& options) {
  front = front_bytes;
  WEIG_TRY(map_or_read(file, options.part == Part::metadata ? front_bytes : file.size(),
                       options));
  const bool small = front_bytes <= kSmallFront;
  // Else a fault in it would read what lies around, in small pages that stay small.
  if (small && !own_memory)
    mapping.expect_random(0, std::min(front_bytes, mapping.size()));
  if (options.huge_pages == HugePages::advise && !own_memory &&
      !mapping.advise_huge(small ? kSmallFront : 0))
    warnings.push_back("the system refuses huge pages (MADV_HUGEPAGE)");
  return {};
}

Status Model::Backing::map_or_read(const os::InputFile& file, std::uint64_t length,
                                   const OpenOptions& options) {
  if (decision.choice.way != LoadWay::read) {
    auto mapped = os::Mapping::of_file(file, length);
    if (mapped) {
      mapping = *std::move(mapped);
      return {};
    }
    if (options.load.fallback == Fallback::refuse ||
        mapped.error().code() == Code::no_memory)
      return std::move(mapped).error();
    warnings.push_back(mapped.error().fields().what +
                       ": it is read into memory instead");
    decision.choice.way = LoadWay::read;
    decision.choice.reason = "the file cannot be mapped";
    decision.resident = os::resident_bytes(file);
  }
  WEIG_TRY_ASSIGN(memory, memory_for(length, claim));
  mapping = std::move(memory);
  own_memory = true;
  claim.fill(front);
  return file.read(0, mapping.writable().first(front));
}

// Reads the data into memory of our own, and changes its byte order to this machine's.
Status Model::Backing::swap(const os::InputFile& file, const Progress& progress,
                            View& view) {
  constexpr std::uint64_t kStep = std::uint64_t{8} << 20;
  MemoryClaim own_claim;
  WEIG_TRY_ASSIGN(image, memory_for(file.size(), own_claim,
                                    "'weig convert' needs little, and makes a file "
                                    "that is mapped"));
  const std::uint64_t begin = view.data_begin();
  for (std::uint64_t at = begin; at < file.size(); at += kStep) {
    const std::uint64_t length = std::min(kStep, file.size() - at);
    WEIG_TRY(file.read(at, image.writable().subspan(at, length)));
    own_claim.fill(length);
    if (!goes_on(progress, at + length - begin, file.size() - begin))
      return Error(Code::cancelled, "loading was stopped");
  }
  WEIG_TRY(swap_elements(view, image.writable()));
  WEIG_TRY(image.make_read_only());
  if (own_memory) WEIG_TRY(mapping.make_read_only());
  swapped = std::move(image);
  detail::ViewAccess::use_native_data(view, swapped.data());
  return {};
}

Result<View> Model::Backing::claim_weig(const os::InputFile& file, Bytes first,
                                        const OpenOptions& options) {
  const ViewOptions rules = view_options(options);
  WEIG_TRY(check_header(first, file.size(), rules));
  const disk::Header header = load_header(first);
  const bool sealed = (header.flags & disk::kFlagSealed) != 0;
  format = sealed ? FileFormat::weig : FileFormat::weig_minimal;

  std::array<std::byte, sizeof(disk::Trailer)> trailer{};
  if (sealed && file.size() >= trailer.size())
    WEIG_TRY(file.read(file.size() - trailer.size(), trailer));
  // Not proven yet: no more than a length to map, at most the file's.
  const std::uint64_t begin =
      std::clamp<std::uint64_t>(header.data_offset, sizeof(disk::Header), file.size());
  if (begin <= kSmallFront && options.validation == Validation::full)
    file.will_need(0, used_bytes(header, begin));
  const bool swaps = needs_swap(ByteOrder::little, options);
  WEIG_TRY(map(file, swaps ? file.size() : begin, options));
  // Proven below, on several threads if it is worth it.
  ViewOptions lazy = rules;
  lazy.validation = Validation::lazy;
  WEIG_TRY_ASSIGN(
      view, detail::ViewAccess::open(
                {.front = mapping.bytes(),
                 .trailer = trailer,
                 .file_size = file.size(),
                 .data = options.part == Part::everything ? mapping.data() : nullptr},
                lazy));
  if (options.validation == Validation::full || swaps)
    WEIG_TRY(detail::ViewAccess::check_structure(view, run_in_parallel));
  if (swaps) WEIG_TRY(swap(file, options.load.progress, view));
  return std::move(view);
}

Result<View> Model::Backing::claim_foreign(const Manifest& manifest,
                                           const OpenOptions& options) {
  metadata = manifest.metadata;
  const std::byte* data = options.part == Part::everything ? mapping.data() : nullptr;
  return detail::ViewAccess::open(claim_manifest(manifest, data, core),
                                  view_options(options));
}

Result<View> Model::Backing::claim_big_endian(const os::InputFile& file,
                                              const OpenOptions& options) {
  format = FileFormat::weig_big_endian;
  WEIG_TRY(map(file, file.size(), options));
  WEIG_TRY_ASSIGN(manifest,
                  read_big_endian(mapping.bytes(), file.size(), view_options(options)));
  WEIG_TRY_ASSIGN(view, claim_foreign(manifest, options));
  if (needs_swap(ByteOrder::big, options))
    WEIG_TRY(swap(file, options.load.progress, view));
  return std::move(view);
}

Result<View> Model::Backing::claim_safetensors(const os::InputFile& file, Bytes first,
                                               const OpenOptions& options) {
  format = FileFormat::safetensors;
  const SafetensorsOptions limits{.strictness = Strictness::strict,
                                  .max_header_bytes = options.max_header_bytes};
  WEIG_TRY_ASSIGN(length, safetensors_json_bytes(first, file.size(), limits));
  std::vector<std::byte> header(length + kJsonPadding);
  WEIG_TRY(file.read(sizeof length, MutableBytes(header).first(length)));
  WEIG_TRY_ASSIGN(manifest, read_safetensors(header, length, file.size(), limits));
  const bool swaps = needs_swap(ByteOrder::little, options);
  WEIG_TRY(map(file, swaps ? file.size() : manifest.data_begin, options));
  WEIG_TRY_ASSIGN(view, claim_foreign(manifest, options));
  if (swaps) WEIG_TRY(swap(file, options.load.progress, view));
  return std::move(view);
}

void Model::Backing::report_nothing_done(const LoadOptions& options, LoadWay way,
                                         std::string reason) {
  LoadReport done;
  done.asked = options.way;
  done.way = way;
  done.reason = std::move(reason);
  done.warnings = warnings;
  set_report(std::move(done));
}

void Model::Backing::set_report(LoadReport done) {
  // Not while holding what its callback may wait for.
  if (loader) loader->stop();
  const std::lock_guard lock(mutex);
  loader.reset();
  report = std::move(done);
}

Status Model::Backing::load(os::InputFile file, const LoadOptions& options, Fill fill,
                            Return when) {
  if (swapped.size() > 0) {
    report_nothing_done(options, LoadWay::read,
                        "opening has converted the file to this machine's byte order");
    return {};
  }
  if (decision.choice.way == LoadWay::map) {
    report_nothing_done(options, LoadWay::map, decision.choice.reason);
    return {};
  }
  // Not own_memory: the guard may set that at any moment.
  const bool fills = fill == Fill::own_memory;
  auto loading = std::make_shared<Loader>(std::move(file), mapping,
                                          fills ? mapping.data() : nullptr,
                                          fills ? front : 0, options, decision);
  fills ? loading->count_in(claim) : loading->expect_replacement(own_memory);
  {
    const std::lock_guard lock(mutex);
    loader = std::move(loading);
  }
  for (const std::string& warning : warnings) loader->warn(warning);
  if (!fills && when == Return::at_once) return loader->start();
  WEIG_TRY(loader->run());
  return fills ? mapping.make_read_only() : Status();
}

Status Model::Backing::load_in_place_of_mapping(os::InputFile file,
                                                const LoadOptions& options) {
  MemoryClaim own_claim;
  WEIG_TRY_ASSIGN(memory, memory_for(mapping.size(), own_claim));
  Loader reading(std::move(file), memory, memory.data(), 0, options, decision);
  reading.count_in(own_claim);
  const Status status = reading.run();
  if (own_memory) {  // meanwhile the guard has copied the file, and let it go
    report_nothing_done(options, LoadWay::read, "all is in memory already");
    return {};
  }
  set_report(reading.report());
  WEIG_TRY(status);
  WEIG_TRY(memory.make_read_only());
  if (guard) return guard->adopt(std::move(memory));
  WEIG_TRY(mapping.replace_with(std::move(memory)));
  own_memory = true;
  return let_go();
}

Decision Model::Backing::choose(const os::InputFile& file,
                                const OpenOptions& options) const {
  // Whom a guard was to hold off, memory of our own keeps out as well.
  const bool must_read =
      wish == Guard::required && !guard && options.load.way == LoadWay::automatic;
  if (!must_read) return decide(file, options.load);
  LoadOptions read = options.load;
  read.way = LoadWay::read;
  Decision reads = decide(file, read);
  reads.choice.reason = "a guard is required, and there can be none: " + why_no_guard;
  return reads;
}

bool Model::Backing::is_as_opened() {
  const std::lock_guard lock(mutex);
  return anchor && os::stamp_of(anchor) == stamp;
}

Status Model::Backing::let_go() {
  bool unchanged = true;
  if (guard) {
    unchanged = guard->close();
    guard.reset();
  } else if (wish != Guard::off) {
    unchanged = is_as_opened();
  }
  claim = {};
  if (own_memory) drop_anchor();
  const std::lock_guard lock(mutex);
  if (wish != Guard::off) why_no_guard = "the weights are in the process's own memory";
  if (unchanged) return {};
  return Error(Code::corrupt, "the file was changed while it was read");
}

void Model::Backing::drop_anchor() {
  const std::lock_guard lock(mutex);
  anchor = {};
}

Result<std::optional<os::InputFile>> Model::Backing::open_again() {
  const std::lock_guard lock(mutex);  // the guard drops the anchor when it has a copy
  if (own_memory) return std::optional<os::InputFile>();
  if (!anchor) return Error(Code::unsupported, "loading later needs /proc");
  WEIG_TRY_ASSIGN(file, os::InputFile::open_again(anchor, path));
  return std::optional(std::move(file));
}

Model::Model(View view, std::unique_ptr<Backing> backing)
    : View(std::move(view)), backing_(std::move(backing)) {}
Model::Model(Model&&) noexcept = default;
Model& Model::operator=(Model&&) noexcept = default;
Model::~Model() = default;

namespace {

// While the model is being loaded, if it is: by `loader`.
Status check_digests(Model& model, Loader* loader, const OpenOptions& options) {
  if (model.size() > 0) {
    const auto digest = model.digest(0);
    if (!digest) return Error(digest.error()).file(model.path());
    if (!*digest)
      return Error(Code::unsupported, "the file has no digests to verify")
          .file(model.path());
  }
  const bool is_loading = model.load_report().way != LoadWay::map;
  const auto goes_on_as_asked = [&](std::uint64_t done, std::uint64_t total) {
    if (is_loading) return !model.load_report().error;  // which says more
    return goes_on(options.load.progress, done, total);
  };
  const auto report = verify(model, {.threads = options.load.threads,
                                     .progress = goes_on_as_asked,
                                     .tensors = {},
                                     .on_damage = OnDamage::stop});
  const bool damaged = report && !report->sound();
  if (damaged && loader) loader->stop();  // what is left of a bad file nobody needs
  const LoadReport load = model.wait() ? LoadReport() : model.load_report();
  // A cut file looks damaged as well.
  if (load.error && !(damaged && load.error->code() == Code::cancelled))
    return *load.error;
  if (!report) return report.error();
  if (report->sound()) return {};
  return Error(report->damages.front().error)
      .hint("weig verify lists all that is damaged");
}

}  // namespace

Result<Model> Model::open(const std::string& path, const OpenOptions& options) {
  if (load_way_name(options.load.way) == "unknown")
    return Error(Code::invalid_argument, "no such way to load").file(path);
  if (options.part == Part::metadata && options.load.way != LoadWay::map)
    return Error(Code::invalid_argument,
                 "opened for metadata only, a model has nothing to load")
        .file(path);
  WEIG_TRY_ASSIGN(file, os::InputFile::open(path));
  auto backing = std::make_unique<Backing>();
  backing->path = path;
  backing->stamp = file.stamp();
  if (backing->stamp.size != file.size())  // which was asked for before
    return Error(Code::corrupt, "the file was changed while it was opened").file(path);
  backing->wish = options.guard;
  std::optional<Error> no_guard;
  if (options.guard != Guard::off) {
    auto guard = FileGuard::take(file, backing->stamp, options.guard);
    if (guard)
      backing->guard = *std::move(guard);
    else if (guard.error().code() == Code::corrupt)
      return std::move(guard).error().file(path);
    else
      backing->why_no_guard = no_guard.emplace(guard.error()).message();
  }
  const auto claim = [&]() -> Result<View> {
    file.expect_random();
    std::array<std::byte, kSniffBytes> bytes{};
    const auto first =
        MutableBytes(bytes).first(std::min<std::uint64_t>(bytes.size(), file.size()));
    WEIG_TRY(file.read(0, first));
    WEIG_TRY_ASSIGN(content, sniff(first, file.size()));
    if (options.part == Part::everything)
      backing->decision = backing->choose(file, options);
    switch (content) {
      case Content::weig:
        return backing->claim_weig(file, first, options);
      case Content::weig_big_endian:
        return backing->claim_big_endian(file, options);
      case Content::safetensors:
        break;
    }
    return backing->claim_safetensors(file, first, options);
  };
  auto view = claim();
  if (!view) return std::move(view).error().file(path);
  backing->anchor = file.anchor();
  const auto fill =
      backing->own_memory ? Backing::Fill::own_memory : Backing::Fill::mapping;
  const bool copied = fill == Backing::Fill::own_memory || !backing->uses_mapping();
  // Memory of our own needs no guard, if the file does not change before it is filled.
  if (no_guard && options.guard == Guard::required && !copied)
    return std::move(*no_guard).file(path);
  if (backing->guard && !copied)
    backing->guard->protect(backing->mapping, backing->own_memory,
                            [b = backing.get()] { b->drop_anchor(); });
  const bool verifies = options.verify == Verify::digests;
  const auto when = verifies || backing->decision.choice.way == LoadWay::stream
                        ? Backing::Return::at_once
                        : Backing::Return::when_loaded;
  if (auto loaded = backing->load(std::move(file), options.load, fill, when); !loaded)
    return std::move(loaded).error().file(path);
  if (copied)
    if (auto whole = backing->let_go(); !whole)
      return std::move(whole).error().file(path);
  Loader* const loader = backing->loader.get();
  Model model(*std::move(view), std::move(backing));
  if (verifies) WEIG_TRY(check_digests(model, loader, options));
  return model;
}

Result<LoadReport> Model::load(const LoadOptions& options) {
  Backing& backing = *backing_;
  // What fails before a loader runs is reported as well.
  const auto failed = [&](Error error) {
    Error named = std::move(error).file(backing.path);
    LoadReport report = load_report();
    if (!report.error) {
      report = {};
      report.asked = options.way;
      report.error = named;
      backing.set_report(std::move(report));
    }
    return named;
  };
  backing.set_report({});  // stops what is still running
  if (backing.mapping.size() < file_size())
    return failed(Error(Code::invalid_argument,
                        "opened for metadata only, the model has nothing to load"));
  auto opened = backing.open_again();
  if (!opened) return failed(std::move(opened).error());
  if (!*opened) {
    backing.report_nothing_done(options, LoadWay::read, "all is in memory already");
    return load_report();
  }
  os::InputFile& file = **opened;
  if (file.size() < file_size() && !backing.own_memory)
    return failed(Error(Code::corrupt, "the file was cut since it was opened")
                      .found(file.size())
                      .expected(file_size()));
  backing.decision = decide(file, options);
  const bool replaces =
      backing.decision.choice.way == LoadWay::read && backing.uses_mapping();
  Status status = replaces
                      ? backing.load_in_place_of_mapping(std::move(file), options)
                      : backing.load(std::move(file), options, Backing::Fill::mapping,
                                     backing.decision.choice.way == LoadWay::stream
                                         ? Backing::Return::at_once
                                         : Backing::Return::when_loaded);
  if (!status) return failed(std::move(status).error());
  return load_report();
}

Result<LoadReport> Model::wait() {
  if (backing_->loader) static_cast<void>(backing_->loader->wait());
  LoadReport report = load_report();
  if (report.error) return *report.error;
  return report;
}

LoadReport Model::load_report() const {
  std::shared_ptr<Loader> loader;
  {
    const std::lock_guard lock(backing_->mutex);
    if (!backing_->loader) return backing_->report;
    loader = backing_->loader;
  }
  return loader->report();
}

bool Model::is_view(const Tensor& tensor) const noexcept {
  return tensor.has_data() && !backing_->own_memory && backing_->swapped.size() == 0;
}

GuardReport Model::guard_report() const {
  if (backing_->guard) return backing_->guard->report();
  GuardReport none;
  const std::lock_guard lock(backing_->mutex);
  none.reason = backing_->why_no_guard;
  return none;
}

Result<FileChange> Model::changed() const {
  auto now = os::stamp_of(backing_->path);
  if (!now) return std::move(now).error().file(backing_->path);
  if (!*now) return FileChange::removed;
  if ((*now)->id != backing_->stamp.id || (*now)->born != backing_->stamp.born)
    return FileChange::replaced;
  return **now == backing_->stamp ? FileChange::none : FileChange::modified;
}

const std::string& Model::path() const& noexcept { return backing_->path; }
FileFormat Model::format() const noexcept { return backing_->format; }

Result<std::optional<std::string_view>> Model::metadata_text() const& {
  if (!backing_->metadata) return View::metadata_text();
  return std::optional<std::string_view>(*backing_->metadata);
}

Result<Metadata> Model::metadata() const {
  WEIG_TRY_ASSIGN(text, metadata_text());
  if (!text) return Metadata();
  auto parsed = Metadata::parse(*text, {.max_bytes = text->size()});
  if (!parsed) return std::move(parsed).error().file(backing_->path);
  return parsed;
}

std::span<const std::byte> Model::mapped() const& noexcept {
  return backing_->mapping.bytes();
}

}  // namespace weig
