// SPDX-License-Identifier: Apache-2.0
// Writer: streams tensors into a new WEIG file, which appears whole or not at all.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <weig/dtype.h>
#include <weig/error.h>
#include <weig/view.h>

namespace weig {

// A tensor to be written: everything but its bytes. Borrows name and shape, which must
// stay valid until Writer::create returns.
struct TensorSpec {
  std::string_view name;
  Dtype dtype{};
  std::span<const std::uint64_t> shape;  // slowest dimension first; empty for a scalar
  // Tensors with the same number here are one set of bytes under several names (tied
  // weights) and are stored once. They must agree in size, which must not be 0.
  std::uint32_t shares = kOwn;

  static constexpr std::uint32_t kOwn = 0xFFFFFFFF;
};

// Where everything goes in a file of these tensors: the order of the table and the
// place of each tensor's data (docs/format.md, "Layout"). Depends on nothing but the
// specs, and not on their order.
class Plan {
 public:
  // Fails with invalid_argument: a name twice, not UTF-8, with a NUL or above 65,535
  // bytes; a shape that the format refuses; sharing tensors of different sizes.
  static Result<Plan> make(std::span<const TensorSpec> specs);

  std::size_t size() const noexcept { return order_.size(); }
  // order()[ordinal] is an index into the specs.
  std::span<const std::uint32_t> order() const& noexcept WEIG_LIFETIMEBOUND {
    return order_;
  }
  std::span<const std::uint32_t> order() const&& = delete;
  // True where the tensor stores no bytes of its own: it has those of the one before.
  bool is_alias(std::uint32_t ordinal) const noexcept { return places_[ordinal].alias; }
  std::uint64_t byte_count(std::uint32_t ordinal) const noexcept {
    return places_[ordinal].size;
  }
  // Offset from the start of the data region.
  std::uint64_t offset(std::uint32_t ordinal) const noexcept {
    return places_[ordinal].offset;
  }
  // End of the last tensor, from the start of the data region.
  std::uint64_t data_bytes() const noexcept { return data_bytes_; }

  struct Run {
    std::string_view name;
    std::uint32_t first = 0;
    std::uint32_t count = 0;
  };
  std::span<const Run> groups() const& noexcept WEIG_LIFETIMEBOUND { return groups_; }
  std::span<const Run> groups() const&& = delete;

 private:
  struct Place {
    std::uint64_t offset = 0;
    std::uint64_t size = 0;
    bool alias = false;
  };
  std::vector<std::uint32_t> order_;
  std::vector<Place> places_;
  std::vector<Run> groups_;
  std::uint64_t data_bytes_ = 0;
};

// A section whose bytes the caller makes: metadata, source, quantization, shard, or a
// private kind. The name index, digests and groups are the Writer's own.
struct SectionBytes {
  disk::SectionKind kind{};
  std::vector<std::byte> bytes;
};

enum class Existing { refuse, replace };

struct WriterOptions {
  // What to do when the target is there already. Replacing keeps the old file's mode.
  Existing existing = Existing::refuse;
  // In ascending order of kind. What View::check_sections or Metadata::parse would
  // refuse is an invalid_argument.
  std::vector<SectionBytes> sections = {};
  // Of a new file, before the umask.
  std::uint32_t permissions = 0666;
};

class Sink;  // src/store/sink.h

// Writes one file. Nothing appears at `path` until finish() succeeds; after it does,
// the file is complete and survives a power failure. If finish() is not called, or
// fails, the target is untouched and the temporary file beside it is removed; one
// failure comes later, that to sync the folder: then the new file is there, complete.
// What a kill or a power failure leaves is named ".NAME.XXXXXXXX.part", and is no
// obstacle. A size limit (RLIMIT_FSIZE) is an error if the process ignores SIGXFSZ.
// Move-only; one thread at a time. Memory: the front of the file (about 110 bytes a
// tensor plus names), for a moment twice, and buffers of 16 MiB.
class Writer {
 public:
  // Reserves the space and starts. `specs` and `plan` belong together.
  static Result<Writer> create(const std::string& path,
                               std::span<const TensorSpec> specs, const Plan& plan,
                               WriterOptions options = {});
  // Tests put their own Sink below.
  static Result<Writer> create(std::unique_ptr<Sink> sink,
                               std::span<const TensorSpec> specs, const Plan& plan,
                               WriterOptions options = {});

  Writer(Writer&&) noexcept;
  Writer& operator=(Writer&&) noexcept;
  ~Writer();  // abandons what is not finished

  // The bytes of the tensors that own some, as they lie in the file (little-endian), in
  // file order, back to back, in pieces of any size. Padding is the Writer's affair.
  // Errors stick: after one, every call returns it.
  Status append(std::span<const std::byte> bytes);

  // The same without a copy: fill the first `n` bytes of space(), then advance(n).
  // Space never crosses the end of a tensor; it is empty when all data is there.
  Result<std::span<std::byte>> space();
  Status advance(std::size_t bytes);

  // Everything is there: seal, sync, publish. Returns the file's id.
  Result<Digest> finish();

  // finish() in steps, for files that belong together, such as the members of a set.
  // digests(): all data is there; the digests of all tensors, by ordinal, valid as long
  // as the Writer. From here on it keeps no buffers.
  Result<std::span<const Digest>> digests() & WEIG_LIFETIMEBOUND;
  // Puts other bytes into a section that was given to create(), as many as it has.
  Status replace_section(const SectionBytes& section);
  // Seals and syncs: all but the name. Returns the file's id.
  Result<Digest> seal();
  // Gives a sealed file its name; retract() takes it away again, if that was not
  // possible for all.
  Status publish();
  void retract() noexcept;

  std::uint64_t file_size() const noexcept;

 private:
  struct Impl;
  explicit Writer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// One tensor with its bytes in memory: elements in this machine's byte order, as a
// Model gives them.
struct TensorData {
  TensorSpec spec;
  std::span<const std::byte> bytes;
};

// Writes all of them in one call. `metadata` is the text of one JSON object
// (Metadata::text()), or empty for none. Fails as Plan and Writer do, and with
// invalid_argument where bytes do not fit a shape, or tensors that share them are given
// different ones.
Result<Digest> save(const std::string& path, std::span<const TensorData> tensors,
                    std::string_view metadata = {},
                    Existing existing = Existing::refuse);

}  // namespace weig
