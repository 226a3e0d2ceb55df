// SPDX-License-Identifier: Apache-2.0
// Tensors of every storage, read as a WEIG file has them: packed, strided, of the other
// byte order; and what is damaged in them.
#include "convert/tensor_reader.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <numeric>

#include "image.h"
#include "packed.h"

namespace weig::test {
namespace {

std::uint32_t crc_of(Bytes bytes) {
  return static_cast<std::uint32_t>(crc32(0,
                                          reinterpret_cast<const Bytef*>(bytes.data()),
                                          static_cast<uInt>(bytes.size())));
}

class TensorReaderTest : public testing::Test {
 protected:
  // A file of seven other bytes and then these.
  void write(Bytes bytes) {
    std::ofstream out(path_, std::ios::binary | std::ios::trunc);
    out.write("seven..", kBefore);
    out.write(reinterpret_cast<const char*>(bytes.data()),
              static_cast<std::streamsize>(bytes.size()));
  }

  // All of the one tensor, in parts of `part` bytes.
  Result<std::vector<std::byte>> read(ElementStorage storage, Dtype dtype,
                                      std::vector<std::uint64_t> shape,
                                      std::uint64_t part) {
    const DtypeInfo& info = *dtype_info(dtype);
    const std::uint64_t size =
        std::accumulate(shape.begin(), shape.end(), std::uint64_t{info.block_bytes},
                        std::multiplies<>());
    Manifest manifest;
    storage.begin = kBefore;
    manifest.add("t", dtype, shape, size, std::move(storage));
    auto file = os::InputFile::open(path_);
    if (!file) return file.error();
    TensorReader reader(*file, manifest);
    std::vector<std::byte> out(size);
    std::uint64_t at = 0;
    do {  // also of a tensor without bytes
      const auto piece = MutableBytes(out).subspan(at, std::min(part, size - at));
      if (auto status = reader.read(manifest.entries()[0], at, piece); !status)
        return std::move(status).error();
      at += part;
    } while (at < size);
    return out;
  }

  static constexpr std::uint64_t kBefore = 7;
  Folder folder_;
  std::string path_ = folder_.path("file");
};

TEST_F(TensorReaderTest, inflates) {
  const auto bytes = count_up(300'000);
  const auto packed = deflated(bytes);
  write(packed);
  for (const std::uint64_t first : {0, 128})
    for (const std::uint64_t part : {1000, 65536, 1 << 20}) {
      const ElementStorage storage{.packing = ElementStorage::Packing::deflate,
                                   .size = packed.size(),
                                   .bytes = bytes.size(),
                                   .first = first,
                                   .crc = crc_of(bytes)};
      const auto got = read(storage, Dtype::u8, {bytes.size() - first}, part);
      ASSERT_TRUE(got) << got.error().message();
      EXPECT_TRUE(std::ranges::equal(*got, Bytes(bytes).subspan(first)));
    }
}

TEST_F(TensorReaderTest, inflates_and_transposes) {
  const auto bytes = count_up(6 * 5 * 4);
  const auto packed = deflated(bytes);
  write(packed);
  const ElementStorage storage{.packing = ElementStorage::Packing::deflate,
                               .big_endian = true,
                               .size = packed.size(),
                               .bytes = bytes.size(),
                               .strides = {1, 5}};
  const auto got = read(storage, Dtype::f32, {5, 6}, 8);
  ASSERT_TRUE(got) << got.error().message();
  for (std::size_t i = 0; i < 5; ++i)
    for (std::size_t j = 0; j < 6; ++j)
      for (std::size_t b = 0; b < 4; ++b)
        ASSERT_EQ((*got)[(i * 6 + j) * 4 + b], bytes[(j * 5 + i) * 4 + 3 - b]);
}

TEST_F(TensorReaderTest, swaps_what_is_stored_in_the_other_byte_order) {
  const auto bytes = count_up(16);
  write(bytes);
  const auto got =
      read({.big_endian = true, .size = 16, .bytes = 16}, Dtype::complex64, {2}, 16);
  ASSERT_TRUE(got) << got.error().message();
  for (std::size_t i = 0; i < 16; ++i) EXPECT_EQ((*got)[i], bytes[i ^ 3]);
}

// Its checksum is that of what lies before it.
TEST_F(TensorReaderTest, reads_no_bytes_and_their_checksum) {
  const auto bytes = count_up(128);
  write(bytes);
  ElementStorage storage{.size = 128, .bytes = 128, .first = 128, .crc = crc_of(bytes)};
  const auto got = read(storage, Dtype::u8, {0}, 1);
  ASSERT_TRUE(got) << got.error().message();
  *storage.crc ^= 1;
  EXPECT_FALSE(read(storage, Dtype::u8, {0}, 1));
}

TEST_F(TensorReaderTest, compares_the_checksum_of_what_is_brought_into_order) {
  const auto bytes = count_up(6000);
  const auto packed = deflated(bytes);
  ElementStorage plain{.size = bytes.size(),
                       .bytes = bytes.size(),
                       .strides = {1, 20},
                       .crc = crc_of(bytes)};
  ElementStorage inside = plain;
  inside.packing = ElementStorage::Packing::deflate;
  inside.size = packed.size();
  for (auto [storage, file] :
       {std::pair(plain, Bytes(bytes)), {inside, Bytes(packed)}}) {
    write(file);
    const auto got = read(storage, Dtype::u8, {20, 300}, 4096);
    ASSERT_TRUE(got) << got.error().message();
    EXPECT_EQ((*got)[1], bytes[20]);
    *storage.crc ^= 1;
    const auto damaged = read(storage, Dtype::u8, {20, 300}, 4096);
    ASSERT_FALSE(damaged);
    EXPECT_EQ(damaged.error().code(), Code::checksum);
  }
}

TEST_F(TensorReaderTest, finds_damage_of_what_is_packed) {
  const auto bytes = count_up(100'000);
  const auto packed = deflated(bytes);
  ElementStorage whole{.packing = ElementStorage::Packing::deflate,
                       .size = packed.size(),
                       .bytes = bytes.size(),
                       .crc = crc_of(bytes)};
  const auto fails = [&](Bytes file, ElementStorage storage, std::uint64_t elements,
                         Code code, std::string_view words) {
    write(file);
    const auto got = read(std::move(storage), Dtype::u8, {elements}, 4096);
    ASSERT_FALSE(got) << words;
    EXPECT_EQ(got.error().code(), code);
    EXPECT_NE(got.error().message().find(words), std::string::npos)
        << got.error().message();
    EXPECT_EQ(got.error().fields().tensor, "t");
  };
  auto longer = whole;
  longer.bytes += 1;
  fails(packed, longer, longer.bytes, Code::corrupt, "ends too early");
  auto other = whole;
  *other.crc ^= 1;
  fails(packed, other, bytes.size(), Code::checksum, "checksum");
  fails(bytes, {.size = bytes.size(), .bytes = bytes.size(), .crc = crc_of(packed)},
        bytes.size(), Code::checksum, "checksum");
}

}  // namespace
}  // namespace weig::test
