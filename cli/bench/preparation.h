// SPDX-License-Identifier: Apache-2.0
// Preparation: makes the state that a run is to start from, the file cold or warm and
// free memory backed or fresh, and proves it.
#pragma once

#include <weig/error.h>
#include <weig/model.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bench/measurement.h"
#include "bench/usage.h"

namespace weig::cli::bench {

class Preparation {
 public:
  Preparation(const Subject& subject, OpenOptions open)
      : file_(subject.file),
        file_size_(subject.file_size),
        may_drop_all_(!subject.storage.in_memory),
        open_(std::move(open)) {}

  struct Outcome {
    Proof proof = Proof::unknown;
    std::optional<std::uint64_t> cached;  // bytes of the file
    std::optional<double> huge_folios;    // share of the file, if warm
    std::uint64_t backed = 0;             // bytes of memory
    std::vector<std::string> notes;       // what did not go as it should
  };
  // A state that cannot be made is an outcome. Fails with cancelled when someone says
  // stop, and where no process can be started or the file cannot be opened.
  Result<Outcome> operator()(State state, Memory memory);

 private:
  Status make(State state);
  Status make_cold();
  Status make_warm();
  Status drop_all(Drop drop);
  Status back(State state, Outcome& outcome);
  Status check(State state, Outcome& outcome) const;

  std::string file_;
  std::uint64_t file_size_;
  bool may_drop_all_;  // dropping the whole machine's cache has not been in vain
  OpenOptions open_;
  // The largest share of the file in huge folios that loading it has led to.
  std::optional<double> best_huge_;
};

}  // namespace weig::cli::bench
