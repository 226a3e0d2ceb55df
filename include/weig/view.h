// SPDX-License-Identifier: Apache-2.0
// View: a WEIG file in memory, claimed. Opening proves what docs/format.md demands;
// from then on tensors are addresses inside the caller's bytes. Nothing is parsed,
// copied or allocated per tensor.
//
// Lifetimes: everything handed out (names, data, section bytes) points into the bytes
// that the View was opened on, and is valid as long as they are. Shapes are copies.
// Threads: const methods may be called from several threads at once.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include <weig/dtype.h>
#include <weig/error.h>
#include <weig/format.h>
#include <weig/version.h>

namespace weig {

// When the rules of the format are proven (docs/format.md, "What a reader proves").
enum class Validation {
  full,  // all of them at open, in one linear pass
  lazy,  // header and trailer at open, a record when it is handed out, the rest before
         // the first "no such tensor": open takes the same time for any file
};

// Whether a minimal file (no seal, no sections, no digests) may be opened.
enum class Unsealed { refuse, accept };

// Whether a file with element types newer than this library may be opened. Accepted,
// such tensors are listed and give their bytes; what they mean is up to the caller.
enum class UnknownDtypes { refuse, accept };

struct ViewOptions {
  Validation validation = Validation::full;
  Unsealed unsealed = Unsealed::refuse;
  UnknownDtypes unknown_dtypes = UnknownDtypes::refuse;
  // Larger metadata is refused (Code::limit): parsers need several times its size.
  std::uint64_t max_metadata_bytes = std::uint64_t{256} << 20;
};

// XXH3-128, seed 0. Finds damage; does not stop a forger.
struct Digest {
  std::uint64_t low = 0;
  std::uint64_t high = 0;
  friend bool operator==(const Digest&, const Digest&) = default;
};

// Dimensions, or strides: at most 64 numbers, held in place.
class Shape {
 public:
  Shape() noexcept {
    for (std::uint32_t i = 0; i < kFew; ++i) numbers_[i] = 0;
  }
  explicit Shape(std::uint32_t rank) noexcept : Shape() { rank_ = rank; }
  Shape(const Shape& other) noexcept { copy(other); }
  Shape& operator=(const Shape& other) noexcept {
    if (this != &other) copy(other);
    return *this;
  }

  std::uint32_t rank() const noexcept { return rank_; }
  std::uint64_t operator[](std::size_t i) const noexcept { return numbers_[i]; }
  std::uint64_t& operator[](std::size_t i) noexcept WEIG_LIFETIMEBOUND {
    return numbers_[i];
  }
  std::span<const std::uint64_t> span() const& noexcept WEIG_LIFETIMEBOUND {
    return {numbers_, rank_};
  }
  std::span<const std::uint64_t> span() const&& = delete;
  // The numbers up to the new rank keep their values or are not yet set.
  void resize(std::uint32_t rank) noexcept { rank_ = rank; }

 private:
  // Nearly all ranks are small: copying eight numbers is a few moves, where a loop or a
  // copy of unknown length is a call.
  static constexpr std::uint32_t kFew = 8;
  static constexpr std::size_t kFewBytes = kFew * sizeof(std::uint64_t);
  void copy(const Shape& other) noexcept {
    rank_ = other.rank_;
    if (rank_ <= kFew) {
      std::memcpy(numbers_, other.numbers_, kFewBytes);
    } else {
      std::memcpy(numbers_, other.numbers_, rank_ * sizeof(std::uint64_t));
    }
  }

  std::uint32_t rank_ = 0;
  std::uint64_t numbers_[disk::kMaxRank];
};

namespace detail {
struct ViewAccess;  // src/core/claim.h: how the library's own layers make Views
}  // namespace detail

// One tensor: a checked copy of its record. Cheap to copy. name() and the data point
// into the file's bytes; shape() points into this object.
class Tensor {
 public:
  std::string_view name() const noexcept { return name_; }
  Dtype dtype() const noexcept { return dtype_; }
  // Place in the table, which is the order of the data in the file.
  std::uint32_t ordinal() const noexcept { return ordinal_; }

  std::uint32_t rank() const noexcept { return shape_.rank(); }
  // Dimensions, slowest first (row-major); empty for a scalar.
  std::span<const std::uint64_t> shape() const& noexcept WEIG_LIFETIMEBOUND {
    return shape_.span();
  }
  std::span<const std::uint64_t> shape() const&& = delete;
  // Row-major strides, counted in elements.
  Shape strides() const noexcept;
  std::uint64_t element_count() const noexcept;

  // Where the data lies: bytes from the start of the file, and how many.
  std::uint64_t data_offset() const noexcept { return data_offset_; }
  std::uint64_t byte_count() const noexcept { return byte_count_; }

  // The data in place. Null, and an empty span, where the data is not in memory (a
  // metadata-only open).
  bool has_data() const noexcept { return data_ != nullptr; }
  const std::byte* data() const noexcept { return data_; }
  std::span<const std::byte> bytes() const noexcept {
    return {data_, data_ ? static_cast<std::size_t>(byte_count_) : 0};
  }

