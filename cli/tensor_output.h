// SPDX-License-Identifier: Apache-2.0
// How a tensor's values are written: as text, as JSON, as raw bytes or as .npy.
#pragma once

#include <weig/error.h>
#include <weig/view.h>

#include "output.h"
#include "report.h"
#include "slice.h"
#include "tensor_text.h"

namespace weig::cli {

enum class Encoding { text, raw, npy };
enum class Width { stored, widened };
enum class Length { abbreviated, all };  // abbreviated on a terminal only
enum class Sliced { no, yes };
enum class Target { file, standard_output };

struct TensorOutput {
  Encoding encoding = Encoding::text;
  Form form = Form::text;
  Width width = Width::stored;
  Length length = Length::abbreviated;
  Sliced sliced = Sliced::no;
  Target target = Target::file;
};

// Whether the tensor can be written so. Fails with unsupported, saying what can be done
// instead.
Status check_output(const Tensor& tensor, const TensorOutput& how);

// Requires that check_output() allows it.
void write_tensor(Output& output, const Tensor& tensor, const Selection& selection,
                  const TensorOutput& how);

}  // namespace weig::cli
