// SPDX-License-Identifier: Apache-2.0
// The readers of PyTorch's checkpoints: of a pickle, as the one of an archive whose
// storages are sound, and of whole files, archives and streams.
#include <array>
#include <numeric>

#include "check.h"
#include "core/record.h"
#include "core/text.h"
#include "formats/torch_mark.h"
#include "formats/torch_stream.h"
#include "formats/zip_writer.h"
#include "image.h"
#include "manifest_promises.h"
#include "mutate.h"
#include "pickle_bytes.h"
#include "seeds.h"
#include "target.h"
#include "torch_archive.h"

namespace weig::fuzz {
namespace {

using namespace test::pickled;
using std::string_literals::operator""s;

constexpr std::uint64_t kStorageBytes = 64;

TorchOptions options() {
  TorchOptions limited;
  limited.max_header_bytes = 1 << 24;
  return limited;
}

test::TorchArchive archive_around(std::string_view pickle) {
  std::string storage(kStorageBytes, '\0');
  std::iota(storage.begin(), storage.end(), '\1');
  return test::archive_of(std::string(pickle), storage);
}

// What a pickle is made of, so that most of what comes out is one.
const std::vector<std::string>& fragments() {
  static const std::vector<std::string> all = {
      "(",
      ")",
      "]",
      "}",
      "0",
      "1",
      "2",
      "N",
      "\x88",
      "a",
      "e",
      "s",
      "u",
      "t",
      "l",
      "d",
      "R",
      "b",
      "o",
      "Q",
      "\x81",
      "\x85",
      "\x86",
      "\x87",
      "\x8F",
      "\x90",
      "\x91",
      "\x92",
      "\x93",
      "\x94",
      "q\1",
      "h\1",
      "q\2",
      "h\2",
      ".",
      text("w"),
      text("storage"),
      text("0"),
      integer(0),
      integer(1),
      integer(8),
      integer(-1),
      integer(INT64_MAX),
      sizes({2}),
      sizes({1}),
      sizes({2, 4}),
      storage("FloatStorage", "0", 16),
      untyped_storage("0", 64),
      pair(),
      tensor(storage("ByteStorage", "0", 64), 1, {3, 4}, {1, 3}),
      typed_tensor(untyped_storage("0", 64), "uint16", {2}, {1}),
      global("torch._utils", "_rebuild_parameter"),
      global("torch._utils", "_rebuild_tensor_v2"),
      global("torch", "Size"),
      global("collections", "OrderedDict"),
      global("__torch__", "Net"),
      global("my", "Thing"),
      dict({text("a"), "N"}),
      list({"N", "N"}),
  };
  return all;
}

std::string sixteen_floats() {
  return tensor(storage("FloatStorage", "0", 16), 0, {4, 4}, {4, 1});
}

std::string stream_file() {
  const std::string magic =
      "\x80\x02\x8A\x0A\x6C\xFC\x9C\x46\xF9\x20\x6A\xA8\x50\x19."s;
  return magic + stream("M\xE9\x03") + stream("}") + stream(dict({text("w"), pair()})) +
         stream(list({text("0")})) + number(2, 8) + "12345678";
}

std::string archive_file(const std::string& pickle, std::uint32_t crc_of_all) {
  ZipWriter zip(64);
  std::string out = zip.member("archive/data.pkl", pickle);
  out += zip.member("archive/byteorder", "big");
  out += zip.member("archive/data/0", std::string(kStorageBytes, 'x'));
  if (crc_of_all == 0) {  // as PyTorch leaves them
    for (std::size_t i = 0; i < zip.size(); ++i) zip.set_crc(i, 0);
    for (std::size_t at = out.find("PK\3\4"); at != out.npos;
         at = out.find("PK\3\4", at + 1))
      out.replace(at + 14, 4, 4, '\0');
  }
  return out + zip.finish();
}

}  // namespace

void run_pickle(Bytes input) {
  const test::TorchArchive archive = archive_around(text_of(input));
  promise_manifest(archive.read(options()), archive.bytes.size());
}

void run_torch(Bytes input) {
  const Block file(input);
  const weig::Input in = input_over(file.bytes());
  if (is_torch_stream(file.bytes())) {
    promise_manifest(read_torch_stream(in, options()), in.size);
    return;
  }
  const auto members = read_zip(in);
  if (!members) {
    failure(members.error());
    return;
  }
  for (const ZipMember& member : *members)
    promise(fits(member.begin, member.size, in.size), "members lie in the file");
  promise_manifest(read_torch_archive(in, *members, options()), in.size);
}

void mutate_pickle(Input& input, std::size_t max_size, Random& random,
                   RawMutation raw) {
  if (random.one_in(4)) return mutate_raw(input, max_size, random, raw);
  const auto& all = fragments();
  const Bytes fragment = bytes_of(all[random.below(all.size())]);
  const auto at = static_cast<std::ptrdiff_t>(random.below(input.size() + 1));
  if (random.one_in(3)) {  // in the place of something
    const auto end = std::min<std::ptrdiff_t>(
        std::ssize(input), at + static_cast<std::ptrdiff_t>(random.below(24)));
    input.erase(input.begin() + at, input.begin() + end);
  }
  input.insert(input.begin() + at, fragment.begin(), fragment.end());
  if (input.size() > max_size) input.resize(max_size);
}

std::vector<Input> pickle_seeds() {
  const std::string ordered = global("collections", "OrderedDict");
  const std::string script =
      global("__torch__", "Net") + ")\x81" + dict({text("w"), sixteen_floats()}) + "b";
  std::vector<Input> seeds;
  for (const std::string& value :
       {dict({text("w"), sixteen_floats(), text("n"), "N"}), script, sixteen_floats(),
        list({sixteen_floats(), tuple({integer(1), "\x88"})}),
        ordered + ")R(" + text("w") + sixteen_floats() + "u",
        call(global("torch._utils", "_rebuild_parameter"),
             {sixteen_floats(), "\x88", no_hooks()}),
        "}q\1(" + text("self") + "h\1" + text("w") + sixteen_floats() + "u",
        dict({text("w"), typed_tensor(untyped_storage("0", 64), "uint16", {2}, {1})}),
        dict({text("w"), call(global("os", "system"), {text("x")})}),
        "\x95" + number(1, 8) + "(S'a\\x41'\nV\\u0041\nI01\nL5L\nF1.5\nl"s,
        "(im\nf\n(" + global("m", "f") + "o}N\x92Pkey\n\x82\1\x83\1\1\x84\1\1\1\1t"})
    seeds.push_back(test::to_bytes(stream(value)));
  return seeds;
}

std::vector<Input> torch_seeds() {
  const std::string pickle = stream(dict({text("w"), sixteen_floats()}));
  std::vector<Input> seeds;
  for (const std::string& file :
       {stream_file(), archive_file(pickle, 0), archive_file(pickle, 1),
        archive_file(stream("}"), 0), "PK\5\6"s + std::string(18, '\0')})
    seeds.push_back(test::to_bytes(file));
  return seeds;
}

}  // namespace weig::fuzz