  // The elements in place. T is the exact C++ type: float, double, the fixed-width
  // integers, Float16, BFloat16, std::complex<float|double>; uint8_t also for bool and
  // the fp8 family. Fails with invalid_argument for another T, and for data that is
  // not in memory or not aligned for T (possible in unsealed and foreign files only);
  // with unsupported, on a big-endian machine, for data that a View has in place (a
  // Model swaps it while opening).
  template <detail::Element T>
  Result<std::span<const T>> as() const {
    if (!detail::is_element_of<T>(dtype_)) return wrong_type();
    if (auto status = check_typed(alignof(T)); !status)
      return std::move(status).error();
    return std::span<const T>(static_cast<const T*>(static_cast<const void*>(data_)),
                              static_cast<std::size_t>(byte_count_ / sizeof(T)));
  }

 private:
  friend class View;
  friend struct detail::ViewAccess;
  Tensor() noexcept {}

  Error wrong_type() const;
  Status check_typed(std::size_t alignment) const;

  std::string_view name_;
  const std::byte* data_ = nullptr;
  std::uint64_t data_offset_ = 0;
  std::uint64_t byte_count_ = 0;
  Dtype dtype_{};
  std::uint32_t ordinal_ = 0;
  bool foreign_order_ = false;
  Shape shape_;
};

// A run of tensors that belong together, usually one layer: ordinals
// [first, first + count).
struct Group {
  std::string_view name;
  std::uint32_t first = 0;
  std::uint32_t count = 0;
};

// The groups of a file, in order, read from its bytes as they are asked for.
class Groups {
 public:
  Groups() = default;
  std::uint32_t size() const noexcept { return count_; }
  bool empty() const noexcept { return count_ == 0; }
  // Requires i < size(). A file changed in place since gives a wrong group, never a
  // wild pointer.
  Group operator[](std::uint32_t i) const noexcept;

 private:
  friend class View;
  std::span<const std::byte> section_;
  std::uint32_t count_ = 0;
  std::uint64_t tensor_count_ = 0;
};

// The header of the one file that this file was converted from, where that file can be
// given back byte for byte.
struct SourceHeader {
  enum class Format : std::uint32_t { safetensors = 1, gguf = 2 };
  enum class Encoding : std::uint32_t { verbatim = 0, ordinals = 1 };
  Format format{};
  Encoding encoding{};
  std::uint64_t file_size = 0;    // of the source file
  std::uint64_t header_size = 0;  // bytes
  Digest digest;                  // of the header's bytes
  std::span<const std::byte> body;
};

// How one tensor's numbers turn back into real ones: scheme 1 is ONNX
// DequantizeLinear, (q - zero_point) x scale (x scale2). Fields as in docs/format.md.
using Quantization = disk::QuantizationEntry;

// Which part of a sharded set a file is.
using Shard = disk::Shard;

namespace detail {

// What opening a file has proven about it: the places that later reads rely on.
struct Claim {
  const std::byte* core = nullptr;  // file offset 0 as far as records and names go
  const std::byte* data = nullptr;  // file offset 0 as far as data goes; null: unmapped
  std::uint64_t file_size = 0;
  std::uint64_t tensor_count = 0;
  std::uint64_t meta_offset = 0;
  std::uint64_t strings_begin = 0;  // names and shapes lie in [begin, end)
  std::uint64_t strings_end = 0;
  std::uint64_t data_begin = 0;  // data lies in [begin, end)
  std::uint64_t data_end = 0;
  std::uint64_t sections_begin = 0;  // the section table, and the core's end C
  std::uint64_t core_end = 0;
  std::uint64_t index_offset = 0;  // of the name index; 0 if none
  std::uint64_t index_seed = 0;
  std::uint64_t index_slots = 0;
  Digest file_id;
  bool sealed = false;
  bool big_endian = false;
  bool foreign_order = false;  // `data` is not in this machine's byte order
};

// Facts proven once, shared by threads; survives a move of its owner.
struct ProvenBits {
  mutable std::atomic<std::uint32_t> bits{0};
  ProvenBits() = default;
  ProvenBits(ProvenBits&& other) noexcept : bits(other.bits.load()) {}
  ProvenBits& operator=(ProvenBits&& other) noexcept {
    bits = other.bits.load();
    return *this;
  }
};

}  // namespace detail

// An input range of Result<Tensor>: all tensors of an Owner, which is a View or Model.
template <typename Owner>
class TensorRange {
 public:
  class iterator {
   public:
    using value_type = Result<Tensor>;
    using difference_type = std::ptrdiff_t;
    Result<Tensor> operator*() const { return (*owner_)[ordinal_]; }
    iterator& operator++() { return ++ordinal_, *this; }
    void operator++(int) { ++ordinal_; }
    bool operator==(const iterator& other) const { return ordinal_ == other.ordinal_; }

   private:
    friend class TensorRange;
    iterator(const Owner* owner, std::uint64_t ordinal)
        : owner_(owner), ordinal_(ordinal) {}
    const Owner* owner_;
    std::uint64_t ordinal_;
  };

  iterator begin() const { return {owner_, 0}; }
  iterator end() const { return {owner_, owner_->size()}; }

