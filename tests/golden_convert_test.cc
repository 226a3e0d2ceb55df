// SPDX-License-Identifier: Apache-2.0
// The bytes that conversion makes, which are the same on every machine.
#include <weig/convert.h>
#include <weig/verify.h>

#include "golden.h"

namespace weig::test {
namespace {

// From another format, and from a big-endian file.
TEST(Golden, converted_files) {
  const Folder folder;
  std::vector<ImageTensor> tensors;
  for (const DtypeInfo& info : kDtypes)
    if (!info.is_block()) tensors.push_back({std::string(info.name), info.dtype, {24}});
  const auto file = safetensors(
      R"({"__metadata__":{"format":"pt"},)"
      R"("model.layers.1.w":{"dtype":"BF16","shape":[4],"data_offsets":[0,8]},)"
      R"("model.layers.0.w":{"dtype":"F64","shape":[2],"data_offsets":[8,24]},)"
      R"("b":{"dtype":"F32","shape":[1],"data_offsets":[24,28]}})",
      to_bytes("28 bytes that spell a number"));
  write_file(folder.path("safetensors"), file);
  write_file(folder.path("big_endian"), Image::minimal(tensors, ByteOrder::big).bytes);
  ConvertOptions options;
  options.existing = Existing::replace;
  for (const std::string name : {"safetensors", "big_endian"}) {
    const std::vector<std::string> sources = {folder.path(name)};
    const std::string target = folder.path("out.weig");
    convert(sources, target, options).value();
    expect_golden("from_" + name + ".weig", {read_file(target)});
    EXPECT_TRUE(verify(Model::open(target).value())->sound());
  }
}

}  // namespace
}  // namespace weig::test
