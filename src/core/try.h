// SPDX-License-Identifier: Apache-2.0
// Passing errors up: WEIG_TRY(expression) for a Status, WEIG_TRY_ASSIGN(name,
// expression) for a Result whose value is wanted.
#pragma once

#include <weig/error.h>

#define WEIG_TRY(expression)                           \
  do {                                                 \
    if (auto weig_status = (expression); !weig_status) \
      return std::move(weig_status).error();           \
  } while (false)

#define WEIG_TRY_ASSIGN(name, expression)                      \
  auto name##_result = (expression);                           \
  if (!name##_result) return std::move(name##_result).error(); \
  auto& name = *name##_result