 private:
  friend Owner;
  explicit TensorRange(const Owner* owner) : owner_(owner) {}
  const Owner* owner_;
};

class View {
 public:
  // Claims `file`, the bytes of a whole file, which must outlive the View and all that
  // it hands out. Fails with corrupt, unsupported or limit. No data byte is read.
  static Result<View> open(std::span<const std::byte> file WEIG_LIFETIMEBOUND,
                           const ViewOptions& options = {});

  View(View&&) noexcept = default;
  View& operator=(View&&) noexcept = default;

  std::uint64_t size() const noexcept { return claim_.tensor_count; }
  std::uint64_t file_size() const noexcept { return claim_.file_size; }
  bool sealed() const noexcept { return claim_.sealed; }
  // Identifies the contents of header, table, names and section table; zero in files
  // that are not sealed.
  Digest file_id() const noexcept { return claim_.file_id; }
  // The bytes of the file in which weight data lies: [begin, end).
  std::uint64_t data_begin() const noexcept { return claim_.data_begin; }
  std::uint64_t data_end() const noexcept { return claim_.data_end; }

  // The tensor at a place in the table. Fails with invalid_argument past the end, and
  // with corrupt or unsupported where its record breaks a rule (possible when opened
  // lazily, or when the file was changed in place).
  Result<Tensor> operator[](std::uint64_t ordinal) const& WEIG_LIFETIMEBOUND;
  Result<Tensor> operator[](std::uint64_t ordinal) const&& = delete;

  // The tensor of that name, or nothing. Fails only with corrupt or unsupported, as
  // above; a damaged file never denies a tensor.
  Result<std::optional<Tensor>> find(std::string_view name) const& WEIG_LIFETIMEBOUND;
  Result<std::optional<Tensor>> find(std::string_view name) const&& = delete;

  // The tensor of that name; not_found where there is none.
  Result<Tensor> tensor(std::string_view name) const& WEIG_LIFETIMEBOUND;
  Result<Tensor> tensor(std::string_view name) const&& = delete;

  // All tensors in file order: for (const Result<Tensor>& tensor : view.tensors()).
  using Range = TensorRange<View>;
  Range tensors() const& WEIG_LIFETIMEBOUND { return Range(this); }
  Range tensors() const&& = delete;

  // The tensor that owns the bytes of this one: another ordinal for an alias (tied
  // weights), its own for all others. Requires ordinal < size().
  Result<std::uint32_t> owner(std::uint32_t ordinal) const;

  // Sections: each is checked against its digest and its layout at first use. Nothing
  // where the file has none; a lazy view says that when it has proven file_id, for
  // which it reads the file's front once, as its first look-up does. corrupt where a
  // check fails. Spans and names live as long as the file's bytes.
  Result<std::optional<std::span<const std::byte>>> section(
      disk::SectionKind kind) const& WEIG_LIFETIMEBOUND;
  Result<std::optional<std::span<const std::byte>>> section(
      disk::SectionKind kind) const&& = delete;
  // The kinds of all sections, ascending, with those that are not known here.
  std::vector<disk::SectionKind> section_kinds() const;
  Result<Groups> groups() const& WEIG_LIFETIMEBOUND;
  Result<Groups> groups() const&& = delete;
  // The stored digest of a tensor's bytes.
  Result<std::optional<Digest>> digest(std::uint32_t ordinal) const;
  // One JSON object, keys in source order (weig::Metadata reads it).
  Result<std::optional<std::string_view>> metadata_text() const& WEIG_LIFETIMEBOUND;
  Result<std::optional<std::string_view>> metadata_text() const&& = delete;
  Result<std::optional<SourceHeader>> source() const& WEIG_LIFETIMEBOUND;
  Result<std::optional<SourceHeader>> source() const&& = delete;
  Result<std::optional<Shard>> shard() const;
  // Entry i of the quantization section, and how many there are (0 without one).
  Result<std::uint32_t> quantization_count() const;
  Result<Quantization> quantization(std::uint32_t i) const;

  // Proves now what a lazy open has put off. After success, full and lazy are the same.
  Status check_structure() const;
  // Proves every section of the file, known kinds with their layout.
  Status check_sections() const;

 private:
  friend struct detail::ViewAccess;
  View() = default;

  Status sort_and_check_minimal();
  Status check_file_id() const;            // F1
  Status check_structure_digests() const;  // F1, F2
  Result<Tensor> checked_tensor(std::uint32_t ordinal) const;
  Result<std::optional<Tensor>> find_minimal(std::string_view name) const;
  // What must hold of a section's size whenever it is read, and of its bytes once.
  Status check_size(disk::SectionKind kind, std::span<const std::byte> bytes) const;
  Status check_layout(disk::SectionKind kind, std::span<const std::byte> bytes) const;

  detail::Claim claim_;
  ViewOptions options_;
  detail::ProvenBits proven_;
  // Of files that are not sealed: ordinals by name; and by data, where that is not the
  // order of the table.
  std::vector<std::uint32_t> by_name_;
  std::vector<std::uint32_t> by_data_;
};

}  // namespace weig
