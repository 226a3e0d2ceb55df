// SPDX-License-Identifier: Apache-2.0
// The library's version, the one requirement on the host, and the only place where
// the code asks which compiler it is built with.
#pragma once

#include <cstdint>

#if __cplusplus < 202002L
#error "weig needs C++20: compile with -std=c++20 or newer"
#endif
#if UINTPTR_MAX < UINT64_MAX
#error "weig needs a 64-bit target: model files outgrow a 32-bit address space"
#endif

// The library's version (semantic versioning). The build reads it from here.
// Not to be confused with the format's version (weig::disk::kVersion).
#define WEIG_VERSION_MAJOR 0
#define WEIG_VERSION_MINOR 1
#define WEIG_VERSION_PATCH 0
#define WEIG_VERSION_STRING "0.1.0"

// Marks functions whose result points into the object (or argument) they are called
// on, so that clang warns when the result outlives it.
#if defined(__clang__)
#define WEIG_LIFETIMEBOUND [[clang::lifetimebound]]
#else
#define WEIG_LIFETIMEBOUND
#endif
