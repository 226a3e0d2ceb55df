# SPDX-License-Identifier: Apache-2.0
# xxHash for another machine, without its library there: the header has all of it.
file(COPY /usr/include/xxhash.h DESTINATION ${PROJECT_BINARY_DIR}/xxhash)
add_library(PkgConfig::xxhash INTERFACE IMPORTED)
target_include_directories(PkgConfig::xxhash INTERFACE ${PROJECT_BINARY_DIR}/xxhash)
target_compile_definitions(PkgConfig::xxhash INTERFACE XXH_INLINE_ALL=)  # as core/index.cc says it
