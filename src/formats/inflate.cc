// SPDX-License-Identifier: Apache-2.0
#include "formats/inflate.h"

#include <algorithm>
#include <array>

#include <zlib.h>

#include "core/try.h"

namespace weig {

struct Inflater::State {
  static constexpr std::size_t kBlock = std::size_t{64} << 10;

  const Input* input = nullptr;
  std::uint64_t at = 0;   // of the input: what is read next
  std::uint64_t end = 0;  // of the stream
  std::uint64_t given = 0;
  std::uint64_t bytes = 0;
  bool has_begun = false;
  bool has_ended = false;
  z_stream stream{};
  std::array<std::byte, kBlock> block{};

  ~State() {
    if (has_begun) inflateEnd(&stream);
  }

  Error broken(const char* what) const {
    return Error(Code::corrupt, what)
        .at(at - stream.avail_in)
        .found(std::to_string(given) + " bytes unpacked")
        .expected(std::to_string(bytes) + " bytes");
  }

  Status begin() {
    constexpr int kRawWindow = -15;  // no zlib header; 32 KiB
    if (inflateInit2(&stream, kRawWindow) != Z_OK)
      return Error(Code::no_memory, "no memory to unpack with");
    has_begun = true;
    return {};
  }

  // Unpacks into `out`; how much came of it.
  Result<std::size_t> step(MutableBytes out) {
    if (stream.avail_in == 0 && at < end) {
      const MutableBytes next =
          MutableBytes(block).first(std::min<std::uint64_t>(block.size(), end - at));
      WEIG_TRY(input->read(at, next));
      at += next.size();
      stream.next_in = reinterpret_cast<Bytef*>(next.data());
      stream.avail_in = static_cast<uInt>(next.size());
    }
    constexpr std::size_t kMost = std::size_t{1} << 30;
    const std::size_t room = std::min(out.size(), kMost);
    stream.next_out = reinterpret_cast<Bytef*>(out.data());
    stream.avail_out = static_cast<uInt>(room);
    const uInt before = stream.avail_in;
    const int result = inflate(&stream, Z_NO_FLUSH);
    const std::size_t made = room - stream.avail_out;
    if (result == Z_STREAM_END) {
      has_ended = true;
    } else if (result == Z_MEM_ERROR) {
      return Error(Code::no_memory, "no memory to unpack with");
    } else if (result != Z_OK && result != Z_BUF_ERROR) {
      return broken("packed data is damaged");
    } else if (made == 0 && stream.avail_in == before && at == end) {
      return broken("packed data ends too early");
    }
    return made;
  }

  Status fill(MutableBytes out) {
    while (!out.empty()) {
      if (has_ended) return broken("packed data ends too early");
      WEIG_TRY_ASSIGN(made, step(out));
      given += made;
      out = out.subspan(made);
    }
    return {};
  }

  // All was given: a byte more is one too many, in the stream and behind it.
  Status finish() {
    std::array<std::byte, 1> more{};
    std::size_t made = 0;
    while (!has_ended && made == 0) {
      WEIG_TRY_ASSIGN(now, step(more));
      made = now;
    }
    if (made > 0) return broken("packed data goes on after what it should hold");
    if (at - stream.avail_in != end)
      return broken("there is more behind the packed data");
    return {};
  }
};

Inflater::Inflater(const Input& input, std::uint64_t begin, std::uint64_t size,
                   std::uint64_t bytes)
    : state_(std::make_unique<State>()) {
  state_->input = &input;
  state_->at = begin;
  state_->end = begin + size;
  state_->bytes = bytes;
}
Inflater::Inflater(Inflater&&) noexcept = default;
Inflater& Inflater::operator=(Inflater&&) noexcept = default;
Inflater::~Inflater() = default;

std::uint64_t Inflater::offset() const noexcept { return state_->given; }

Status Inflater::read(MutableBytes out) {
  if (!state_->has_begun) WEIG_TRY(state_->begin());
  WEIG_TRY(state_->fill(out));
  return state_->given < state_->bytes ? Status() : state_->finish();
}

}  // namespace weig
