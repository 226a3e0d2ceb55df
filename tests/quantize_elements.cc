// SPDX-License-Identifier: Apache-2.0
// What tests/python/test_quantize.py and test_lora.py compare with NumPy and ml_dtypes:
//   quantize_elements targets
//     the instruction sets of this machine that kernels are built for, the best first
//   quantize_elements SKIP cast FROM TO IN OUT
//   quantize_elements SKIP quantize FROM TO SCHEME AXIS BLOCK PIECE IN OUT DIMENSION...
//     files OUT.q, OUT.scale, OUT.zero and, dequantized to f32, OUT.back
//   quantize_elements SKIP lora BASE ADAPTER OUT
//     the WEIG file OUT, as `weig apply` makes it
// SKIP: how many of the best instruction sets to do without. AXIS: a number or `none`.
// PIECE: elements a piece, raised to a whole step; 0 is all at once.
#include <hwy/targets.h>
#include <weig/convert.h>
#include <weig/lora.h>
#include <weig/quantize.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

namespace {

using Bytes = std::vector<std::byte>;

Bytes read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string text(std::istreambuf_iterator<char>(file), {});
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

void write_file(const std::string& path, std::span<const std::byte> bytes) {
  std::ofstream file(path, std::ios::binary);
  for (const std::byte byte : bytes) file.put(std::to_integer<char>(byte));
}

weig::Dtype dtype_named(const char* name) {
  return weig::dtype_from_name(name).value();
}

// The instruction sets' bits; a better one has a lower bit.
std::vector<std::int64_t> targets() {
  std::vector<std::int64_t> found;
  for (std::int64_t left = hwy::SupportedTargets() & HWY_TARGETS; left != 0;
       left &= left - 1)
    found.push_back(left & -left);
  return found;
}

void skip_targets(std::size_t count) {
  std::int64_t skipped = 0;
  for (std::size_t i = 0; i < count; ++i) skipped |= targets().at(i);
  hwy::DisableTargets(skipped);
}

void cast(char** arguments) {
  const weig::Dtype from = dtype_named(arguments[0]);
  const weig::Dtype to = dtype_named(arguments[1]);
  const Bytes in = read_file(arguments[2]);
  Bytes out(in.size() / weig::dtype_info(from)->block_bytes *
            weig::dtype_info(to)->block_bytes);
  weig::cast(from, in, to, out).value();
  write_file(arguments[3], out);
}

// Quantizes all of `in`, in pieces, and returns the quantized bytes.
Bytes quantize(weig::Quantizer& quantizer, const weig::QuantizePlan& plan,
               std::uint64_t piece, const Bytes& in) {
  const std::uint64_t count = plan.element_count();
  const std::uint64_t unit = plan.source_bytes() / count;
  const std::uint64_t step = plan.step();
  piece = piece == 0 ? count : (piece + step - 1) / step * step;
  Bytes out(plan.quantized_bytes());
  const auto all = std::span(in);
  for (std::uint64_t at = 0; at < count && plan.measures_first(); at += piece) {
    const std::uint64_t size = std::min(piece, count - at);
    quantizer.measure(at, all.subspan(at * unit, size * unit)).value();
  }
  const bool packed = plan.to() == weig::Dtype::i4 || plan.to() == weig::Dtype::u4;
  for (std::uint64_t at = 0; at < count; at += piece) {
    const std::uint64_t size = std::min(piece, count - at);
    const auto target = packed ? std::span(out).subspan(at / 2, (size + 1) / 2)
                               : std::span(out).subspan(at, size);
    quantizer.quantize(at, all.subspan(at * unit, size * unit), target).value();
  }
  return out;
}

void quantize(int argc, char** arguments) {
  const weig::Dtype from = dtype_named(arguments[0]);
  weig::QuantizeOptions options;
  options.to = dtype_named(arguments[1]);
  options.scheme = arguments[2] == std::string("symmetric") ? weig::Scheme::symmetric
                                                            : weig::Scheme::asymmetric;
  if (arguments[3] != std::string("none"))
    options.axis = static_cast<std::uint32_t>(std::stoul(arguments[3]));
  options.block = static_cast<std::uint32_t>(std::stoul(arguments[4]));
  const std::string out = arguments[7];
  std::vector<std::uint64_t> shape;
  for (int i = 8; i < argc; ++i) shape.push_back(std::stoull(arguments[i]));

  const auto plan = weig::QuantizePlan::make(from, shape, options).value();
  weig::Quantizer quantizer(plan);
  const Bytes q =
      quantize(quantizer, plan, std::stoull(arguments[5]), read_file(arguments[6]));
  const Bytes zeros = quantizer.zero_points();
  write_file(out + ".q", q);
  write_file(out + ".scale", std::as_bytes(quantizer.scales()));
  write_file(out + ".zero", zeros);
  Bytes back(plan.element_count() * sizeof(float));
  weig::dequantize({.dtype = plan.to(),
                    .shape = shape,
                    .axis = plan.axis(),
                    .block = plan.block(),
                    .bytes = q,
                    .scales = std::as_bytes(quantizer.scales()),
                    .zero_points = zeros},
                   weig::Dtype::f32, back)
      .value();
  write_file(out + ".back", back);
}

void add_adapter(char** arguments) {
  const auto adapter = weig::LoraAdapter::open(arguments[1]).value();
  const std::string sources[] = {arguments[0]};
  weig::convert(sources, arguments[2], {.adapter = &adapter}).value();
}

}  // namespace

int main(int argc, char** argv) try {
  const std::string first = argc > 1 ? argv[1] : "";
  if (first == "targets") {
    for (const std::int64_t target : targets()) std::puts(hwy::TargetName(target));
    return 0;
  }
  if (argc < 6) return 64;
  skip_targets(std::stoul(first));
  if (argv[2] == std::string("lora"))
    add_adapter(argv + 3);
  else if (argv[2] == std::string("cast"))
    cast(argv + 3);
  else
    quantize(argc - 3, argv + 3);
  return 0;
} catch (const std::exception& failure) {
  std::fprintf(stderr, "%s\n", failure.what());
  return 1;
}
