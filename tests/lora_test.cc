// SPDX-License-Identifier: Apache-2.0
// An adapter as overlays: the bytes that convert() writes, of all tensors or of none.
// The numbers are compared in tests/python/test_lora.py.
#include <weig/lora.h>

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>

#include "image.h"

namespace weig::test {
namespace {

using Numbers = std::vector<float>;

// A safetensors file of f32 matrices, named in order.
struct Matrix {
  std::string name;
  std::uint64_t rows = 0;
  std::uint64_t columns = 0;
  Numbers numbers;
};

std::vector<std::byte> file_of(const std::vector<Matrix>& matrices) {
  std::string header = "{";
  std::vector<std::byte> data;
  for (const Matrix& matrix : matrices) {
    const std::size_t begin = data.size();
    for (const float number : matrix.numbers) {
      data.resize(data.size() + sizeof number);
      store(data.data() + data.size() - sizeof number,
            std::bit_cast<std::uint32_t>(number));
    }
    if (header.size() > 1) header += ",";
    header += R"(")" + matrix.name + R"(":{"dtype":"F32","shape":[)" +
              std::to_string(matrix.rows) + "," + std::to_string(matrix.columns) +
              R"(],"data_offsets":[)" + std::to_string(begin) + "," +
              std::to_string(data.size()) + "]}";
  }
  header += "}";
  header.resize(align_up(header.size(), 8), ' ');
  return safetensors(header, data);
}

Numbers counting(std::size_t count, float step) {
  Numbers numbers(count);
  for (std::size_t i = 0; i < count; ++i) numbers[i] = static_cast<float>(i) * step;
  return numbers;
}

std::vector<Matrix> factors(const std::string& module, std::uint64_t out,
                            std::uint64_t in) {
  return {{module + ".lora_A.weight", 2, in, counting(2 * in, 0.3f)},
          {module + ".lora_B.weight", out, 2, counting(2 * out, -0.7f)}};
}

std::vector<Matrix> operator+(std::vector<Matrix> one, const std::vector<Matrix>& two) {
  one.insert(one.end(), two.begin(), two.end());
  return one;
}

Numbers numbers_of(const Tensor& tensor) {
  const auto values = tensor.as<float>().value();
  return {values.begin(), values.end()};
}

class Lora : public testing::Test {
 protected:
  Lora() {
    write_file(base_, file_of({{"a.0.weight", 5, 3, counting(15, 0.1f)},
                               {"a.1.weight", 40, 70, counting(2800, 0.01f)},
                               {"b.weight", 3, 3, counting(9, 1)}}));
  }

  LoraAdapter adapter(const std::vector<Matrix>& matrices, double scale = 0.25) const {
    const std::string path = folder_.path("adapter.safetensors");
    write_file(path, file_of(matrices));
    return LoraAdapter::open(path, {.scale = scale}).value();
  }
  LoraAdapter both() const {
    return adapter(factors("a.0", 5, 3) + factors("a.1", 40, 70));
  }

  // What convert() writes of the base with an adapter.
  Model written(const LoraAdapter& adapter, ConvertOptions options = {}) const {
    options.adapter = &adapter;
    options.existing = Existing::replace;
    const std::string sources[] = {base_};
    const auto report = convert(sources, folder_.path("sum.weig"), options).value();
    EXPECT_EQ(report.adapted, adapter.modules().size());
    return Model::open(report.output).value();
  }

