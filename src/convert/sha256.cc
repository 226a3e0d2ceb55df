// SPDX-License-Identifier: Apache-2.0
#include "convert/sha256.h"

#include <openssl/evp.h>

#include <algorithm>
#include <memory>
#include <new>
#include <vector>

#include "core/progress.h"
#include "core/try.h"

namespace weig {

Result<std::string> sha256_of(const os::InputFile& file, const Progress& progress) {
  constexpr std::uint64_t kPiece = std::uint64_t{4} << 20;
  const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context(
      EVP_MD_CTX_new(), EVP_MD_CTX_free);
  if (!context) throw std::bad_alloc();
  if (EVP_DigestInit_ex(context.get(), EVP_sha256(), nullptr) != 1)
    return Error(Code::unsupported, "the system's crypto library refuses SHA-256");
  std::vector<std::byte> piece(std::min(kPiece, file.size()));
  for (std::uint64_t at = 0; at < file.size();) {
    const auto bytes = MutableBytes(piece).first(
        std::min<std::uint64_t>(piece.size(), file.size() - at));
    WEIG_TRY(file.read(at, bytes));
    EVP_DigestUpdate(context.get(), bytes.data(), bytes.size());
    at += bytes.size();
    if (!goes_on(progress, at, file.size()))
      return Error(Code::cancelled, "conversion was stopped");
  }
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned length = 0;
  EVP_DigestFinal_ex(context.get(), digest, &length);
  constexpr char kDigits[] = "0123456789abcdef";
  std::string out;
  for (unsigned i = 0; i < length; ++i) {
    out += kDigits[digest[i] >> 4];
    out += kDigits[digest[i] & 0xF];
  }
  return out;
}

}  // namespace weig
