// SPDX-License-Identifier: Apache-2.0
// The structures of a WEIG file, byte for byte (docs/format.md is the normative text).
//
// All integers are little-endian and unsigned. Read fields by memcpy, never through a
// cast pointer: a file is not trusted to be aligned, and may change while it is read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace weig::disk {

inline constexpr std::uint32_t kMagic = 0x57454947;         // bytes 47 49 45 57
inline constexpr std::uint32_t kSwappedMagic = 0x47494557;  // a big-endian file
inline constexpr std::uint32_t kVersion = 1;
inline constexpr std::uint32_t kWriterRevision = 1;

inline constexpr std::uint64_t kMaxTensors = (std::uint64_t{1} << 32) - 2;
inline constexpr std::uint64_t kMaxSections = 256;
inline constexpr std::uint64_t kMaxNameBytes = 65'535;
inline constexpr std::uint64_t kMaxRank = 64;
inline constexpr std::uint64_t kMaxElements = std::uint64_t{1} << 56;
inline constexpr std::uint64_t kDataAlignment = 64;         // every tensor, at least
inline constexpr std::uint64_t kDataStartAlignment = 4096;  // data_offset
inline constexpr std::uint64_t kSectionAlignment = 64;
inline constexpr std::uint64_t kMaxProbe = 128;     // slots a name may need
inline constexpr std::uint32_t kNone = 0xFFFFFFFF;  // "no ordinal"

// Header flags. A reader refuses unknown bits of the low half, ignores the high half.
inline constexpr std::uint64_t kFlagSealed = 1;
inline constexpr std::uint64_t kFlagSections = 2;
inline constexpr std::uint64_t kFlagPacked = 4;      // kept, refused by name
inline constexpr std::uint64_t kFlagEncrypted = 8;   // kept, refused by name
inline constexpr std::uint64_t kFlagElsewhere = 16;  // kept, refused by name

struct Header {
  std::uint32_t magic;           //  0
  std::uint32_t version;         //  4
  std::uint64_t tensor_count;    //  8
  std::uint64_t meta_offset;     // 16  the TensorMeta table
  std::uint64_t data_offset;     // 24  weight data
  std::uint64_t file_size;       // 32  trailer included
  std::uint64_t flags;           // 40
  std::uint64_t section_offset;  // 48  the article's reserved[0]
  std::uint64_t section_count;   // 56  the article's reserved[1]
};
static_assert(sizeof(Header) == 64);
static_assert(offsetof(Header, tensor_count) == 8 && offsetof(Header, flags) == 40);
static_assert(offsetof(Header, section_count) == 56);
static_assert(std::is_trivially_copyable_v<Header>);

struct TensorMeta {
  std::uint64_t name_offset;   //  0  NUL-terminated UTF-8
  std::uint32_t dtype;         //  8
  std::uint32_t pad;           // 12  zero
  std::uint64_t shape_offset;  // 16  u64[shape_count], zero for rank 0
  std::uint64_t shape_count;   // 24
  std::uint64_t data_offset;   // 32
  std::uint64_t data_size;     // 40
};
static_assert(sizeof(TensorMeta) == 48);
static_assert(offsetof(TensorMeta, shape_offset) == 16);
static_assert(offsetof(TensorMeta, data_size) == 40);
static_assert(std::is_trivially_copyable_v<TensorMeta>);

enum class SectionKind : std::uint32_t {
  name_index = 1,
  digests = 2,
  metadata = 3,
  source = 4,
  groups = 5,
  quantization = 6,
  shard = 7,
};
inline constexpr std::uint32_t kSectionCritical = 1;  // who does not know it, refuses

struct SectionEntry {
  std::uint32_t kind;    //  0
  std::uint32_t flags;   //  4
  std::uint64_t offset;  //  8
  std::uint64_t size;    // 16
  std::uint64_t xxh3;    // 24  XXH3-64 of the section's bytes
};
static_assert(sizeof(SectionEntry) == 32);
static_assert(offsetof(SectionEntry, xxh3) == 24);

struct IndexHead {
  std::uint64_t seed;     //  0
  std::uint64_t slots;    //  8  a power of two, at least 2 x tensor_count
  std::uint64_t zero[6];  // 16
};
static_assert(sizeof(IndexHead) == 64);

struct IndexSlot {
  std::uint32_t fingerprint;  // 0  high half of the name's hash
  std::uint32_t ordinal;      // 4  ordinal + 1; an empty slot is all zero
};
static_assert(sizeof(IndexSlot) == 8);

struct SourceHead {
  std::uint32_t format;       //  0  1 safetensors, 2 GGUF
  std::uint32_t encoding;     //  4  0 the header's bytes, 1 u32 ordinals (safetensors)
  std::uint64_t file_size;    //  8  of the source file
  std::uint64_t header_size;  // 16  H
  std::uint64_t digest_low;   // 24  XXH3-128 of the H bytes
  std::uint64_t digest_high;  // 32
};
static_assert(sizeof(SourceHead) == 40);

struct GroupEntry {
  std::uint64_t name_offset;  //  0  from the start of the section
  std::uint32_t first;        //  8
  std::uint32_t count;        // 12
};
static_assert(sizeof(GroupEntry) == 16);

struct QuantizationEntry {
  std::uint32_t tensor;      //  0
  std::uint32_t scheme;      //  4  1: (q - zero_point) x scale (x scale2)
  std::uint32_t axis;        //  8
  std::uint32_t block;       // 12
  std::uint32_t scale;       // 16
  std::uint32_t zero_point;  // 20
  std::uint32_t scale2;      // 24
  std::uint32_t zero;        // 28
};
static_assert(sizeof(QuantizationEntry) == 32);

struct Shard {
  std::uint64_t set_low;   //  0
  std::uint64_t set_high;  //  8
  std::uint32_t index;     // 16
  std::uint32_t count;     // 20
  std::uint64_t tensors;   // 24  in the whole set
};
static_assert(sizeof(Shard) == 32);

inline constexpr unsigned char kSentinel[8] = {0xFE, 'W', 'E', 'I', 'G', 13, 10, 0xFF};

struct Trailer {
  unsigned char sentinel[8];   //  0
  std::uint64_t file_size;     //  8
  std::uint64_t file_id_low;   // 16  XXH3-128 of the core, [0, C)
  std::uint64_t file_id_high;  // 24
  std::uint32_t version;       // 32
  std::uint32_t writer;        // 36  revision of the writer's choices
  std::uint64_t reserved[2];   // 40
  std::uint64_t check;         // 56  XXH3-64 of header, then bytes 0..55 of this
};
static_assert(sizeof(Trailer) == 64);
static_assert(offsetof(Trailer, file_id_low) == 16 && offsetof(Trailer, check) == 56);

}  // namespace weig::disk