  Folder folder_;
  std::string base_ = folder_.path("base.safetensors");
};

TEST_F(Lora, modules_say_what_is_added_to_what) {
  const LoraAdapter adapter = both();
  ASSERT_EQ(adapter.modules().size(), 2u);
  const LoraModule& module = adapter.modules()[1];
  EXPECT_EQ(module.name, "a.1");
  EXPECT_EQ(module.rows, 40u);
  EXPECT_EQ(module.columns, 70u);
  EXPECT_EQ(module.rank, 2u);
  EXPECT_EQ(module.scale, 0.25);
  EXPECT_FALSE(module.transposed);
  EXPECT_EQ(adapter.file()[module.b]->name(), "a.1.lora_B.weight");
}

TEST_F(Lora, overlays_are_the_bytes_of_the_file) {
  const LoraAdapter adapter = both();
  const Model file = written(adapter);
  Model model = Model::open(base_).value();
  const Numbers before = numbers_of(model.tensor("a.1.weight").value());
  EXPECT_EQ(apply_lora(model, adapter).value(), 2u);
  for (const auto& tensor : model.tensors())
    EXPECT_EQ(numbers_of(*tensor), numbers_of(file.tensor(tensor->name()).value()))
        << tensor->name();
  EXPECT_NE(numbers_of(model.tensor("a.1.weight").value()), before);
  EXPECT_FALSE(model.overlaid("b.weight").value());
  EXPECT_TRUE(model.overlaid("a.0.weight").value());
  model.drop_overlays();
  EXPECT_EQ(numbers_of(model.tensor("a.1.weight").value()), before);
}

TEST_F(Lora, adapters_follow_each_other) {
  const LoraAdapter one = adapter(factors("b", 3, 3), 1);
  Model model = Model::open(base_).value();
  ASSERT_TRUE(apply_lora(model, one));
  ASSERT_TRUE(apply_lora(model, adapter(factors("b", 3, 3), -1)));
  const Numbers numbers = numbers_of(model.tensor("b.weight").value());
  for (std::size_t i = 0; i < 9; ++i)
    EXPECT_NEAR(numbers[i], static_cast<float>(i), 1e-5);
}

TEST_F(Lora, a_failure_leaves_no_overlay) {
  Model model = Model::open(base_).value();
  const auto refused = [&](const std::vector<Matrix>& matrices) {
    const auto status = apply_lora(model, adapter(matrices));
    for (const auto& tensor : model.tensors())
      EXPECT_FALSE(model.overlaid(tensor->name()).value());
    return status ? Code::ok : status.error().code();
  };
  const auto good = factors("a.0", 5, 3);
  EXPECT_EQ(refused(good + factors("none", 5, 3)), Code::not_found);
  EXPECT_EQ(refused(good + factors("a.1", 70, 40)), Code::corrupt);
  EXPECT_EQ(refused(good + factors("model.a.0", 5, 3)), Code::corrupt);
  Model without = Model::open(base_, {.part = Part::metadata}).value();
  EXPECT_EQ(apply_lora(without, both()).error().code(), Code::invalid_argument);
  EXPECT_EQ(apply_lora(model, both()).value(), 2u);
  EXPECT_TRUE(model.overlaid("a.1.weight").value());
}

TEST_F(Lora, what_shares_bytes_or_is_quantized_is_refused) {
  const std::vector<ImageTensor> tied{{"a.0.weight", Dtype::f32, {5, 3}, 0},
                                      {"b.weight", Dtype::f32, {5, 3}, 0}};
  write_file(folder_.path("tied.weig"), Image::sealed(tied).bytes);
  Model model = Model::open(folder_.path("tied.weig")).value();
  for (const char* name : {"a.0", "b"}) {
    const auto status = apply_lora(model, adapter(factors(name, 5, 3)));
    EXPECT_EQ(status.error().code(), Code::unsupported);
    EXPECT_EQ(status.error().fields().tensor, name + std::string(".weight"));
  }
  // Scales are floats, and no weights.
  const std::string sources[] = {base_};
  const std::string quantized = folder_.path("quantized.weig");
  const auto change = [](std::string_view name, Dtype,
                         std::span<const std::uint64_t>) -> TensorChange {
    if (name == "a.0.weight") return QuantizeOptions{.block = 2};
    return Keep{};
  };
  ASSERT_TRUE(convert(sources, quantized, {.change = change}));
  Model other = Model::open(quantized).value();
  EXPECT_EQ(apply_lora(other, both()).error().code(), Code::unsupported);
}

TEST_F(Lora, a_set_gets_overlays_in_its_members) {
  const LoraAdapter adapter = both();
  const Model file = written(adapter);
  const std::string sources[] = {base_};
  const auto report =
      convert(sources, folder_.path("set.weig"), {.shard_bytes = 8192}).value();
  ASSERT_GT(report.members.size(), 1u);
  ModelSet set = ModelSet::open(report.members[1].path).value();
  EXPECT_EQ(apply_lora(set, adapter).value(), 2u);
  for (const auto& tensor : set.tensors())
    EXPECT_EQ(numbers_of(*tensor), numbers_of(file.tensor(tensor->name()).value()));
  set.release(set.member_of(set.find_ordinal("a.1.weight").value().value()));
  EXPECT_EQ(apply_lora(set, adapter).error().code(), Code::invalid_argument);
}

TEST_F(Lora, other_tensors_may_be_cast_meanwhile) {
  const LoraAdapter adapter = both();
  const auto change = [](std::string_view name, Dtype,
                         std::span<const std::uint64_t>) -> TensorChange {
    EXPECT_EQ(name, "b.weight");
    return Dtype::f16;
  };
  const Model file = written(adapter, {.change = change});
  EXPECT_EQ(file.tensor("b.weight")->dtype(), Dtype::f16);
  EXPECT_EQ(file.tensor("a.0.weight")->dtype(), Dtype::f32);
}

TEST_F(Lora, options_that_cannot_be_are_refused) {
  both();
  const auto code = [&](const LoraOptions& options) {
    const auto opened = LoraAdapter::open(folder_.path("adapter.safetensors"), options);
    return opened ? Code::ok : opened.error().code();
  };
  EXPECT_EQ(code({.alpha = -3}), Code::ok);
  EXPECT_EQ(code({.scale = 0}), Code::ok);
  EXPECT_EQ(code({}), Code::invalid_argument);
  EXPECT_EQ(code({.alpha = 1, .scale = 1}), Code::invalid_argument);
  EXPECT_EQ(code({.alpha = std::nan("")}), Code::invalid_argument);
  EXPECT_EQ(code({.scale = std::numeric_limits<double>::infinity()}),
            Code::invalid_argument);
}

}  // namespace
}  // namespace weig::test
