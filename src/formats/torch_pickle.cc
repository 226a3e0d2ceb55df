// SPDX-License-Identifier: Apache-2.0
#include "formats/torch_pickle.h"

#include <vector>

#include "core/bytes.h"

namespace weig {
namespace {

template <std::unsigned_integral T>
void put(std::string& out, T value) {
  const std::size_t at = out.size();
  out.resize(at + sizeof value);
  store(std::as_writable_bytes(std::span(out)).data() + at, value);
}

std::string spelled_text(std::string_view text) {
  std::string out = "X";
  put(out, static_cast<std::uint32_t>(text.size()));
  out += text;
  return out;
}

}  // namespace

TorchPickle::TorchPickle() : out_("\x80\x02}(") {}

void TorchPickle::put_text(std::string_view text) { out_ += spelled_text(text); }

void TorchPickle::put_number(std::uint64_t value) {
  if (value < 0x100) {
    out_ += 'K';
    put(out_, static_cast<std::uint8_t>(value));
  } else if (value < 0x80000000) {
    out_ += 'J';
    put(out_, static_cast<std::uint32_t>(value));
  } else {
    out_ += "\x8A\x08";  // a WEIG file's numbers are below 2^63
    put(out_, value);
  }
}

void TorchPickle::put_sizes(std::span<const std::uint64_t> sizes) {
  out_ += '(';
  for (const std::uint64_t size : sizes) put_number(size);
  out_ += 't';
}

void TorchPickle::put_kept(std::string spelled) {
  const auto known = kept_.find(spelled);
  if (known != kept_.end()) {
    out_ += 'h';
    put(out_, known->second);
    return;
  }
  out_ += spelled;
  out_ += 'q';
  const auto place = static_cast<std::uint8_t>(kept_.size());  // types are few
  put(out_, place);
  kept_.emplace(std::move(spelled), place);
}

void TorchPickle::put_global(std::string_view module, std::string_view name) {
  std::string spelled = "c";
  spelled.append(module).append("\n").append(name).append("\n");
  put_kept(std::move(spelled));
}

void TorchPickle::put_word(std::string_view text) { put_kept(spelled_text(text)); }

void TorchPickle::add(std::string_view name, const TorchType& type,
                      std::span<const std::uint64_t> shape,
                      std::string_view storage_key, std::uint64_t storage_bytes,
                      StorageClass storage_class) {
  const bool typed = storage_class == StorageClass::typed && !type.storage.empty();
  std::vector<std::uint64_t> strides(shape.size());
  std::uint64_t step = 1;
  for (std::size_t d = shape.size(); d-- > 0;) {
    strides[d] = step;
    if (shape[d] > 1) step *= shape[d];  // at most 2^56
  }
  put_text(name);
  put_global("torch._utils", typed ? "_rebuild_tensor_v2" : "_rebuild_tensor_v3");
  out_ += "((";
  put_word("storage");
  if (typed) {
    put_global("torch", type.storage);
  } else {
    put_global("torch.storage", "UntypedStorage");
  }
  put_text(storage_key);
  put_word("cpu");
  put_number(typed ? storage_bytes / dtype_info(type.dtype)->block_bytes
                   : storage_bytes);
  out_ += "tQ";
  put_number(0);
  put_sizes(shape);
  put_sizes(strides);
  out_ += '\x89';  // it needs no gradient, and has no hooks
  put_global("collections", "OrderedDict");
  out_ += ")R";
  if (!typed) put_global("torch", type.name);
  out_ += "tR";
}

std::string TorchPickle::finish() && {
  out_ += "u.";
  return std::move(out_);
}

}  // namespace weig
