// SPDX-License-Identifier: Apache-2.0
// Opening bytes as a View, proven in full, and asking it everything: nothing is read
// outside the bytes, and what opens obeys the rules.
#include <weig/view.h>

#include "answers.h"
#include "check.h"
#include "core/claim.h"
#include "formats/sniff.h"
#include "target.h"

namespace weig::fuzz {
namespace {

// The same file as a metadata-only open sees it: the front and the trailer, each in
// memory of its own, and no data.
void promise_same_without_data(Bytes file, const View& whole,
                               const ViewOptions& options) {
  const Block front(file.first(whole.data_begin()));
  const Block trailer(file.last(std::min(file.size(), sizeof(disk::Trailer))));
  const auto parts = detail::ViewAccess::open(
      {.front = front.bytes(), .trailer = trailer.bytes(), .file_size = file.size()},
      options);
  promise(parts.has_value(), "a file opens without its data as well");
  promise_equal(answers(*parts, Data::leave), answers(whole, Data::leave),
                "a metadata-only open gives the same answers");
  for (const Result<Tensor>& tensor : parts->tensors()) {
    promise(!tensor->has_data() && tensor->bytes().empty(), "no data without data");
    promise(tensor->byte_count() == 0 || !tensor->as<float>(), "no slice without data");
  }
}

}  // namespace

void run_view(Bytes input) {
  const Block block(input);
  const Bytes file = block.bytes();
  for (const auto unsealed : {Unsealed::refuse, Unsealed::accept}) {
    for (const auto dtypes : {UnknownDtypes::refuse, UnknownDtypes::accept}) {
      const ViewOptions options{
          .unsealed = unsealed, .unknown_dtypes = dtypes, .max_metadata_bytes = 8192};
      const auto view = View::open(file, options);
      if (!view) {
        failure(view.error());
        continue;
      }
      promise(view->sealed() || unsealed == Unsealed::accept,
              "unsealed files open only when asked for");
      const auto content =
          sniff(file.first(std::min(file.size(), kSniffBytes)), file.size());
      promise(content && *content == Content::weig, "what opens is known by its mark");
      promise_sound(*view);
      answers(*view);
      promise_same_without_data(file, *view, options);
    }
  }
}

}  // namespace weig::fuzz
