// SPDX-License-Identifier: Apache-2.0
// classic_load FILE [straight]: loads a safetensors file the traditional way. The
// header is parsed, each tensor gets memory of its own, and the file is read from begin
// to end through an 8 MiB buffer from which each tensor's bytes are copied. `straight`
// reads into the tensors' memory without the copy: the best that this way can do.
//
// Written to be fast and fair, not to be safe from hostile files.
#include <fcntl.h>
#include <simdjson.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "loaded.h"

namespace {

struct Free {
  void operator()(std::byte* memory) const { std::free(memory); }
};

struct Tensor {
  std::string dtype;
  std::vector<std::uint64_t> shape;
  std::uint64_t begin = 0;  // offsets into the file's data
  std::uint64_t end = 0;
  std::unique_ptr<std::byte[], Free> data;
};

using Tensors = std::map<std::string, Tensor, std::less<>>;

[[noreturn]] void fail(const char* what) {
  std::perror(what);
  std::exit(1);
}

void read_all(int file, std::byte* to, std::size_t size) {
  while (size > 0) {
    const ssize_t count = read(file, to, size);
    if (count <= 0) fail("read");
    to += count;
    size -= static_cast<std::size_t>(count);
  }
}

// A sequential reader that copies out of a buffer, like stdio's.
class BufferedFile {
 public:
  explicit BufferedFile(int file) : file_(file), buffer_(std::size_t{8} << 20) {}

  void read(std::byte* to, std::size_t size) {
    while (size > 0) {
      if (next_ == filled_) fill();
      const std::size_t piece = std::min(size, filled_ - next_);
      std::memcpy(to, buffer_.data() + next_, piece);
      next_ += piece;
      to += piece;
      size -= piece;
    }
  }

 private:
  void fill() {
    const ssize_t count = ::read(file_, buffer_.data(), buffer_.size());
    if (count <= 0) fail("read");
    filled_ = static_cast<std::size_t>(count);
    next_ = 0;
  }

  int file_;
  std::vector<std::byte> buffer_;
  std::size_t filled_ = 0;
  std::size_t next_ = 0;
};

Tensors read_header(int file) {
  std::uint64_t length = 0;
  read_all(file, reinterpret_cast<std::byte*>(&length), sizeof length);
  simdjson::padded_string text(length);
  read_all(file, reinterpret_cast<std::byte*>(text.data()), length);

  Tensors tensors;
  simdjson::dom::parser parser;
  const simdjson::dom::object header = parser.parse(text).get_object();
  for (const auto& [name, value] : header) {
    if (name == "__metadata__") continue;
    Tensor tensor;
    tensor.dtype = std::string_view(value["dtype"]);
    for (const std::uint64_t dimension : value["shape"].get_array())
      tensor.shape.push_back(dimension);
    tensor.begin = value["data_offsets"].at(0);
    tensor.end = value["data_offsets"].at(1);
    tensors.emplace(name, std::move(tensor));
  }
  return tensors;
}

}  // namespace

int main(int argc, char** argv) {
  const bool straight = argc == 3 && argv[2] == std::string_view("straight");
  if (argc != 2 && !straight)
    return std::fputs("usage: classic_load FILE [straight]\n", stderr), 64;
  const int file = open(argv[1], O_RDONLY | O_CLOEXEC);
  if (file < 0) fail(argv[1]);

  Tensors tensors = read_header(file);
  std::vector<Tensor*> in_file_order;
  for (auto& [name, tensor] : tensors) in_file_order.push_back(&tensor);
  std::ranges::sort(in_file_order, {}, &Tensor::begin);

  BufferedFile buffered(file);
  for (Tensor* tensor : in_file_order) {
    const std::size_t size = tensor->end - tensor->begin;
    if (size == 0) continue;
    tensor->data.reset(static_cast<std::byte*>(std::malloc(size)));
    if (!tensor->data) fail("malloc");
    straight ? read_all(file, tensor->data.get(), size)
             : buffered.read(tensor->data.get(), size);
  }
  close(file);
  for (const Tensor* tensor : in_file_order)
    bench::touch_pages({tensor->data.get(), tensor->end - tensor->begin});
  bench::report_loaded();
}
