// SPDX-License-Identifier: Apache-2.0
#include "convert/sha256.h"

#include <nettle/sha2.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "core/progress.h"
#include "core/try.h"

namespace weig {

Result<std::string> sha256_of(const os::InputFile& file, const Progress& progress) {
  constexpr std::uint64_t kPiece = std::uint64_t{4} << 20;
  sha256_ctx context;
  sha256_init(&context);
  std::vector<std::byte> piece(std::min(kPiece, file.size()));
  for (std::uint64_t at = 0; at < file.size();) {
    const auto bytes = MutableBytes(piece).first(
        std::min<std::uint64_t>(piece.size(), file.size() - at));
    WEIG_TRY(file.read(at, bytes));
    sha256_update(&context, bytes.size(),
                  reinterpret_cast<const std::uint8_t*>(bytes.data()));
    at += bytes.size();
    if (!goes_on(progress, at, file.size()))
      return Error(Code::cancelled, "conversion was stopped");
  }
  std::uint8_t digest[SHA256_DIGEST_SIZE];
  sha256_digest(&context, sizeof digest, digest);
  constexpr char kDigits[] = "0123456789abcdef";
  std::string out;
  for (const std::uint8_t byte : digest) {
    out += kDigits[byte >> 4];
    out += kDigits[byte & 0xF];
  }
  return out;
}

}  // namespace weig
