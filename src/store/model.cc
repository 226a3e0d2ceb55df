// SPDX-License-Identifier: Apache-2.0
// Model: from a path to an open model, and what it tells.
#include <weig/model.h>
#include <weig/verify.h>

#include <algorithm>
#include <array>
#include <utility>

#include "core/progress.h"
#include "core/try.h"
#include "formats/sniff.h"
#include "formats/zip_content.h"
#include "store/backing.h"

namespace weig {

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
    case FileFormat::gguf:
      return "GGUF";
  }
  return "unknown";
}

Model::Model(View view, std::unique_ptr<Backing> backing)
    : View(std::move(view)), backing_(std::move(backing)) {}
Model::Model(Model&&) noexcept = default;
Model& Model::operator=(Model&&) noexcept = default;
Model::~Model() = default;

namespace {

// What there is to check; nothing where that is all.
std::optional<std::vector<std::uint32_t>> mapped_tensors(const Model& model,
                                                         const Parts& only) {
  if (only.empty()) return {};
  std::vector<std::uint32_t> mapped;
  for (const Result<Tensor>& tensor : model.tensors())
    if (tensor && tensor->has_data()) mapped.push_back(tensor->ordinal());
  return mapped;
}

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
                                     .tensors = mapped_tensors(model, options.only),
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

// What is wrong with an archive, or what else it is, is said before what to do.
Result<ZipContent> look_into_zip(const os::InputFile& file) {
  const Input input{.size = file.size(),
                    .read = [&file](std::uint64_t offset, MutableBytes out) {
                      return file.read(offset, out);
                    }};
  WEIG_TRY_ASSIGN(members, read_zip(input));
  return sniff_zip(members);
}

Error convert_first(const std::string& what, const std::string& path) {
  return Error(Code::unsupported, what + " cannot be used as it is")
      .hint("convert it first: weig convert " + path);
}

}  // namespace

Result<Model> Model::open(const std::string& path, const OpenOptions& options) {
  if (options.part == Part::metadata && options.load.way != LoadWay::map)
    return Error(Code::invalid_argument,
                 "opened for metadata only, a model has nothing to load")
        .file(path);
  if (options.part == Part::metadata && !options.only.empty())
    return Error(Code::invalid_argument,
                 "opened for metadata only, a model maps no parts of the data")
        .file(path);
  if (auto proper = check_load_options(options.load); !proper)
    return std::move(proper).error().file(path);
  WEIG_TRY_ASSIGN(file, os::InputFile::open(path));
  auto claimed = std::make_unique<Backing>();
  Backing* const backing = claimed.get();
  backing->path = path;
  backing->stamp = file.stamp();
  if (backing->stamp.size != file.size())  // which was asked for before
    return Error(Code::corrupt, "the file was changed while it was opened").file(path);
  backing->wish = options.guard;
  backing->max_writable = options.max_writable_bytes;
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
    const auto content = sniff(first, file.size());
    if (!content) return with_end(content.error(), file);
    if (options.part == Part::everything)
      backing->decision = backing->choose(file, options);
    // What is mapped without a guard may be cut before all of it is proven.
    const auto order =
        *content == Content::weig_big_endian ? ByteOrder::big : ByteOrder::little;
    if (no_guard && options.guard == Guard::required && !needs_swap(order, options) &&
        backing->decision.choice.way != LoadWay::read)
      return std::move(*no_guard);
    switch (*content) {
      case Content::weig:
        return backing->claim_weig(file, first, options);
      case Content::weig_big_endian:
        return backing->claim_big_endian(file, options);
      case Content::gguf:
        return backing->claim_gguf(file, options);
      case Content::onnx:
        return Error(Code::unsupported, "an ONNX model cannot be used as it is")
            .hint("convert it first: weig convert " + path);
      case Content::safetensors:
        break;
      case Content::zip: {
        WEIG_TRY_ASSIGN(archive, look_into_zip(file));
        return convert_first(
            archive == ZipContent::npz ? "a NumPy archive" : "a PyTorch checkpoint",
            path);
      }
      case Content::torch_stream:
        return convert_first("a PyTorch checkpoint", path);
      case Content::npy:
        return convert_first("a NumPy array", path);
    }
    return backing->claim_safetensors(file, first, options);
  };
  auto view = claim();
  if (!view) return std::move(view).error().file(path);
  if (auto anchor = file.anchor()) backing->anchor = *std::move(anchor);
  const auto fill =
      backing->own_memory ? Backing::Fill::own_memory : Backing::Fill::mapping;
  const bool copied = fill == Backing::Fill::own_memory || !backing->uses_mapping();
  Model model(*std::move(view), std::move(claimed));
  WEIG_TRY_ASSIGN(unwanted, model.parts_without(options.only));
  if (!copied) WEIG_TRY(model.unmap(unwanted));
  // Memory of our own needs no guard, if the file does not change before it is filled.
  if (no_guard && options.guard == Guard::required && !copied)
    return std::move(*no_guard).file(path);
  if (backing->guard && !copied)
    backing->guard->protect(backing->mapping, backing->own_memory,
                            [backing] { backing->drop_anchor(); });
  const bool verifies = options.verify == Verify::digests;
  const auto when = verifies || backing->decision.choice.way == LoadWay::stream
                        ? Backing::Return::at_once
                        : Backing::Return::when_loaded;
  if (auto loaded = backing->load(std::move(file), options.load, fill, when); !loaded)
    return std::move(loaded).error().file(path);
  if (copied)
    if (auto whole = backing->let_go(); !whole)
      return std::move(whole).error().file(path);
  if (copied) WEIG_TRY(model.unmap(unwanted));
  Loader* const loader = backing->loader.get();
  if (verifies) WEIG_TRY(check_digests(model, loader, options));
  return model;
}

