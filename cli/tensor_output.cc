// SPDX-License-Identifier: Apache-2.0
#include "tensor_output.h"

#include <string>

#include "array_text.h"
#include "elements.h"
#include "host.h"
#include "json.h"
#include "npy.h"
#include "raw_elements.h"

namespace weig::cli {
namespace {

// What NumPy's own printing does: above so many elements, three at each end.
constexpr std::uint64_t kAbbreviateAbove = 1000;
constexpr std::uint64_t kEdgeItems = 3;

Error no_elements(const Tensor& tensor) {
  return Error(
             Code::unsupported,
             dtype_info(tensor.dtype()) == nullptr
                 ? "the element type is unknown to this version, so that its values "
                   "cannot be shown or cut out"
                 : "the element type is one of GGML's blocks, whose values exist only "
                   "once decoded, so that they cannot be shown or cut out")
      .tensor(tensor.name())
      .found(dtype_text(tensor.dtype()))
      .hint("--raw without --slice and --widen gives the tensor's bytes");
}

Error no_npy_type(const Tensor& tensor) {
  return Error(Code::unsupported, "NumPy has no such element type")
      .tensor(tensor.name())
      .found(dtype_text(tensor.dtype()))
      .hint("--widen makes it " + dtype_text(widened(tensor.dtype())) +
            " without loss, --raw writes the bytes as they are");
}

ArrayStyle style_of(const Selection& selection, const TensorOutput& how) {
  ArrayStyle style;
  if (how.width == Width::widened || how.form == Form::json)
    style.spelling = Spelling::exact;  // readers of JSON take numbers as doubles
  if (how.form == Form::json) style.syntax = Syntax::json;
  const bool on_terminal =
      how.target == Target::standard_output && is_terminal(Stream::output);
  if (!on_terminal || how.form == Form::json) return style;
  style.columns = columns(Stream::output);
  if (how.length == Length::abbreviated && selection.element_count > kAbbreviateAbove)
    style.edge_items = kEdgeItems;
  return style;
}

void write_json(Output& output, const Tensor& tensor, const Selection& selection,
                ArrayText& values) {
  Json json(output);
  json.begin_object().member("name", tensor.name());
  json.member("dtype", dtype_text(tensor.dtype())).key("shape").begin_array();
  for (const std::uint64_t size : selection.shape) json.value(size);
  json.end_array().key("values");
  values.write();
  json.end_object();
}

void write_text(Output& output, const Tensor& tensor, const Selection& selection,
                const TensorOutput& how) {
  const auto elements = *Elements::of(tensor.dtype(), tensor.data());
  ArrayText values(output, elements, selection, style_of(selection, how));
  if (how.form == Form::json) return write_json(output, tensor, selection, values);
  values.write();
  output.write("\n");
}

}  // namespace

Status check_output(const Tensor& tensor, const TensorOutput& how) {
  const bool as_stored = how.encoding == Encoding::raw && how.sliced == Sliced::no &&
                         how.width == Width::stored;
  if (as_stored) return {};
  if (!Elements::of(tensor.dtype(), tensor.data())) return no_elements(tensor);
  if (how.encoding != Encoding::npy || how.width == Width::widened) return {};
  if (npy_type(tensor.dtype()).empty()) return no_npy_type(tensor);
  return {};
}

void write_tensor(Output& output, const Tensor& tensor, const Selection& selection,
                  const TensorOutput& how) {
  if (how.encoding == Encoding::text) return write_text(output, tensor, selection, how);
  const Dtype stored =
      how.width == Width::widened ? widened(tensor.dtype()) : tensor.dtype();
  if (how.encoding == Encoding::npy)
    output.write(npy_header(npy_type(stored), selection.shape));
  // NumPy takes for granted that a bool is 0 or 1.
  const bool truth = how.encoding == Encoding::npy && stored == Dtype::boolean;
  if (how.width == Width::widened || truth)
    write_widened(output, tensor, selection);
  else if (how.sliced == Sliced::no)
    write_bytes(output, tensor);
  else
    write_elements(output, tensor, selection);
}

}  // namespace weig::cli
