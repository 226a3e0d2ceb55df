// SPDX-License-Identifier: Apache-2.0
#include "formats/zip_content.h"

#include "core/text.h"
#include "formats/npy.h"
#include "formats/torch_archive.h"

namespace weig {

Result<ZipContent> sniff_zip(std::span<const ZipMember> members) {
  if (is_torch_archive(members)) return ZipContent::torch;
  if (is_npz(members)) return ZipContent::npz;
  return Error(Code::corrupt, "not a weights file: it is a zip archive of other things")
      .found(std::to_string(members.size()) + " members, the first " +
             in_quotes(members.front().name))
      .hint("unpack it first, if there are weights in it");
}

}  // namespace weig
