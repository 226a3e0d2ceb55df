// SPDX-License-Identifier: Apache-2.0
// Writer: data first, in file order; then the front, whose digests are now known; then,
// when all of that is on disk, the trailer; then the name (docs/format.md, "Writing").
#include <weig/metadata.h>
#include <weig/writer.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include "core/byteswap.h"
#include "core/claim.h"
#include "core/digest.h"
#include "core/layout.h"
#include "core/text.h"
#include "core/try.h"
#include "store/sink.h"

namespace weig {

struct Writer::Impl {
  Impl(std::unique_ptr<Sink> a_sink, Plan a_plan, Front a_front)
      : sink(std::move(a_sink)),
        plan(std::move(a_plan)),
        front(std::move(a_front)),
        digests(plan.size()) {
    pieces.emplace(*sink, front.data_offset);
  }

  std::unique_ptr<Sink> sink;
  Plan plan;
  Front front;
  // Until all data is written; after `sink`: its thread ends before the sink does.
  std::optional<PieceWriter> pieces;
  std::vector<Digest> digests;
  Hasher hasher;
  std::uint32_t ordinal = 0;      // the tensor being written
  std::uint64_t done = 0;         // bytes of it
  std::optional<Digest> file_id;  // of a sealed file
  Status outcome;                 // the first failure sticks

  Error fail(Error error) {
    outcome = error;
    return error;
  }
  // A result, whose failure sticks.
  template <typename T>
  Result<T> keep(Result<T> result) {
    if (!result) outcome = result.error();
    return result;
  }

  std::uint64_t trailer_at() const { return front.file_size - sizeof(disk::Trailer); }

  // Moves on to the next tensor that wants bytes: closes what is full, pads up to what
  // comes, and answers for aliases and empty tensors.
  Status settle() {
    const auto count = static_cast<std::uint32_t>(plan.size());
    while (ordinal < count &&
           (plan.is_alias(ordinal) || done == plan.byte_count(ordinal))) {
      if (plan.is_alias(ordinal)) {
        digests[ordinal] = digests[ordinal - 1];
      } else {
        digests[ordinal] = hasher.digest();
        hasher.reset();
      }
      done = 0;
      ++ordinal;
    }
    if (ordinal < count && done == 0)
      WEIG_TRY(pieces->append_zeros(front.data_offset + plan.offset(ordinal) -
                                    pieces->offset()));
    return {};
  }

  // All data is there: writes what is left of it.
  Status complete_data() {
    WEIG_TRY(settle());
    if (ordinal < plan.size())
      return Error(Code::invalid_argument,
                   "the planned tensors have more bytes than came")
          .found("record " + std::to_string(ordinal) + " after " +
                 std::to_string(done) + " bytes")
          .expected(plan.byte_count(ordinal));
    if (!pieces) return {};
    WEIG_TRY(pieces->append_zeros(trailer_at() - pieces->offset()));
    WEIG_TRY(pieces->finish());
    pieces.reset();
    return {};
  }

  Result<Digest> seal() {
    WEIG_TRY(complete_data());
    const auto trailer = weig::seal(front, digests);
    WEIG_TRY(write_in_cuts(*sink, 0, front.bytes));
    WEIG_TRY(sink->sync());
    WEIG_TRY(sink->write(trailer_at(), trailer));
    WEIG_TRY(sink->sync());
    file_id = Digest{load<std::uint64_t>(trailer.data() + 16),
                     load<std::uint64_t>(trailer.data() + 24)};
    return *file_id;
  }

