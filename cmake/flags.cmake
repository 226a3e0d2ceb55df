# SPDX-License-Identifier: Apache-2.0
# Compiler flags of everything that this project builds; none reach its users.
set(CMAKE_CXX_EXTENSIONS OFF)

add_compile_definitions(_FILE_OFFSET_BITS=64)
add_compile_options(
  -Wall -Wextra -Wpedantic -Wcast-qual -Wconversion -Wformat=2
  -Wimplicit-fallthrough -Wmissing-declarations -Wnon-virtual-dtor
  -Wold-style-cast -Woverloaded-virtual -Wshadow -Wundef -Wunused-result)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  add_compile_options(-Wcast-align=strict)  # also where the machine would not mind
  add_compile_options(-Wno-restrict)  # false alarms on std::string (GCC bug 105651)
elseif(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  add_compile_options(-Wcast-align)  # always strict, but only of C's casts
  add_compile_options(-Wsign-conversion)  # GCC's dislikes `n += flag ? 1 : 0`
  add_compile_options(-Wno-deprecated-declarations)  # libstdc++ 12's own stable_sort
endif()
if(WEIG_WERROR)
  add_compile_options(-Werror)
endif()

if(WEIG_SANITIZE)
  add_compile_options(-fsanitize=${WEIG_SANITIZE} -fno-sanitize-recover=all
                      -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${WEIG_SANITIZE})
endif()