// Of the data, what does not belong to the parts that are wanted: nothing where all is.
Result<std::vector<FileRange>> Model::parts_without(const Parts& wanted) const {
  if (wanted.empty()) return std::vector<FileRange>();
  WEIG_TRY_ASSIGN(kept, ranges_of(*this, wanted));
  return without({data_begin(), data_end()}, kept);
}

Result<LoadReport> Model::load(const LoadOptions& options) {
  Backing& backing = *backing_;
  if (auto proper = check_load_options(options); !proper)
    return std::move(proper).error().file(backing.path);
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
  if (!backing.writable.empty() && backing.decision.choice.way == LoadWay::read)
    return failed(
        Error(Code::unsupported,
              "what was written in place would be lost in a copy of the file"));
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
    const auto locked = backing_->lock();
    if (!backing_->loader) return backing_->report;
    loader = backing_->loader;
  }
  return loader->report();
}

bool Model::is_view(const Tensor& tensor) const noexcept {
  return tensor.has_data() && !backing_->owns_data() &&
         tensor.data() == backing_->mapping.data() + tensor.data_offset();
}

GuardReport Model::guard_report() const {
  if (backing_->guard) return backing_->guard->report();
  GuardReport none;
  const auto locked = backing_->lock();
  none.reason = backing_->why_no_guard;
  return none;
}

Result<FileChange> Model::changed() const {
  auto now = os::stamp_of(backing_->path);
  if (!now) return std::move(now).error().file(backing_->path);
  if (!*now) return FileChange::removed;
  if ((*now)->id != backing_->stamp.id || (*now)->born != backing_->stamp.born)
    return FileChange::replaced;
  return (*now)->differs_from(backing_->stamp) ? FileChange::modified
                                               : FileChange::none;
}

Result<Tensor> Model::operator[](std::uint64_t ordinal) const& {
  auto tensor = View::operator[](ordinal);
  if (!tensor) return std::move(tensor).error().file(backing_->path);
  if (backing_->altered) backing_->alter(*tensor);
  return tensor;
}

Result<std::optional<Tensor>> Model::find(std::string_view name) const& {
  auto tensor = View::find(name);
  if (!tensor) return std::move(tensor).error().file(backing_->path);
  if (*tensor && backing_->altered) backing_->alter(**tensor);
  return tensor;
}

Result<Tensor> Model::tensor(std::string_view name) const& {
  auto tensor = View::tensor(name);
  if (!tensor) return std::move(tensor).error().file(backing_->path);
  if (backing_->altered) backing_->alter(*tensor);
  return tensor;
}

std::optional<std::string> Model::shared_path() const {
  const auto locked = backing_->lock_shared();
  return backing_->mapping.shared_path();
}

const std::string& Model::path() const& noexcept { return backing_->path; }
FileFormat Model::format() const noexcept { return backing_->format; }

Result<std::optional<std::string_view>> Model::metadata_text() const& {
  if (!backing_->metadata) return View::metadata_text();
  return std::optional<std::string_view>(*backing_->metadata);
}

Result<Metadata> Model::metadata() const {
  auto text = metadata_text();
  if (!text) return std::move(text).error().file(backing_->path);
  if (!*text) return Metadata();
  auto parsed = Metadata::parse(**text, {.max_bytes = (*text)->size()});
  if (!parsed) return std::move(parsed).error().file(backing_->path);
  return parsed;
}

std::span<const std::byte> Model::mapped() const& noexcept {
  return backing_->mapping.bytes();
}

}  // namespace weig
