// SPDX-License-Identifier: Apache-2.0
// Opening and looking up allocate as often for 10 tensors as for 1,000,000. A program
// of its own: it puts itself before malloc and counts. Not for sanitizers, which do the
// same.
#include <gtest/gtest.h>

#include <weig/host.h>

#include <atomic>
#include <cstddef>
#include <cstdlib>

#include "image.h"

extern "C" {
// glibc's own entry points, under the names that malloc and friends are wrappers of.
void* __libc_malloc(std::size_t);
void* __libc_calloc(std::size_t, std::size_t);
void* __libc_realloc(void*, std::size_t);
void* __libc_memalign(std::size_t, std::size_t);
}

namespace {
std::atomic<std::uint64_t> allocations = 0;
}  // namespace

extern "C" {
void* malloc(std::size_t size) {
  ++allocations;
  return __libc_malloc(size);
}
void* calloc(std::size_t count, std::size_t size) {
  ++allocations;
  return __libc_calloc(count, size);
}
void* realloc(void* old, std::size_t size) {
  ++allocations;
  return __libc_realloc(old, size);
}
void* aligned_alloc(std::size_t alignment, std::size_t size) {
  ++allocations;
  return __libc_memalign(alignment, size);
}
}

namespace weig::test {
namespace {

std::string file_of(const Folder& folder, int tensors) {
  std::vector<std::string> names;
  for (int i = 0; i < tensors; ++i)
    names.push_back("model.layers." + std::to_string(i / 8) + ".w" +
                    std::to_string(i % 8));
  const std::vector<std::byte> bytes(4);
  const std::uint64_t shape[] = {4};
  std::vector<TensorData> data;
  for (const std::string& name : names)
    data.push_back({{.name = name, .dtype = Dtype::u8, .shape = shape}, bytes});
  const std::string path = folder.path(std::to_string(tensors));
  save(path, data).value();
  return path;
}

// Allocations of opening, of looking up every 1000th name and an absent one, and of
// iterating over all tensors.
std::uint64_t allocations_of(const std::string& path, Validation validation) {
  const std::uint64_t before = allocations;
  {
    const auto model = Model::open(path, {.validation = validation});
    if (!model) return 0;
    for (int i = 0; i < 1'000'000; i += 1000) {
      char name[64];
      std::snprintf(name, sizeof name, "model.layers.%d.w%d", i / 8, i % 8);
      (void)model->find(name);
    }
    std::uint64_t bytes = 0;
    for (const Result<Tensor>& tensor : model->tensors()) bytes += tensor->byte_count();
    EXPECT_GT(bytes, 0u);
    EXPECT_TRUE(model->groups());
  }
  return allocations - before;
}

TEST(Allocation, does_not_grow_with_the_number_of_tensors) {
  const Folder folder;
  const std::string few = file_of(folder, 10);
  const std::string many = file_of(folder, 1'000'000);
  // What a process is asked once: its cgroups, and to tell when it has forked.
  static_cast<void>(usable_cpus());
  EXPECT_TRUE(Model::open(few));
  for (const auto validation : {Validation::full, Validation::lazy}) {
    const std::uint64_t of_few = allocations_of(few, validation);
    const std::uint64_t of_many = allocations_of(many, validation);
    EXPECT_GT(of_few, 0u) << "the counter does not count";
    EXPECT_EQ(of_few, of_many);
    EXPECT_LT(of_many, 20u);
  }
}

}  // namespace
}  // namespace weig::test
