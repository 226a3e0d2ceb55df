// SPDX-License-Identifier: Apache-2.0
// TorchPlaces: tensors as views of storages, put into a manifest: every element proven
// inside its storage, equal views found, and what no tensor uses counted.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include <weig/dtype.h>

#include "formats/manifest.h"

namespace weig {

// A storage of the file: all its bytes.
struct TorchStorage {
  ElementStorage lies;  // `first` 0 and no strides
};

struct TorchView {
  Dtype dtype{};
  std::span<const std::uint64_t> shape;
  std::span<const std::uint64_t> strides;  // in elements; as many as dimensions
  std::uint64_t first = 0;                 // the element of the storage, by number
  std::uint32_t storage = 0;               // index into the storages
  std::uint64_t storage_bytes = 0;         // of it, as far as the tensor may reach
};

class TorchPlaces {
 public:
  // Both must outlive this. `max_times`: how much larger than its storage a tensor may
  // become by strides of 0, and all of them than all storages.
  TorchPlaces(Manifest& manifest, std::span<const TorchStorage> storages,
              std::uint64_t max_times);

  // Fails with corrupt, and with limit for what would become too large.
  Status add(std::string_view name, const TorchView& view);

  // After the last: marks aliases, and warns of bytes that belong to no tensor.
  void finish();

 private:
  // The bytes of a storage that a tensor needs.
  struct Extent {
    std::uint32_t storage = 0;
    std::uint32_t entry = 0;  // of the manifest
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
    std::uint32_t unit = 1;  // that changes places in a change of byte order
    bool strided = false;
  };

  Status check_growth(std::string_view name, std::uint64_t bytes, const Extent& extent);
  bool same_bytes(const Extent& a, const Extent& b) const;
  void count_unused();

  Manifest* manifest_;
  std::span<const TorchStorage> storages_;
  std::uint64_t max_times_;
  std::uint64_t stored_ = 0;     // bytes in all storages
  std::vector<Extent> extents_;  // of tensors that are not empty
  std::uint64_t bytes_ = 0;      // of all tensors, as they will be
  std::uint64_t reads_ = 0;      // that they take where they are not copied as they are
  std::vector<std::uint64_t> strides_;
};

}  // namespace weig
