// SPDX-License-Identifier: Apache-2.0
// A file that weig has written is mapped by 2 MiB pages, where kernel and file system
// have large folios; where they do not, only the alignment can be checked, and the test
// says so.
#include <gtest/gtest.h>

#include <sys/resource.h>

#include <algorithm>
#include <fstream>
#include <iostream>

#include "image.h"

namespace weig::test {
namespace {

// A field of /proc/self/smaps, summed over the mappings of a file, in KiB.
std::uint64_t smaps_kib(const std::string& path, const std::string& field) {
  std::ifstream smaps("/proc/self/smaps");
  std::uint64_t sum = 0;
  bool ours = false;
  for (std::string line; std::getline(smaps, line);) {
    const bool head = line.find('-') != line.npos && line.find("-p ") != line.npos;
    if (head) ours = line.ends_with(path);
    if (ours && line.starts_with(field + ":"))
      sum += std::stoull(line.substr(field.size() + 1));
  }
  return sum;
}

long faults() {
  struct rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return usage.ru_minflt + usage.ru_majflt;
}

TEST(HugePages, a_file_just_written_is_touched_with_few_faults) {
  constexpr std::uint64_t kTensor = std::uint64_t{32} << 20;
  const std::uint64_t shape[] = {kTensor};
  const std::vector<std::byte> bytes(kTensor, std::byte{1});
  std::vector<TensorData> tensors;
  for (const char* name : {"l.0.w", "l.1.w", "l.2.w", "l.3.w"})
    tensors.push_back({{.name = name, .dtype = Dtype::u8, .shape = shape}, bytes});
  const Folder folder;
  const std::string path = folder.path("m.weig");
  ASSERT_TRUE(save(path, tensors));

  const Model model = Model::open(path).value();
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(model.mapped().data()) % (2 << 20), 0u);
  const long before = faults();
  unsigned sum = 0;
  for (const Result<Tensor>& tensor : model.tensors())
    for (std::uint64_t at = 0; at < tensor->byte_count(); at += 4096)
      sum += static_cast<unsigned>(tensor->data()[at]);
  EXPECT_EQ(sum, 4 * kTensor / 4096);
  const long taken = faults() - before;
  const std::uint64_t huge =
      smaps_kib(path, "FilePmdMapped") + smaps_kib(path, "ShmemPmdMapped");
  const std::uint64_t resident = smaps_kib(path, "Rss");
  if (huge == 0) {
    std::cout << "this kernel or file system has no large folios: checked the "
                 "alignment of the address alone\n";
    return;
  }
  EXPECT_GT(huge * 100, resident * 95) << huge << " of " << resident << " KiB";
  EXPECT_LT(taken, 130 + 64);  // 128 MiB in pages of 2 MiB, and the first, small ones
}

// Writes a file in such pieces that the page cache holds it in small folios.
void write_in_small_folios(const std::string& path,
                           const std::vector<std::byte>& bytes) {
  std::ofstream file(path, std::ios::binary);
  constexpr std::size_t kPiece = 16 << 10;
  for (std::size_t at = 0; at < bytes.size(); at += kPiece) {
    const std::size_t count = std::min(kPiece, bytes.size() - at);
    file.write(reinterpret_cast<const char*>(bytes.data() + at),
               static_cast<std::streamsize>(count));
    file.flush();
  }
}

// Page faults of touching [begin, end) of the file's mapping.
long faults_of_touching(const Model& model, std::uint64_t begin, std::uint64_t end) {
  const long before = faults();
  volatile const std::byte* data = model.mapped().data();
  for (std::uint64_t at = begin; at < end; at += 4096) static_cast<void>(data[at]);
  static_cast<void>(data[end - 1]);
  return faults() - before;
}

TEST(HugePages, small_folios_are_mapped_whole_as_well) {
  const Folder folder;
  const std::string path = folder.path("m.weig");
  const Image image = Image::sealed({{"t", Dtype::u8, {(40 << 20) + 12345}}});
  write_in_small_folios(path, image.bytes);
  const std::uint64_t size = image.bytes.size();
  {
    const Model model = Model::open(path).value();
    EXPECT_GT(faults_of_touching(model, 0, size), 300);  // they are small
  }
  for (const unsigned threads : {1u, 2u}) {
    const LoadOptions load{.way = LoadWay::populate, .threads = threads};
    const Model model = Model::open(path, {.load = load}).value();
    EXPECT_LT(faults_of_touching(model, 0, size), 8);
  }
  // Parts, of which neither end lies on a page.
  const FileRange part{(8 << 20) + 70'000, (31 << 20) + 70'001};
  const LoadOptions load{.way = LoadWay::populate, .threads = 1, .ranges = {part}};
  const Model model = Model::open(path, {.load = load}).value();
  EXPECT_LT(faults_of_touching(model, part.begin, part.end), 8);
}

}  // namespace
}  // namespace weig::test
