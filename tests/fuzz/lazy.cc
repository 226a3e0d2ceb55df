// SPDX-License-Identifier: Apache-2.0
// Lazy opening against full (docs/format.md, "What a reader proves"): what full
// accepts, lazy answers identically; of what full refuses, lazy may hand out records
// that obey their own rules, but never denies a tensor and never proves the file.
#include <weig/view.h>

#include <array>

#include "answers.h"
#include "check.h"
#include "core/claim.h"
#include "core/index.h"
#include "target.h"

namespace weig::fuzz {
namespace {

// Of a file that full refuses, with `why`. Each question to a View that has not been
// asked before, as the first failure must not make the second question easier.
void promise_no_lies(Bytes file, const ViewOptions& options, const std::string& why) {
  const View view = View::open(file, options).value();
  const auto absent = view.find("a name that no fuzzer makes up");
  promise(!absent, "an unproven file denies no tensor");
  failure(absent.error());
  for (int round = 0; round < 2; ++round) {
    const auto status = view.check_structure();
    promise(!status, "what full refuses is never proven", why);
    promise_equal(failure(status.error()), why, "lazy finds what full has found");
  }
  const View other = View::open(file, options).value();
  answers(other);  // its own promises are about names
  promise(!other.check_structure(), "questions prove nothing", why);
}

// The linear pass over records may be cut anywhere: its parts run on threads.
void promise_same_in_parts(const View& view, const ViewOptions& options,
                           bool structure_is_sound) {
  const detail::Claim& claim = detail::ViewAccess::claim(view);
  const std::uint64_t count = claim.tensor_count;
  NameBytes names(claim);
  const auto whole = check_records(claim, options.unknown_dtypes, 0, count, names);
  promise(!structure_is_sound || whole, "records of a sound file are sound");
  for (const std::uint64_t cut :
       std::array{count / 2, std::min<std::uint64_t>(count, 1),
                  count - std::min<std::uint64_t>(count, 1)}) {
    NameBytes in_both(claim);
    const auto first = check_records(claim, options.unknown_dtypes, 0, cut, in_both);
    const auto second =
        check_records(claim, options.unknown_dtypes, cut, count, in_both);
    promise(whole.has_value() == (first.has_value() && second.has_value()),
            "what holds of adjoining ranges holds of both");
  }
}

}  // namespace

void run_lazy(Bytes input) {
  const Block block(input);
  const Bytes file = block.bytes();
  for (const auto dtypes : {UnknownDtypes::refuse, UnknownDtypes::accept}) {
    ViewOptions options{.unsealed = Unsealed::accept, .unknown_dtypes = dtypes};
    const auto full = View::open(file, options);
    options.validation = Validation::lazy;
    const auto lazy = View::open(file, options);
    if (!lazy) {
      promise(!full, "what full accepts, lazy opens");
      promise_equal(failure(full.error()), failure(lazy.error()),
                    "full and lazy refuse alike");
      continue;
    }
    if (lazy->sealed()) promise_same_in_parts(*lazy, options, full.has_value());
    if (!full) {
      promise(lazy->sealed(), "minimal files are always proven whole");
      promise_no_lies(file, options, failure(full.error()));
      continue;
    }
    promise_equal(answers(*full), answers(*lazy), "full and lazy answer alike");
    promise_sound(View::open(file, options).value());
  }
}

}  // namespace weig::fuzz
