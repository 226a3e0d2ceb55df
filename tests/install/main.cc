// SPDX-License-Identifier: Apache-2.0
// A program that uses the installed library: saves a model and opens it again.
#include <weig/weig.h>

#include <array>
#include <cstdio>
#include <cstdlib>

int main(int argc, char** argv) try {
  if (argc != 2) return EXIT_FAILURE;
  const std::array<float, 3> numbers{1, 2, 3};
  const std::array<std::uint64_t, 1> shape{3};
  const std::array tensors{weig::TensorData{{"w", weig::Dtype::f32, shape},
                                            std::as_bytes(std::span(numbers))}};
  weig::save(argv[1], tensors).value();

  const weig::Model model = weig::Model::open(argv[1]).value();
  const weig::Tensor w = model.tensor("w").value();
  const bool sound = weig::verify(model).value().sound();
  const bool equal = w.as<float>().value()[2] == 3;
  std::printf("%s: sound %d, equal %d\n", argv[1], sound, equal);
  return sound && equal ? EXIT_SUCCESS : EXIT_FAILURE;
} catch (const weig::Exception& failure) {
  std::fprintf(stderr, "%s\n", failure.what());
  return EXIT_FAILURE;
}
