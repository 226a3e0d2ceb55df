// SPDX-License-Identifier: Apache-2.0
// verify: is every byte of a file what its writer wrote?
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <weig/error.h>
#include <weig/model.h>
#include <weig/progress.h>

namespace weig {

// What to do where something is damaged.
enum class OnDamage {
  go_on,  // and list all
  stop,   // the report holds the first damaged place alone
};

struct VerifyOptions {
  unsigned threads = 0;  // 0: as many as there are CPUs to use
  Progress progress = nullptr;
  // Ordinals of the tensors to hash. Nothing: all, and what lies between them; an empty
  // list: none, so that structure, sections and metadata alone are checked.
  std::optional<std::vector<std::uint32_t>> tensors = {};
  OnDamage on_damage = OnDamage::go_on;
};

// One damaged place: bytes [begin, end) of the file. Code::checksum for a tensor whose
// bytes differ from their digest; Code::corrupt for a section or for padding that is
// not zero; and, of what could not be checked, Code::unsupported for a section that is
// of a later version and Code::limit for metadata above what the model was opened for.
struct Damage {
  Error error;
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

struct VerifyReport {
  std::uint64_t tensors = 0;              // looked at
  std::uint64_t tensors_with_digest = 0;  // 0 in formats that have none
  std::uint64_t bytes = 0;                // read and hashed
  double seconds = 0;
  std::vector<Damage> damages;  // in file order; empty: all is checked and sound

  bool sound() const noexcept { return damages.empty(); }
};

// Checks structure, all sections, every tensor's digest (in parallel) and that padding
// is zero, to the end whatever it finds, unless told to stop there. While the model is
// being loaded (LoadWay::stream) it follows, so that the file is read once and in
// order, and fails as the load does; so not from that load's callback, which it would
// wait for. Fails with invalid_argument for a model opened for metadata only and for an
// ordinal that there is not, with cancelled, and with corrupt where the structure
// itself is damaged. Files without digests get the checks that their format allows.
Result<VerifyReport> verify(const Model& model, const VerifyOptions& options = {});

}  // namespace weig
