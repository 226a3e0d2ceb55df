// SPDX-License-Identifier: Apache-2.0
// Put before every source of the scratch copy that run.py makes: one build holds all
// guards, and the environment names the one that is not there.
#pragma once

#include <cstdlib>
#include <type_traits>

#include <weig/error.h>

namespace weig_mutation {

inline const int removed = [] {
  const char* number = std::getenv("WEIG_MUTANT");
  return number ? std::atoi(number) : 0;
}();

constexpr bool kept(int guard) {
  return std::is_constant_evaluated() || guard != removed;
}

// The status of a check whose failure nobody hears of once its guard is removed.
inline weig::Status kept_of(int guard, weig::Status status) {
  return kept(guard) ? std::move(status) : weig::Status();
}

template <typename T>
weig::Result<T> kept_of(int guard, weig::Result<T> result) {
  return kept(guard) ? std::move(result) : weig::Result<T>(T());
}

// A refusal where nothing but a refusal can be returned: removed, it is another one.
inline weig::Error kept_error(int guard, weig::Error error) {
  if (kept(guard)) return error;
  return weig::Error(weig::Code::cancelled, "this refusal was taken out");
}

}  // namespace weig_mutation