  // The section's bytes in the front, or nothing where there is none of that kind.
  std::optional<MutableBytes> section(disk::SectionKind kind) {
    const disk::Header header = load_header(front.bytes);
    for (std::uint64_t i = 0; i < header.section_count; ++i) {
      const disk::SectionEntry entry = load_section(
          front.bytes.data() + header.section_offset + i * sizeof(disk::SectionEntry));
      if (entry.kind == static_cast<std::uint32_t>(kind))
        return MutableBytes(front.bytes).subspan(entry.offset, entry.size);
    }
    return std::nullopt;
  }
};

namespace {

// What a reader would say of it.
Error bad_argument(const Error& why) {
  return Error(Code::invalid_argument, why.fields().what)
      .found(why.fields().found)
      .expected(why.fields().expected);
}

// Nobody could read it, and the seal would cover it.
Status check_metadata(std::span<const SectionBytes> sections) {
  for (const SectionBytes& section : sections) {
    if (section.kind != disk::SectionKind::metadata) continue;
    const std::string_view text = text_of(section.bytes);
    const auto metadata = Metadata::parse(text, {.max_bytes = text.size()});
    if (!metadata) return bad_argument(metadata.error());
  }
  return {};
}

// That a reader will take what the caller's sections make of the file.
Status check_front(Front front, std::size_t tensors) {
  const auto trailer = seal(front, std::vector<Digest>(tensors));
  const auto view = detail::ViewAccess::open(
      {.front = front.bytes, .trailer = trailer, .file_size = front.file_size},
      {.max_metadata_bytes = UINT64_MAX});
  if (!view) return bad_argument(view.error());
  if (const auto sections = view->check_sections(); !sections)
    return bad_argument(sections.error());
  return {};
}

}  // namespace

Writer::Writer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Writer::Writer(Writer&&) noexcept = default;
Writer& Writer::operator=(Writer&&) noexcept = default;
Writer::~Writer() = default;

Result<Writer> Writer::create(const std::string& path,
                              std::span<const TensorSpec> specs, const Plan& plan,
                              WriterOptions options) {
  WEIG_TRY_ASSIGN(sink, file_sink(path, options.existing, options.permissions));
  return create(std::move(sink), specs, plan, std::move(options));
}

Result<Writer> Writer::create(std::unique_ptr<Sink> sink,
                              std::span<const TensorSpec> specs, const Plan& plan,
                              WriterOptions options) {
  WEIG_TRY_ASSIGN(front, build_front(specs, plan, options.sections));
  if (!options.sections.empty()) {
    WEIG_TRY(check_metadata(options.sections));
    WEIG_TRY(check_front(front, plan.size()));
  }
  WEIG_TRY(sink->reserve(front.file_size));
  return Writer(std::make_unique<Impl>(std::move(sink), plan, std::move(front)));
}

Result<std::span<std::byte>> Writer::space() {
  if (!impl_->outcome) return impl_->outcome.error();
  if (auto status = impl_->settle(); !status)
    return impl_->fail(std::move(status).error());
  if (impl_->ordinal == impl_->plan.size()) return std::span<std::byte>();
  auto room = impl_->pieces->space();
  if (!room) return impl_->fail(std::move(room).error());
  const std::uint64_t left = impl_->plan.byte_count(impl_->ordinal) - impl_->done;
  return room->first(std::min<std::uint64_t>(room->size(), left));
}

Status Writer::advance(std::size_t bytes) {
  if (!impl_->outcome) return impl_->outcome;
  WEIG_TRY_ASSIGN(room, space());
  if (bytes > room.size())
    return impl_->fail(
        Error(Code::invalid_argument, "more bytes than there was space for")
            .found(bytes)
            .expected(room.size()));
  if (bytes == 0) return {};
  impl_->hasher.update(room.first(bytes));
  impl_->done += bytes;
  if (auto status = impl_->pieces->advance(bytes); !status)
    return impl_->fail(std::move(status).error());
  return {};
}

Status Writer::append(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    WEIG_TRY_ASSIGN(room, space());
    if (room.empty())
      return impl_->fail(
          Error(Code::invalid_argument, "more bytes than the planned tensors have"));
    const std::size_t size = std::min(room.size(), bytes.size());
    std::memcpy(room.data(), bytes.data(), size);
    WEIG_TRY(advance(size));
    bytes = bytes.subspan(size);
  }
  return {};
}

Result<std::span<const Digest>> Writer::digests() & {
  WEIG_TRY(impl_->outcome);
  WEIG_TRY(impl_->keep(impl_->complete_data()));
  return std::span<const Digest>(impl_->digests);
}

Status Writer::replace_section(const SectionBytes& section) {
  WEIG_TRY(impl_->outcome);
  const auto place = impl_->section(section.kind);
  if (!place || place->size() != section.bytes.size() || impl_->file_id)
    return impl_->fail(Error(Code::invalid_argument,
                             "the file has no section of this kind and size, or is "
                             "sealed")
                           .found(static_cast<std::uint32_t>(section.kind)));
  std::ranges::copy(section.bytes, place->begin());
  return {};
}

Result<Digest> Writer::seal() {
  WEIG_TRY(impl_->outcome);
  if (impl_->file_id) return *impl_->file_id;
  return impl_->keep(impl_->seal());
}

Status Writer::publish() {
  WEIG_TRY(impl_->outcome);
  if (!impl_->file_id)
    return impl_->fail(Error(Code::invalid_argument, "the file is not sealed yet"));
  WEIG_TRY(impl_->keep(impl_->sink->publish()));
  impl_->outcome = Error(Code::invalid_argument, "the file is finished already");
  return {};
}

void Writer::retract() noexcept { impl_->sink->retract(); }

Result<Digest> Writer::finish() {
  WEIG_TRY_ASSIGN(file_id, seal());
  WEIG_TRY(publish());
  return file_id;
}

std::uint64_t Writer::file_size() const noexcept { return impl_->front.file_size; }

namespace {

// Elements in this machine's byte order.
Status append_elements(Writer& writer, Bytes bytes, Dtype dtype) {
  const std::uint32_t unit = dtype_info(dtype)->swap_unit;
  if (kNativeOrder == ByteOrder::little || unit == 1) return writer.append(bytes);
  while (!bytes.empty()) {
    WEIG_TRY_ASSIGN(room, writer.space());
    if (room.empty()) return writer.append(bytes);  // which says that there is no more
    // It ends at a multiple of 64 or with the tensor: never inside an element.
    const MutableBytes part = room.first(std::min(room.size(), bytes.size()));
    std::memcpy(part.data(), bytes.data(), part.size());
    swap_in_place(part, unit);
    WEIG_TRY(writer.advance(part.size()));
    bytes = bytes.subspan(part.size());
  }
  return {};
}

}  // namespace

Result<Digest> save(const std::string& path, std::span<const TensorData> tensors,
                    std::string_view metadata, Existing existing) {
  std::vector<TensorSpec> specs;
  specs.reserve(tensors.size());
  for (const TensorData& tensor : tensors) specs.push_back(tensor.spec);
  WEIG_TRY_ASSIGN(plan, Plan::make(specs));
  for (std::uint32_t ordinal = 0; ordinal < plan.size(); ++ordinal) {
    const TensorData& tensor = tensors[plan.order()[ordinal]];
    if (tensor.bytes.size() != plan.byte_count(ordinal))
      return Error(Code::invalid_argument,
                   "the bytes given differ from dtype and shape")
          .tensor(tensor.spec.name)
          .found(tensor.bytes.size())
          .expected(plan.byte_count(ordinal));
    if (!plan.is_alias(ordinal)) continue;
    // Of those that share bytes, the one before.
    const Bytes stored = tensors[plan.order()[ordinal - 1]].bytes;
    if (stored.data() != tensor.bytes.data() &&
        !std::ranges::equal(stored, tensor.bytes))
      return Error(Code::invalid_argument, "tensors that share bytes are given others")
          .tensor(tensor.spec.name);
  }
  WriterOptions options{.existing = existing, .sections = {}, .permissions = 0666};
  if (!metadata.empty()) {
    const Bytes bytes = bytes_of(metadata);
    options.sections.push_back(
        {disk::SectionKind::metadata, std::vector(bytes.begin(), bytes.end())});
  }
  WEIG_TRY_ASSIGN(writer, Writer::create(path, specs, plan, std::move(options)));
  for (std::uint32_t ordinal = 0; ordinal < plan.size(); ++ordinal)
    if (!plan.is_alias(ordinal)) {
      const TensorData& tensor = tensors[plan.order()[ordinal]];
      WEIG_TRY(append_elements(writer, tensor.bytes, tensor.spec.dtype));
    }
  return writer.finish();
}

}  // namespace weig
